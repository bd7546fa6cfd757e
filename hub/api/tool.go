package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/mcp"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tools serves ToolService: the registry, and what calls would get from an agent. It needs
// the dependencies of Policies.
type Tools struct{ *Policies }

// toolUser is an agent whose use of tools is asked about.
type toolUser struct {
	name     string
	persona  *persona.Persona
	policies policy.Set
	// mcp are the tools of its MCP servers.
	mcp []*mcp.ToolStatus
}

// toolUser returns the agent that ref names; nil for "".
func (h *Tools) toolUser(ctx context.Context, ref string) (*toolUser, error) {
	id, err := h.agent(ctx, ref)
	if err != nil || id == "" {
		return nil, err
	}
	org := auth.From(ctx).OrgID
	row, err := h.Agents.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	u := &toolUser{name: row.Agent.Name}
	if u.persona, err = h.Agents.PersonaOf(ctx, h.Queries, org, id, row.Agent.CurrentVersion); err != nil {
		return nil, err
	}
	if u.policies, err = h.Policies.Policies.For(ctx, h.Queries, org, id, db.AgentVersion{}, true); err != nil {
		return nil, err
	}
	u.mcp, err = mcp.All(ctx, h.Queries, db.Task{OrgID: org, AgentID: id}, u.persona)
	return u, err
}

// entry returns a tool as the caller and an agent may use it.
func (h *Tools) entry(ctx context.Context, k known, u *toolUser, arguments string) (*deckhandv1.ToolEntry, error) {
	who, shown := auth.From(ctx), k.shown
	e := &deckhandv1.ToolEntry{
		Tool: shown, RoleCovers: tool.Covers(who.Role, shown.GetCategory()), ArgumentsJson: cmp.Or(arguments, tool.Example(shown.GetDescription())),
	}
	if u == nil {
		return e, nil
	}
	c := policy.Call{Tool: shown.GetName(), Category: tool.CategoryName(shown.GetCategory()), Agent: u.name, Mode: string(u.persona.Mode), At: time.Now(), Arguments: map[string]any{}}
	if e.GetArgumentsJson() != "" {
		if err := json.Unmarshal([]byte(e.GetArgumentsJson()), &c.Arguments); err != nil {
			return nil, fault.New(fault.Invalid, "arguments_json is no JSON object").WithFix(`write one such as {"command":"ls"}`)
		}
	}
	c.Category = u.policies.Category(c.Tool, c.Category)
	decided := u.policies.Decide(c)
	e.Use = &deckhandv1.ToolUse{AgentName: u.name, Category: tool.CategoryOf(c.Category), Decision: h.decision(ctx, decided)}
	as := *k.record
	as.Category = e.GetUse().GetCategory()
	effect, why := step.Verdict(&as, u.persona, decided, nil)
	if k.ask != "" && effect != policy.Deny {
		effect, why = policy.Ask, k.ask
	}
	e.Use.Effect, e.Use.Why = string(effect), maskOf(ctx, h.Redact).String(why)
	return e, nil
}

// known is a tool with its record, which those of MCP servers share.
type known struct {
	record *tool.Tool
	shown  *deckhandv1.Tool
	// ask is why a person must accept a tool of an MCP server first; empty for none.
	ask string
}

// all returns the tools of this release and those of an agent's MCP servers, by name.
func (h *Tools) all(u *toolUser) []known {
	var out []known
	for _, name := range h.Policies.Tools.Names() {
		out = append(out, known{record: h.Policies.Tools.Get(name), shown: h.Policies.Tools.Record(name)})
	}
	if u == nil {
		return out
	}
	var served []known
	for _, one := range u.mcp {
		served = append(served, known{h.Policies.Tools.Get(one.Record.GetName()), one.Record, one.Ask})
	}
	slices.SortFunc(served, func(a, b known) int { return strings.Compare(a.shown.GetName(), b.shown.GetName()) })
	return append(out, served...)
}

// ListTools returns the registry.
func (h *Tools) ListTools(ctx context.Context, req *deckhandv1.ListToolsRequest) (*deckhandv1.ListToolsResponse, error) {
	m := req
	u, err := h.toolUser(ctx, m.GetAgentId())
	if err != nil {
		return nil, err
	}
	if m.GetListed() && u == nil {
		return nil, fault.New(fault.Invalid, "listed is set and agent_id is empty").WithFix("name the agent whose tools to list")
	}
	tools, query := h.all(u), strings.ToLower(m.GetQuery())
	if last := m.GetPageToken(); last != "" {
		at := slices.IndexFunc(tools, func(k known) bool { return k.shown.GetName() == last })
		if at < 0 {
			return nil, fault.New(fault.Invalid, "page_token %.100q is of no page", m.GetPageToken()).WithFix("give next_page_token of the page before, or leave it out")
		}
		tools = tools[at+1:]
	}
	res := &deckhandv1.ListToolsResponse{}
	for _, k := range tools {
		if m.GetKind() != deckhandv1.ToolKind_TOOL_KIND_UNSPECIFIED && k.shown.GetKind() != m.GetKind() ||
			!strings.Contains(strings.ToLower(k.shown.GetName()+"\n"+k.shown.GetDescription()), query) {
			continue
		}
		e, err := h.entry(ctx, k, u, "")
		if err != nil {
			return nil, err
		}
		if m.GetListed() && e.GetUse().GetEffect() == string(step.Missing) {
			continue
		}
		if len(res.GetTools()) == int(cmp.Or(m.GetPageSize(), listPage)) {
			res.NextPageToken = res.GetTools()[len(res.GetTools())-1].GetTool().GetName()
			break
		}
		res.Tools = append(res.Tools, e)
	}
	return res, nil
}

// GetTool returns one tool, and what a call would get.
func (h *Tools) GetTool(ctx context.Context, req *deckhandv1.GetToolRequest) (*deckhandv1.GetToolResponse, error) {
	m := req
	u, err := h.toolUser(ctx, m.GetAgentId())
	if err != nil {
		return nil, err
	}
	tools := h.all(u)
	at := slices.IndexFunc(tools, func(k known) bool { return k.shown.GetName() == m.GetName() })
	if at < 0 {
		e := fault.New(fault.NotFound, "there is no tool %.100q", m.GetName()).WithObject(m.GetName())
		if tool.IsMCP(m.GetName()) && u == nil {
			return nil, e.WithFix("name an agent that has the MCP server: its tools are known when one of its tasks has started")
		}
		return nil, e.WithFix("see them: deckhand tool list")
	}
	if m.GetArgumentsJson() != "" {
		if _, err := toolargs.Check(tools[at].shown, m.GetArgumentsJson()); err != nil {
			return nil, err
		}
	}
	e, err := h.entry(ctx, tools[at], u, m.GetArgumentsJson())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetToolResponse{Tool: e}, nil
}
