package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/mcp"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// deferFrom is the number of MCP tools up to which a model gets all definitions. Of more
// tools it gets only the names; it finds their definitions with tool_search.
const deferFrom = 20

// servers asks the task's MCP servers for their tools. It returns the records of the
// tools and the problems with servers. An unreachable server is no error: the tools that
// it offered before can still be called.
func (s *Steps) servers(ctx context.Context, t db.Task, p *persona.Persona, call tool.Call) ([]*deckhandv1.Tool, []string, error) {
	if len(p.MCP) == 0 {
		return nil, nil, nil
	}
	role, whose, err := s.role(ctx, s.cfg.Store.Queries, t)
	if err != nil {
		return nil, nil, err
	}
	call.OfflineGrace, call.OutputLimit = p.OfflineGrace, p.OutputBytes
	call.Live = func(context.Context) bool { return true }
	var problems []string
	for i := range p.MCP {
		server := &p.MCP[i]
		if !tool.Covers(role, tool.CategoryOf(server.Category)) {
			problems = append(problems, fmt.Sprintf("the MCP server %s was not started: its tools are %s, and the role %s of the one who %s does not allow them",
				server.Name, server.Category, role, whose))
			continue
		}
		call.MCP = &tool.MCP{Server: server, TaskID: t.ID}
		tools, left, err := tool.ListMCP(ctx, call)
		if ctx.Err() != nil || fault.Is(err, fault.Unavailable) {
			return nil, nil, err
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("the MCP server %s cannot be had: %s", server.Name, s.cfg.Redact.Org(t.OrgID).String(fault.As(err).Message)))
			continue
		}
		sound := tools[:0]
		for _, one := range tools {
			if err := usable(one, server); err != nil {
				left = append(left, fmt.Sprintf("%.128q: %s", one.Name, err))
				continue
			}
			sound = append(sound, one)
		}
		for _, why := range left {
			problems = append(problems, fmt.Sprintf("of the MCP server %s a tool was left out: %s", server.Name, s.cfg.Redact.Org(t.OrgID).String(why)))
		}
		if err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			return mcp.Offered(ctx, tx, t, server, sound)
		}); err != nil {
			return nil, nil, err
		}
	}
	all, err := mcp.All(ctx, s.cfg.Store.Queries, t, p)
	if err != nil {
		return nil, nil, err
	}
	var out []*deckhandv1.Tool
	for _, one := range all {
		one.Record.Deferred = len(all) > deferFrom
		out = append(out, one.Record)
	}
	if len(all) > deferFrom {
		for _, name := range tool.ToFind() {
			out = append(out, s.cfg.Tools.Record(name))
		}
	}
	return out, problems, nil
}

// usable returns why a tool's definition cannot be used, or nil.
func usable(one tool.Definition, server *persona.MCPServer) error {
	record, err := one.Proto(server)
	if err != nil {
		return err
	}
	return toolargs.Valid(record)
}

// recordOf returns the current record of a tool for a task; nil if there is none.
func (s *Steps) recordOf(ctx context.Context, q *db.Queries, t db.Task, p *persona.Persona, name string) (*deckhandv1.Tool, error) {
	if !tool.IsMCP(name) {
		return s.cfg.Tools.Record(name), nil
	}
	standing, err := mcp.Get(ctx, q, t, p, name)
	if err != nil || standing == nil {
		return nil, err
	}
	return standing.Record, nil
}

// mcpCall returns the data that a call of an MCP server's tool needs.
func (s *Steps) mcpCall(ctx context.Context, t db.Task, p *persona.Persona, step db.Step) (*tool.MCP, error) {
	standing, err := mcp.Get(ctx, s.cfg.Store.Queries, t, p, step.Tool)
	if err != nil || standing == nil {
		return nil, err
	}
	return &tool.MCP{
		Server: standing.Server, TaskID: t.ID, Tool: standing.Tool, Digest: standing.Digest,
		Changed: func(ctx context.Context, now *tool.Definition) error {
			return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error { return mcp.Changed(ctx, tx, t, step.Tool, now) })
		},
	}, nil
}

// acceptToolDefinition records, with the approval of a call, that the definition of its
// tool was accepted as it was shown.
func (s *Steps) acceptToolDefinition(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, item db.InboxItem, by string) error {
	if !tool.IsMCP(step.Tool) {
		return nil
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	standing, err := mcp.Get(ctx, tx.Queries, t, p, step.Tool)
	if err != nil || standing == nil || standing.Ask == "" {
		return err
	}
	var bound map[string]string
	if err := json.Unmarshal(item.Binding, &bound); err != nil {
		return fmt.Errorf("read the binding of %s: %w", item.ID, err)
	}
	return mcp.Agree(ctx, tx.Queries, t, step.Tool, bound["definition"], by)
}

// showDefinition adds a tool's accepted and current definition to an approval request:
// the approval accepts the current one, so the request shows it whole.
func showDefinition(ask *inbox.NewItem, standing *mcp.ToolStatus, mask *redact.Redactor) {
	is, was := mask.String(standing.Is), mask.String(standing.Was)
	ask.Decision.Definition, ask.Decision.AgreedDefinition, ask.Decision.Source = is, was, inbox.SourceDefinition
	ask.Preview = "what the tool is now:\n" + cut(is) + "\n\nwhat was agreed on:\n" + cmp.Or(cut(was), "(nothing: it is new)") + "\n\nthe call:\n" + ask.Preview
	ask.More["definition"], ask.More["agreed_definition"] = cut(is), cut(was)
}
