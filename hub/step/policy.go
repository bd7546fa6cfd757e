package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// policies returns the policies that apply to a task's calls.
func (s *Steps) policies(ctx context.Context, q *db.Queries, t db.Task, now bool) (policy.Set, error) {
	version, err := s.cfg.Agents.VersionIn(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	return s.cfg.Policies.For(ctx, q, t.OrgID, t.AgentID, version, now)
}

// decide returns the decision of a set of policies on a call. before is the number of its
// step; 0 for one that is not stored yet.
func (s *Steps) decide(ctx context.Context, q *db.Queries, l *looks, t db.Task, p *persona.Persona, set policy.Set, c policy.Call, before int32) (policy.Decision, error) {
	c, err := s.situation(ctx, q, l, t, p, set, c, before)
	if err != nil {
		return policy.Decision{}, err
	}
	if record := s.cfg.Tools.Get(c.Tool); record != nil && record.Machines() {
		set, c.Folders = append(slices.Clone(set), policy.Machine(p.Host)), p.Host.Paths
	}
	d := set.Decide(c)
	if look, ok := c.Now.(*changed); ok && look.failed != nil {
		return policy.Decision{}, fmt.Errorf("find what task %s has changed: %w", t.ID, look.failed)
	}
	if err := l.unseen(set, c); err != nil {
		return policy.Decision{}, err
	}
	d.Command, d.Why = s.cfg.Redact.Org(t.OrgID).String(d.Command), s.cfg.Redact.Org(t.OrgID).String(d.Why)
	return d, nil
}

// situation adds to a call what policies evaluate besides its arguments: the caller, the
// time, the node, and the content of the files that it runs.
func (s *Steps) situation(ctx context.Context, q *db.Queries, l *looks, t db.Task, p *persona.Persona, set policy.Set, c policy.Call, before int32) (policy.Call, error) {
	c.Agent, c.Mode, c.At = p.Name, string(p.Mode), time.Now()
	var err error
	if set.NeedsAgent() {
		if c.Agent, err = s.cfg.Agents.NameOf(ctx, q, t.OrgID, t.AgentID); err != nil {
			return c, err
		}
	}
	if set.NeedsLabels() && t.NodeID != nil {
		raw, err := q.LabelsOfNode(ctx, db.LabelsOfNodeParams{OrgID: t.OrgID, ID: *t.NodeID})
		if err != nil && !store.IsNotFound(err) {
			return c, fmt.Errorf("read the labels of node %s: %w", *t.NodeID, err)
		}
		if err == nil {
			if err := json.Unmarshal(raw, &c.Labels); err != nil {
				return c, fmt.Errorf("read the labels of node %s: %w", *t.NodeID, err)
			}
		}
	}
	if set.NeedsUndoable(c.Tool) {
		if c, err = s.undoable(ctx, t, l, c); err != nil {
			return c, err
		}
	}
	if toolname.IsBrowser(c.Tool) {
		// The address of a call that names one goes first.
		if c.PageHost, err = q.BrowserHost(ctx, db.BrowserHostParams{OrgID: t.OrgID, TaskID: t.ID, Before: before}); err != nil && !store.IsNotFound(err) {
			return c, fmt.Errorf("read which page the browser of task %s shows: %w", t.ID, err)
		}
	}
	if c, err = s.typing(ctx, q, t, c, before); err != nil {
		return c, err
	}
	if c.Runs() {
		written, settled, err := s.writtenBefore(ctx, q, t, before)
		if err != nil {
			return c, err
		}
		c.Written = written
		if settled && t.NodeID != nil {
			c.Now = &changed{ctx: ctx, steps: s, q: q, task: t, before: before, record: written, looks: l}
		}
	}
	return c, nil
}

// limited returns a refusal if a tool or its category was called as often as a policy
// allows. counted reports whether a policy counts such calls.
func (s *Steps) limited(ctx context.Context, q *db.Queries, orgID, name, category string, set policy.Set) (counted bool, refused *fault.Error, err error) {
	limits := set.Limits(name, category)
	if len(limits) == 0 {
		return false, nil, nil
	}
	l, err := s.cfg.Policies.Reached(ctx, q, orgID, limits)
	if err != nil || l == nil {
		return true, nil, err
	}
	what := l.Tool
	if what == "" {
		what = l.Category + " tools"
	}
	return true, fault.New(fault.Exhausted, "%s may be called %d times in %s, and were", what, l.Calls, l.Per).
		WithCode(fault.RateLimited).WithFix("go on without it, or wait"), nil
}

// auditDecision records the decision about a call in the audit log, unless the call is an
// ordinary one that is allowed, or one that cannot be made: a mistake of the model in its
// arguments or the tool's name. The arguments are in the step.
func auditDecision(tx *event.Tx, t db.Task, step db.Step, d policy.Decision) error {
	e := audit.Entry{OrgID: t.OrgID, By: event.Actor{Kind: "agent", ID: t.AgentID}, ObjectKind: "step", ObjectID: step.ID, Reason: cmp.Or(step.DecisionReason, d.Why)}
	switch state := State(step.State); {
	case len(d.Dangers) > 0:
		e.Action, e.Reason = "policy.dangerous", d.Why
		if state == Granted || state == Started {
			e.Severity = audit.Critical // nobody is asked
		}
	case state == Denied && step.ErrorCode != string(fault.InvalidParameters) && step.ErrorCode != string(fault.ToolNotFound):
		e.Action = "call.denied"
	case state == Waiting && step.Tool != toolname.RequestInput && step.Tool != toolname.CompleteTask: // those ask by themselves
		e.Action = "call.asked"
	case d.Answered:
		e.Action = "call.auto_approved"
	default:
		return nil
	}
	e.After = map[string]any{
		"task_id": t.ID, "tool": step.Tool, "category": step.Category, "state": step.State, "rule": d.Rule,
		// What the task has used before the call.
		"tokens": t.InputTokens + t.OutputTokens, "cost_micros": t.CostMicros,
	}
	if step.ErrorCode != "" {
		e.After["error_code"] = step.ErrorCode
	}
	if len(d.Dangers) > 0 {
		e.After["dangers"], e.After["command"] = d.Dangers, d.Command
	}
	return audit.Append(tx, e)
}

// redecide returns the decision of the current policies on a step's call.
func (s *Steps) redecide(ctx context.Context, q *db.Queries, l *looks, t db.Task, step db.Step, raw []byte) (policy.Decision, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return policy.Decision{}, err
	}
	set, err := s.policies(ctx, q, t, true)
	if err != nil {
		return policy.Decision{}, err
	}
	var arguments map[string]any
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return policy.Decision{}, fmt.Errorf("read arguments of step %s: %w", step.ID, err)
	}
	return s.decide(ctx, q, l, t, p, set, policy.Call{Tool: step.Tool, Category: step.Category, Arguments: arguments}, step.Number)
}

