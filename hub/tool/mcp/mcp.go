// Package mcp stores the tools that the MCP servers of agents offer. The tools that a
// server offers first are accepted with the persona that names the server. From then on a
// changed definition, or a new tool, cannot be used until a person has accepted it: the
// model keeps the accepted definition, and a call waits in the inbox. deckhand-skill
// compares the definition right before each call, and refuses a call whose definition is
// not the accepted one.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Offered takes up what a server of a task's agent offers now: all that it
// offers.
func Offered(ctx context.Context, tx *event.Tx, t db.Task, server *persona.MCPServer, tools []tool.Definition) error {
	rows, err := tx.LockMCPTools(ctx, db.LockMCPToolsParams{OrgID: t.OrgID, AgentID: t.AgentID, Server: server.Name})
	if err != nil {
		return fmt.Errorf("load the tools of MCP server %s: %w", server.Name, err)
	}
	known := map[string]db.McpTool{}
	for _, row := range rows {
		known[row.Name] = row
	}
	for _, one := range tools {
		name := tool.MCPName(server.Name, one.Name)
		row, ok := known[name]
		delete(known, name)
		switch {
		case !ok:
			err = add(ctx, tx, t, server, one, len(rows) == 0)
		case one.Digest == agreedDigest(row):
			err = offer(ctx, tx, t, row, nil, false)
		default:
			err = offer(ctx, tx, t, row, &one, false)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if err := offer(ctx, tx, t, known[name], nil, true); err != nil {
			return err
		}
	}
	return nil
}

// Changed records the current definition of one tool, or nil if the server no longer
// offers it.
func Changed(ctx context.Context, tx *event.Tx, t db.Task, name string, now *tool.Definition) error {
	row, err := tx.MCPTool(ctx, db.MCPToolParams{OrgID: t.OrgID, AgentID: t.AgentID, Name: name})
	if err != nil {
		return fmt.Errorf("load tool %s: %w", name, err)
	}
	return offer(ctx, tx, t, row, now, now == nil)
}

func agreedDigest(row db.McpTool) string {
	if row.AgreedDigest == nil {
		return ""
	}
	return *row.AgreedDigest
}

// add stores a tool that was not there before.
func add(ctx context.Context, tx *event.Tx, t db.Task, server *persona.MCPServer, one tool.Definition, first bool) error {
	data, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("encode tool %s of MCP server %s: %w", one.Name, server.Name, err)
	}
	definition, name := string(data), tool.MCPName(server.Name, one.Name)
	if first {
		_, err = tx.AddMCPTool(ctx, db.AddMCPToolParams{
			OrgID: t.OrgID, AgentID: t.AgentID, Name: name, Server: server.Name, Tool: one.Name, Definition: &definition, Digest: &one.Digest,
		})
		return err
	}
	if _, err = tx.AddOfferedMCPTool(ctx, db.AddOfferedMCPToolParams{
		OrgID: t.OrgID, AgentID: t.AgentID, Name: name, Server: server.Name, Tool: one.Name, Definition: &definition, Digest: &one.Digest,
	}); err != nil {
		return fmt.Errorf("store tool %s: %w", name, err)
	}
	return tell(tx, t, name, server.Name, "is new")
}

// offer notes what a server offers instead of what was agreed on, nil for
// that itself.
func offer(ctx context.Context, tx *event.Tx, t db.Task, row db.McpTool, now *tool.Definition, gone bool) error {
	params := db.OfferMCPToolParams{OrgID: t.OrgID, AgentID: t.AgentID, Name: row.Name, Gone: gone}
	switch {
	case now != nil:
		data, err := json.Marshal(now)
		if err != nil {
			return fmt.Errorf("encode tool %s: %w", row.Name, err)
		}
		definition := string(data)
		params.Definition, params.Digest = &definition, &now.Digest
	case row.Agreed == nil:
		// It was not accepted: the previous definition stays, for the record.
		params.Definition, params.Digest = row.Offered, row.OfferedDigest
	}
	changed, err := tx.OfferMCPTool(ctx, params)
	if err != nil || changed == 0 {
		return err
	}
	switch {
	case gone:
		return tell(tx, t, row.Name, row.Server, "is not offered any more")
	case now != nil:
		return tell(tx, t, row.Name, row.Server, "is another one than was agreed on")
	}
	return tell(tx, t, row.Name, row.Server, "is again what was agreed on")
}

