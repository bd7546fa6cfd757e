package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// batch is how many events are read at once, and sweep how often.
	batch = 500
	sweep = time.Second
)

// The events after which something is found: what is said, and what may have changed
// the texts of a task, of a call, or of its result.
var (
	messages = kinds(eventkind.MessageReceived, eventkind.Thinking, eventkind.InputRequired, eventkind.InboxAnswered)
	ofTask   = kinds(eventkind.TaskSubmitted, eventkind.StateChanged, eventkind.ExecutionCompleted)
	ofCall   = kinds(eventkind.ToolSelected, eventkind.ToolDenied, eventkind.ToolDeferred, eventkind.InboxAnswered)
	ofOutput = kinds(eventkind.ToolCompleted, eventkind.ToolDenied, eventkind.OutcomeUnknown)
)

func kinds(all ...eventkind.Kind) (out []string) {
	for _, k := range all {
		out = append(out, string(k))
	}
	return out
}

// Indexer keeps the index. The leader runs it; a compare-and-swap of how far it has read
// keeps two apart while one takes over. It is a lifecycle.Service.
type Indexer struct {
	lifecycle.Runner

	Store *store.Store
	Log   hclog.Logger
}

// Start begins to read.
func (x *Indexer) Start(ctx context.Context) error {
	return x.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(sweep)
		defer tick.Stop()
		for {
			if err := x.Read(ctx); err != nil && ctx.Err() == nil {
				x.Log.Warn("cannot index events for the search; will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// Read indexes all there is of all organisations, in turns: a long history of one keeps no
// other's waiting.
func (x *Indexer) Read(ctx context.Context) error {
	positions, err := x.Store.SearchPositions(ctx, nil)
	if err != nil {
		return fmt.Errorf("see how far it was read: %w", err)
	}
	var failed []error
	for len(positions) > 0 && ctx.Err() == nil {
		// After the positions, and before the events, whose snapshots must be younger.
		horizon, err := x.Store.EventHorizon(ctx)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("find what is committed: %w", err))...)
		}
		var more []db.SearchPositionsRow
		for _, from := range positions {
			next, err := x.read(ctx, from, horizon)
			switch {
			case errors.Is(err, errMoved):
			case err != nil:
				failed = append(failed, fmt.Errorf("organisation %s: %w", from.OrgID, err))
			case next != nil:
				more = append(more, *next)
			}
		}
		positions = more
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// errMoved reports that another hub has read on.
var errMoved = errors.New("another hub was here")

// read indexes a batch of an organisation's events, and returns how far it was read; nil if
// there are no more.
func (x *Indexer) read(ctx context.Context, from db.SearchPositionsRow, horizon string) (next *db.SearchPositionsRow, err error) {
	events, err := eventsAfter(ctx, x.Store, from, horizon, batch)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	last := events[len(events)-1]
	err = x.Store.Tx(ctx, func(q *db.Queries) error {
		moved, err := q.MoveSearch(ctx, db.MoveSearchParams{
			OrgID: from.OrgID, FromXid: from.AfterXid, FromID: from.AfterID, AfterXid: last.Xid, AfterID: last.ID,
		})
		if err != nil {
			return fmt.Errorf("store how far it was read: %w", err)
		}
		if moved == 0 {
			return errMoved
		}
		return put(ctx, q, from.OrgID, events)
	})
	if err != nil || len(events) < batch {
		return nil, err
	}
	from.AfterXid, from.AfterID = last.Xid, last.ID
	return &from, nil
}

// eventsAfter returns the events behind a position that are committed for good.
func eventsAfter(ctx context.Context, s *store.Store, from db.SearchPositionsRow, horizon string, limit int32) ([]db.EventsToIndexRow, error) {
	events, err := s.EventsToIndex(ctx, db.EventsToIndexParams{
		OrgID: from.OrgID, Messages: messages, AfterXid: from.AfterXid, AfterID: from.AfterID, Horizon: horizon, MaxRows: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// put stores what some events changed.
func put(ctx context.Context, q *db.Queries, orgID string, events []db.EventsToIndexRow) error {
	out := db.PutSearchEntriesParams{OrgID: orgID}
	add := func(kind, taskID, stepID string, seq int64, at time.Time, text string, marks ...string) {
		out.TaskIds, out.Kinds, out.StepIds = append(out.TaskIds, taskID), append(out.Kinds, kind), append(out.StepIds, stepID)
		out.Seqs, out.Times = append(out.Seqs, seq), append(out.Times, at)
		out.Words = append(out.Words, vectorOf(text, append(marks, orgMark(orgID))...))
	}
	tasks, calls, outputs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range events {
		if slices.Contains(ofTask, e.Type) {
			tasks[e.TaskID] = true
		}
		if e.StepID != "" && slices.Contains(ofCall, e.Type) {
			calls[e.StepID] = true
		}
		if e.StepID != "" && slices.Contains(ofOutput, e.Type) {
			outputs[e.StepID] = true
		}
		if e.Message != "" {
			add(Message, e.TaskID, "", e.Seq, e.Time, e.Message)
		}
	}
	if len(tasks) > 0 {
		rows, err := q.TasksToIndex(ctx, db.TasksToIndexParams{OrgID: orgID, Ids: slices.Sorted(maps.Keys(tasks))})
		if err != nil {
			return fmt.Errorf("read tasks: %w", err)
		}
		for _, t := range rows {
			add(Task, t.ID, "", 0, t.CreatedAt, t.Content)
		}
	}
	if len(calls)+len(outputs) > 0 {
		rows, err := q.StepsToIndex(ctx, db.StepsToIndexParams{OrgID: orgID, Ids: append(slices.Sorted(maps.Keys(calls)), slices.Sorted(maps.Keys(outputs))...)})
		if err != nil {
			return fmt.Errorf("read steps: %w", err)
		}
		for _, s := range rows {
			if calls[s.ID] {
				add(Call, s.TaskID, s.ID, 0, s.ProposedAt, s.Call, toolMark(s.Tool))
			}
			if outputs[s.ID] && s.Output != "" {
				add(Output, s.TaskID, s.ID, 0, s.EndedAt, s.Output, toolMark(s.Tool))
			}
		}
	}
	if len(out.TaskIds) == 0 {
		return nil
	}
	if err := q.PutSearchEntries(ctx, out); err != nil {
		return fmt.Errorf("store words: %w", err)
	}
	return nil
}