// deniedNow says why the current policies deny a granted or waiting step.
func deniedNow(d policy.Decision) string {
	return "the policy has changed, and denies it now: " + d.Why
}

// denySince ends a granted or waiting step, and says why. d is the decision of the current
// policies.
func (s *Steps) denySince(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, d policy.Decision, code fault.Code, why string) error {
	why = s.cfg.Redact.Org(step.OrgID).String(why)
	if State(step.State) == Granted {
		var err error
		if step, err = s.move(ctx, tx, step, db.ResolveStepParams{State: string(Waiting), DecisionReason: why}); err != nil {
			return err
		}
	}
	step, err := s.move(ctx, tx, step, db.ResolveStepParams{
		State: string(Denied), DecisionReason: why, ErrorCode: string(code),
		Observation: fmt.Sprintf("error %s: %s; it was not made", code, why),
	})
	if err != nil {
		return err
	}
	return auditDecision(tx, t, step, d)
}

// recategorised returns a tool with the category that the policies assign to it.
func recategorised(record *tool.Tool, set policy.Set) *tool.Tool {
	if record.AdminDecides != "" || record.Machine {
		return record // no policy hands the decision to others than administrators
	}
	registered := tool.CategoryName(record.Category)
	if name := set.Category(record.Name, registered); name != registered {
		other := *record
		other.Category = tool.CategoryOf(name)
		return &other
	}
	return record
}