func tell(tx *event.Tx, t db.Task, name, server, what string) error {
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.MCPToolChanged, Payload: map[string]any{
		"tool": name, "server": server, "change": what,
	}})
}

// ToolStatus is the state of an MCP server's tool for an agent.
type ToolStatus struct {
	Server *persona.MCPServer
	// Tool is the server's name for it.
	Tool string
	// Record is what the model gets.
	Record *deckhandv1.Tool
	// Digest is that of the definition that a call would be bound to: the accepted one,
	// or the one that a person has to accept.
	Digest string
	// Ask is why a person has to accept the tool first; empty if that is not needed. Was
	// and Is are the definitions, Was empty for a new tool.
	Ask     string
	Was, Is string
	// Gone reports that the server no longer offers it.
	Gone bool
}

// Get returns a tool by the model's name, or nil: of no server of the persona's,
// or one that it may not use, or never offered.
func Get(ctx context.Context, q *db.Queries, t db.Task, p *persona.Persona, name string) (*ToolStatus, error) {
	if p.MCPServerOf(name) == nil {
		return nil, nil
	}
	row, err := q.MCPTool(ctx, db.MCPToolParams{OrgID: t.OrgID, AgentID: t.AgentID, Name: name})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load tool %s: %w", name, err)
	}
	return toolStatus(row, p)
}

// All returns the tools that an agent has of its MCP servers, by name.
func All(ctx context.Context, q *db.Queries, t db.Task, p *persona.Persona) ([]*ToolStatus, error) {
	rows, err := q.MCPToolsOf(ctx, db.MCPToolsOfParams{OrgID: t.OrgID, AgentID: t.AgentID})
	if err != nil {
		return nil, fmt.Errorf("load the tools of the agent's MCP servers: %w", err)
	}
	var out []*ToolStatus
	for _, row := range rows {
		s, err := toolStatus(row, p)
		if err != nil {
			return nil, err
		}
		if s != nil && !s.Gone {
			out = append(out, s)
		}
	}
	return out, nil
}

func toolStatus(row db.McpTool, p *persona.Persona) (*ToolStatus, error) {
	s := &ToolStatus{Server: p.MCPServerOf(row.Name), Tool: row.Tool, Digest: agreedDigest(row), Gone: row.Gone}
	if s.Server == nil || s.Server.Tools != nil && !slices.Contains(s.Server.Tools, row.Tool) {
		return nil, nil
	}
	if row.Agreed != nil {
		s.Was = *row.Agreed
	}
	if row.Offered != nil {
		s.Is, s.Digest = *row.Offered, *row.OfferedDigest
		s.Ask = fmt.Sprintf("the MCP server %s has changed what the tool %s is since it was agreed on; to approve the call is to agree to it", row.Server, row.Tool)
		if row.Agreed == nil {
			s.Ask = fmt.Sprintf("the tool %s is new on the MCP server %s; to approve the call is to agree to it", row.Tool, row.Server)
		}
	}
	var definition tool.Definition
	if s.Was == "" {
		// A definition that was not accepted is not shown to the model.
		definition = tool.Definition{
			Name: row.Tool, InputSchema: json.RawMessage(`{"type":"object"}`),
			Description: "This tool is new on its MCP server, and nobody has agreed to it yet. A call of it waits for a person.",
		}
	} else if err := json.Unmarshal([]byte(s.Was), &definition); err != nil {
		return nil, fmt.Errorf("read the definition of tool %s: %w", row.Name, err)
	}
	var err error
	s.Record, err = definition.Proto(s.Server)
	return s, err
}

// Agree records that the definition with that digest was accepted; the tool's server must
// still offer it.
func Agree(ctx context.Context, q *db.Queries, t db.Task, name, digest, by string) error {
	n, err := q.AgreeMCPTool(ctx, db.AgreeMCPToolParams{OrgID: t.OrgID, AgentID: t.AgentID, Name: name, Digest: &digest, AgreedBy: by})
	if err != nil {
		return fmt.Errorf("agree to tool %s: %w", name, err)
	}
	if n == 0 {
		return fault.New(fault.Precondition, "the definition of tool %s has changed again since it was shown", name).
			WithFix("reject the call; the agent may ask anew")
	}
	return nil
}
