package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/learn/trust"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// remembered is the memory of a task's agent, for one call. It implements tool.Memory. It has
// the rights of the task's user, as far as the task has them.
type remembered struct {
	steps *Steps
	t     db.Task
	step  db.Step
}

// scope returns the scope that an entry names.
func (r remembered) scope(ctx context.Context, e tool.MemoryEntry) (scope.Scope, error) {
	q := r.steps.cfg.Store.Queries
	v := visibility.Viewer{OrgID: r.t.OrgID, Name: r.t.CreatedBy}
	switch scope.Kind(e.Scope) {
	case scope.Agent:
		return scope.Scope{Kind: scope.Agent, ID: r.t.AgentID}, nil
	case scope.Workspace:
		return scope.Scope{Kind: scope.Workspace, ID: r.t.JailID}, nil
	case scope.Team:
		if e.Team == "" {
			return scope.Scope{}, fault.New(fault.Invalid, "the team is not named").WithCode(fault.InvalidParameters).WithFix("give its name as team")
		}
	}
	return scope.Resolve(ctx, q, v, scope.Scope{Kind: scope.Kind(e.Scope), ID: e.Team})
}

// viewer returns the task's user, with the role that limits the task.
func (r remembered) viewer(ctx context.Context) (visibility.Viewer, error) {
	role, _, err := r.steps.role(ctx, r.steps.cfg.Store.Queries, r.t)
	return visibility.Viewer{OrgID: r.t.OrgID, Name: r.t.CreatedBy, All: role == auth.Admin}, err
}

// Store implements tool.Memory.
func (r remembered) Store(ctx context.Context, e tool.MemoryEntry) (id string, untrusted bool, err error) {
	s, err := r.scope(ctx, e)
	if err != nil {
		return "", false, err
	}
	v, err := r.viewer(ctx)
	if err != nil {
		return "", false, err
	}
	if untrusted, err = trust.Lost(ctx, r.steps.cfg.Store.Queries, r.t.OrgID, r.t.ID); err != nil {
		return "", false, err
	}
	if value, err := json.Marshal(e.Value); err != nil {
		return "", false, fmt.Errorf("encode the value of %s: %w", e.Key, err)
	} else if _, is := targetOf(e.Key, value); is && e.Type == string(memory.Selector) {
		// The browser would act by it before a person has seen it.
		return "", false, fault.New(fault.Denied, "what words mean on a page is remembered by the browser itself").
			WithFix("do not store it, or store it as a fact")
	}
	d := memory.Draft{
		Scope: s, Type: memory.Type(e.Type), Key: e.Key, Value: e.Value, Confidence: e.Confidence, Untrusted: untrusted,
		Source: memory.Source{Kind: memory.ByAgent, User: r.t.CreatedBy, AgentID: r.t.AgentID, TaskID: r.t.ID, StepID: r.step.ID},
	}
	if e.TTL > 0 {
		at := time.Now().Add(e.TTL)
		d.ExpiresAt = &at
	}
	row, err := r.steps.cfg.Memories.Remember(ctx, v, d)
	return row.ID, row.Untrusted, err
}

// markUntrusted records that a task is about to read what anybody may have written, if a tool
// returns such text.
func (s *Steps) markUntrusted(ctx context.Context, t db.Task, record *tool.Tool) error {
	if t.UntrustedAt != nil || !record.Untrusted(true) {
		return nil
	}
	if !record.Untrusted(false) {
		p, err := s.persona(ctx, t)
		if err != nil {
			return err
		}
		if len(p.Egress.Rules) == 0 {
			return nil
		}
	}
	return trust.Mark(ctx, s.cfg.Store.Queries, t.OrgID, t.ID)
}

// Retrieve implements tool.Memory.
func (r remembered) Retrieve(ctx context.Context, question string, types []string, limit int) ([]tool.MemoryEntry, error) {
	q := r.steps.cfg.Store.Queries
	hits, err := r.steps.cfg.Memories.Recall(ctx, q, memory.RunOf(r.t), memory.Question{Text: question, Types: types, Limit: limit, Untrusted: true})
	if err != nil {
		return nil, err
	}
	out := make([]tool.MemoryEntry, len(hits))
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
		out[i] = tool.MemoryEntry{
			ID: h.ID, Scope: h.ScopeKind, Type: h.Type, Key: h.Key, Text: memory.Text(h.Value), Confidence: h.Confidence,
			Source: memory.SourceText(h.Memory), Untrusted: h.Untrusted,
		}
	}
	if slices.ContainsFunc(out, func(e tool.MemoryEntry) bool { return e.Untrusted }) {
		if err := trust.Mark(ctx, q, r.t.OrgID, r.t.ID); err != nil {
			return nil, err
		}
	}
	if len(ids) > 0 {
		if err := q.TouchMemories(ctx, db.TouchMemoriesParams{OrgID: r.t.OrgID, Ids: ids}); err != nil {
			return nil, fmt.Errorf("count the use of memories: %w", err)
		}
	}
	return out, nil
}

// Forget implements tool.Memory.
func (r remembered) Forget(ctx context.Context, e tool.MemoryEntry) (bool, error) {
	s, err := r.scope(ctx, e)
	if err != nil {
		return false, err
	}
	v, err := r.viewer(ctx)
	if err != nil {
		return false, err
	}
	return r.steps.cfg.Memories.Forget(ctx, v, memory.Draft{Scope: s, Type: memory.Type(e.Type), Key: e.Key})
}
