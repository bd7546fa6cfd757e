package step

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// The elements that words meant on pages are entries of the memory, of type selector: the key is
// the page and the words, the value the role and name. They belong to the agent, for the task's
// user. Their names are what pages say, so no run is told them.

// targets returns what a task's browser begins with.
func (s browsers) targets(ctx context.Context, t db.Task, p *persona.Persona) ([]browserlink.Target, error) {
	if p.Context.MemoryTokens == 0 {
		return nil, nil // the memory is turned off
	}
	rows, err := s.cfg.Memories.Selectors(ctx, memory.RunOf(t), browserlink.MaxTargets)
	if err != nil {
		return nil, err
	}
	var out []browserlink.Target
	for _, row := range rows {
		var one browserlink.Target
		if json.Unmarshal(row.Value, &one) != nil { // a person wrote another value
			continue
		}
		var ok bool
		if one.Page, one.Words, ok = strings.Cut(row.Key, " "); ok && one.Role != "" {
			out = append(out, one)
		}
	}
	return out, nil
}

// used remembers what became of the target of a step.
func (s browsers) used(ctx context.Context, t db.Task, step db.Step, p *persona.Persona, used browserlink.UsedTarget) error {
	if p.Context.MemoryTokens == 0 {
		return nil
	}
	r := memory.RunOf(t)
	value := map[string]any{"role": used.Role, "name": used.Name, "nth": used.Nth, "of": used.Of}
	if used.Role == "" {
		value = nil
	}
	key := used.Page + " " + used.Words
	if len([]rune(key)) > memory.MaxKey {
		return nil
	}
	err := s.cfg.Memories.UseSelector(ctx, r.Viewer, memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: t.AgentID}, Key: key, Value: value,
		Source: memory.Source{Kind: memory.ByAgent, User: t.CreatedBy, AgentID: t.AgentID, TaskID: t.ID, StepID: step.ID},
	}, used.Hit, used.Missed)
	if fault.As(err) != nil {
		return nil // it may not be stored, for example since it looks like a secret
	}
	return err
}
