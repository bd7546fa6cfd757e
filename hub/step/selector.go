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

// maxTargets bounds what a browser begins with of them, as JSON.
const maxTargets = 512 << 10

// targetOf returns the target that an entry of type selector is; false for another value, which a
// person or an agent wrote.
func targetOf(key string, value json.RawMessage) (browserlink.Target, bool) {
	var is browserlink.Target
	if json.Unmarshal(value, &is) != nil {
		return is, false
	}
	is.Page, is.Words, _ = strings.Cut(key, " ")
	return is, is.Check() == nil
}

// targets returns what a task's browser begins with. They are hints: without them, the browser
// starts all the same.
func (s browsers) targets(ctx context.Context, t db.Task, p *persona.Persona) []browserlink.Target {
	if p.Context.MemoryTokens == 0 {
		return nil // the memory is turned off
	}
	rows, err := s.cfg.Memories.Selectors(ctx, memory.RunOf(t), browserlink.MaxTargets)
	if err != nil {
		s.cfg.Log.Warn("cannot read what targets meant in earlier runs", "task_id", t.ID, "error", err)
		return nil
	}
	var out []browserlink.Target
	size := 0
	for _, row := range rows {
		if row.Source == memory.ByImport && row.ConfirmedBy == "" {
			continue
		}
		one, ok := targetOf(row.Key, row.Value)
		if !ok {
			continue
		}
		if size += len(row.Key) + len(row.Value); size > maxTargets {
			break
		}
		out = append(out, one)
	}
	return out
}

// used remembers what became of the target of a step that has ended. If it cannot, the step is done
// all the same.
func (s browsers) used(ctx context.Context, t db.Task, step db.Step, used *browserlink.UsedTarget) {
	if used == nil {
		return
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		s.cfg.Log.Warn("cannot remember what a target meant", "task_id", t.ID, "step_id", step.ID, "error", err)
		return
	}
	if p.Context.MemoryTokens == 0 {
		return
	}
	r := memory.RunOf(t)
	var value any // none if it missed
	if used.Role != "" {
		value = map[string]any{"role": used.Role, "name": used.Name}
	}
	key := used.Page + " " + used.Words
	if len([]rune(key)) > memory.MaxKey {
		return
	}
	err = s.cfg.Memories.UseSelector(ctx, r.Viewer, memory.Draft{
		Scope: scope.Scope{Kind: scope.Agent, ID: t.AgentID}, Key: key, Value: value,
		Source: memory.Source{Kind: memory.ByAgent, User: t.CreatedBy, AgentID: t.AgentID, TaskID: t.ID, StepID: step.ID},
	}, used.Hit, used.Missed)
	if err != nil && fault.As(err) == nil { // a fault is about the value: it looks like a secret, for example
		s.cfg.Log.Warn("cannot remember what a target meant", "task_id", t.ID, "step_id", step.ID, "error", err)
	}
}
