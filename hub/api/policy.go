package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Policies serves PolicyService.
type Policies struct {
	Policies *policy.Service
	Agents   *agent.Service
	Tools    *tool.Registry
	Redact   *redact.Redactor
	Queries  *db.Queries
}

const replaySteps = 200

// agent returns the id of the agent that ref names, and "" for none.
func (h *Policies) agent(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	return h.Agents.Find(ctx, viewer(ctx), ref)
}

// GetPolicy returns a version of a policy.
func (h *Policies) GetPolicy(ctx context.Context, req *deckhandv1.GetPolicyRequest) (*deckhandv1.GetPolicyResponse, error) {
	id, err := h.agent(ctx, req.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, err := h.Policies.Get(ctx, auth.From(ctx).OrgID, id, req.GetVersion())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetPolicyResponse{Policy: policyMessage(row)}, nil
}

func policyMessage(p db.Policy) *deckhandv1.Policy {
	m := &deckhandv1.Policy{AgentId: p.AgentID, Version: p.Version, Yaml: p.Yaml, CreatedBy: p.CreatedBy}
	if p.Version > 0 {
		m.CreatedAt = timestamppb.New(p.CreatedAt)
	}
	return m
}

// ApplyPolicy stores the next version of a policy.
func (h *Policies) ApplyPolicy(ctx context.Context, req *deckhandv1.ApplyPolicyRequest) (*deckhandv1.ApplyPolicyResponse, error) {
	who, m := auth.From(ctx), req
	id, err := h.agent(ctx, m.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, changed, err := h.Policies.Apply(ctx, who.OrgID, id, m.GetFile(), m.GetYaml(), actor(who), m.GetDryRun())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ApplyPolicyResponse{Policy: policyMessage(row), Changed: changed}, nil
}

// TestPolicy returns what a call would get.
func (h *Policies) TestPolicy(ctx context.Context, req *deckhandv1.TestPolicyRequest) (*deckhandv1.TestPolicyResponse, error) {
	who, m := auth.From(ctx), req
	c := policy.Call{Tool: m.GetTool(), Arguments: map[string]any{}, Labels: m.GetLabels(), At: time.Now()}
	if c.Tool == "" {
		c.Tool = toolname.ShellExec
	}
	if m.GetAt() != nil {
		c.At = m.GetAt().AsTime()
	}
	if m.GetArgumentsJson() != "" {
		if err := json.Unmarshal([]byte(m.GetArgumentsJson()), &c.Arguments); err != nil || c.Arguments == nil {
			return nil, fault.New(fault.Invalid, "arguments_json is no JSON object").WithFix(`write one such as {"command":"ls"}`)
		}
	}
	if record := h.Tools.Get(c.Tool); record != nil {
		c.Category = tool.CategoryName(record.Category)
	}
	id, err := h.agent(ctx, m.GetAgentId())
	if err != nil {
		return nil, err
	}
	if id != "" {
		row, err := h.Agents.Get(ctx, who.OrgID, id)
		if err != nil {
			return nil, err
		}
		c.Agent = row.Agent.Name
	}
	tested, err := h.Policies.Test(ctx, who.OrgID, id, m.GetYaml(), m.GetOwn(), c)
	if err != nil {
		return nil, err
	}
	mask := maskOf(ctx, h.Redact)
	res := &deckhandv1.TestPolicyResponse{Decision: h.decision(ctx, tested.Decision)}
	for _, command := range tested.Commands {
		res.Commands = append(res.Commands, mask.String(command))
	}
	for _, part := range tested.Parts {
		res.Parts = append(res.Parts, &deckhandv1.PolicyPart{
			Text: mask.String(part.Text), Line: int32(part.Line), Via: part.Via, Effect: string(part.Effect), Rule: part.Rule,
		})
	}
	if res.Agents, err = h.verdicts(ctx, id, m, c); err != nil {
		return nil, err
	}
	return res, nil
}

// maxVerdicts is for how many agents a test says what a call would get.
const maxVerdicts = 50

// verdicts returns what a call would get from an agent, or from each.
func (h *Policies) verdicts(ctx context.Context, agentID string, m *deckhandv1.TestPolicyRequest, c policy.Call) ([]*deckhandv1.AgentVerdict, error) {
	record := h.Tools.Get(c.Tool)
	if record == nil {
		return nil, nil
	}
	who := auth.From(ctx)
	rows, err := h.Agents.List(ctx, viewer(ctx), agent.Filter{Limit: maxVerdicts})
	if err != nil {
		return nil, err
	}
	if agentID != "" {
		rows = slices.DeleteFunc(rows, func(row db.ListAgentsRow) bool { return row.Agent.ID != agentID })
	}
	var out []*deckhandv1.AgentVerdict
	for _, row := range rows {
		p, err := h.Agents.PersonaOf(ctx, h.Queries, who.OrgID, row.Agent.ID, row.Agent.CurrentVersion)
		if err != nil {
			return nil, err
		}
		c.Agent = row.Agent.Name
		tested, err := h.Policies.Test(ctx, who.OrgID, row.Agent.ID, m.GetYaml(), m.GetOwn(), c)
		if err != nil {
			return nil, err
		}
		effect, why := step.Verdict(record, p, tested.Decision, c.Arguments)
		out = append(out, &deckhandv1.AgentVerdict{AgentName: row.Agent.Name, Effect: string(effect), Why: maskOf(ctx, h.Redact).String(why)})
	}
	return out, nil
}

func (h *Policies) decision(ctx context.Context, d policy.Decision) *deckhandv1.Decision {
	return &deckhandv1.Decision{
		Effect: string(d.Effect), Rule: d.Rule, Version: d.Version, Why: maskOf(ctx, h.Redact).String(d.Why), Command: maskOf(ctx, maskOf(ctx, h.Redact)).String(d.Command), Dangers: d.Dangers,
	}
}

// ReplayPolicy returns what a policy would have decided on the newest steps.
func (h *Policies) ReplayPolicy(ctx context.Context, req *deckhandv1.ReplayPolicyRequest) (*deckhandv1.ReplayPolicyResponse, error) {
	m := req
	id, err := h.agent(ctx, m.GetAgentId())
	if err != nil {
		return nil, err
	}
	n := m.GetSteps()
	if n == 0 {
		n = replaySteps
	}
	changed, read, unreadable, err := h.Policies.Replay(ctx, auth.From(ctx).OrgID, id, m.GetFile(), m.GetYaml(), n)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ReplayPolicyResponse{Steps: int32(read), Unreadable: int32(unreadable)} //nolint:gosec // at most 2000
	for _, c := range changed {
		res.Changed = append(res.Changed, &deckhandv1.ReplayedStep{
			StepId: c.Row.Step.ID, TaskId: c.Row.Step.TaskID, AgentName: c.Row.AgentName, Tool: c.Row.Step.Tool, Preview: c.Preview,
			Was: h.decision(ctx, c.Was), WouldBe: h.decision(ctx, c.WouldBe),
		})
	}
	return res, nil
}

// ListAllowRules returns the rules by which people always allow calls.
func (h *Policies) ListAllowRules(ctx context.Context, req *deckhandv1.ListAllowRulesRequest) (*deckhandv1.ListAllowRulesResponse, error) {
	v := viewer(ctx)
	rows, next, err := h.Policies.AllowRules(ctx, v.OrgID, v.Name, v.All, req.GetPast(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAllowRulesResponse{NextPageToken: next}
	for _, row := range rows {
		m := allowRuleMessage(row.AllowRule)
		m.AgentName = row.AgentName
		res.Rules = append(res.Rules, m)
	}
	return res, nil
}

func allowRuleMessage(r db.AllowRule) *deckhandv1.AllowRule {
	return &deckhandv1.AllowRule{
		Id: r.ID, AgentId: r.AgentID, Tool: r.Tool, Scope: r.Scope, Commands: r.Commands, Description: r.Description, ItemId: r.ItemID,
		CreatedBy: r.CreatedBy, CreatedAt: timestamppb.New(r.CreatedAt), ExpiresAt: timestamppb.New(r.ExpiresAt),
		RevokedBy: r.RevokedBy, RevokedAt: timestamp(r.RevokedAt),
	}
}

// RevokeAllowRule takes such a rule back.
func (h *Policies) RevokeAllowRule(ctx context.Context, req *deckhandv1.RevokeAllowRuleRequest) (*deckhandv1.RevokeAllowRuleResponse, error) {
	who := auth.From(ctx)
	rule, err := h.Policies.Revoke(ctx, who.OrgID, req.GetRuleId(), actor(who), who.Role)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RevokeAllowRuleResponse{Rule: allowRuleMessage(rule)}, nil
}
