package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// grantAlone stores a call that is granted without conditions in a single statement, and
// starts it if it can start at once. For any other call it stores nothing and returns
// done false: the caller then uses a transaction.
func (s *Steps) grantAlone(ctx context.Context, orgID string, le lease.Lease, p Proposal, l *looks) (step db.Step, done bool, err error) {
	if slices.Contains(tool.Giving, p.Tool) {
		return step, false, nil // decided under the task's lock
	}
	if record := s.cfg.Tools.Get(p.Tool); record != nil && record.UnderLock() {
		return step, false, nil // it is made on another node than the task's
	}
	t, err := s.cfg.Store.GetLeasedTask(ctx, db.GetLeasedTaskParams{ID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token)})
	if store.IsNotFound(err) {
		return step, false, nil
	}
	if err != nil {
		return step, false, fmt.Errorf("load task %s: %w", le.TaskID, err)
	}
	if t.OrgID != orgID || t.PauseNext != "" {
		return step, false, nil
	}
	d, err := s.draft(ctx, s.cfg.Store.Queries, l, t, p)
	if err != nil || State(d.params.State) != Granted || len(d.decision.Dangers) > 0 || d.decision.Answered || d.counted || d.params.Checkpoint != "" {
		return step, false, err
	}
	step = d.step()
	drafts := []event.Draft{d.event(step)}
	taken, err := takenOver(ctx, s.cfg.Store.Queries, step)
	if err != nil {
		return step, false, err
	}
	if p.AtOnce && taken == "" && s.ready(step) {
		step.State = string(Started)
		drafts = append(drafts, executing(step))
	}
	err = s.cfg.Recorder.AppendWith(orgID, t.ID, func(types, payloads []string) error {
		row, err := s.cfg.Store.GrantLeasedStep(ctx, db.GrantLeasedStepParams{
			OrgID: orgID, TaskID: t.ID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), ID: step.ID, Turn: step.Turn,
			CallIndex: step.CallIndex, CallID: step.CallID, Tool: step.Tool, Category: step.Category, Arguments: step.Arguments,
			ArgumentsSealed: step.ArgumentsSealed, ArgumentsDigest: step.ArgumentsDigest, Reasoning: step.Reasoning,
			State: step.State, DecisionReason: step.DecisionReason, Decision: step.Decision, Types: types, Payloads: payloads, OnNode: onNode(s, step),
		})
		step.Number, step.ProposedAt, step.StartedAt = row.Number, row.ProposedAt, row.StartedAt
		return err
	}, drafts...)
	if store.IsNotFound(err) {
		return db.Step{}, false, nil
	}
	if err != nil {
		return step, false, fmt.Errorf("store step: %w", err)
	}
	if State(step.State) == Started {
		logStart(ctx, s.cfg.Log, step, le.Attempt)
	}
	s.granted.put(step, t)
	return step, true, nil
}

// step returns the row of a granted step; the database sets its number and times.
func (d draft) step() db.Step {
	p := d.params
	return db.Step{
		ID: p.ID, OrgID: p.OrgID, TaskID: p.TaskID, Turn: p.Turn, CallIndex: p.CallIndex, CallID: p.CallID,
		Attempt: p.Attempt, Tool: p.Tool, Category: p.Category, Arguments: p.Arguments, ArgumentsSealed: p.ArgumentsSealed,
		ArgumentsDigest: p.ArgumentsDigest, Reasoning: p.Reasoning, State: p.State, DecisionReason: p.DecisionReason, Decision: p.Decision,
		Outcome: json.RawMessage("{}"), NodeID: p.NodeID, JailID: p.JailID, Run: 1, ExecID: p.ID,
	}
}

// recentGrants caches the steps that this hub granted most recently, with their tasks, so
// that executing one need not load it again. The database verifies that a cached step is
// current.
type recentGrants struct{ cache *lru.Cache[string, grant] }

type grant struct {
	step db.Step
	task db.Task
}

const (
	// maxGrants is the number of cached grants, and maxGrantedBytes the size of arguments
	// up to which one is cached.
	maxGrants       = 1024
	maxGrantedBytes = 16 << 10
)

func newGrants() *recentGrants {
	cache, err := lru.New[string, grant](maxGrants)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &recentGrants{cache}
}

func (g *recentGrants) put(step db.Step, t db.Task) {
	if len(step.ArgumentsSealed) <= maxGrantedBytes {
		g.cache.Add(step.ID, grant{step, t})
	}
}

// take removes a cached grant and returns it.
func (g *recentGrants) take(orgID string, le lease.Lease, stepID string) (grant, bool) {
	got, ok := g.cache.Peek(stepID)
	if !ok || got.step.OrgID != orgID || got.task.ID != le.TaskID || got.task.Attempt != le.Attempt {
		return grant{}, false
	}
	g.cache.Remove(stepID)
	return got, true
}
