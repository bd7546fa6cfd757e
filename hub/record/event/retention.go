package event

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Prune deletes the events of at most limit tasks that ended longer ago than keep, each
// task's whole history in one transaction, and returns how many tasks there were. The
// position of the last event is kept, so that a watch can detect that it has missed
// something.
func Prune(ctx context.Context, s *store.Store, keep time.Duration, limit int32) (int32, error) {
	rows, err := s.PrunableTasks(ctx, db.PrunableTasksParams{OlderThan: keep, MaxRows: limit})
	if err != nil {
		return 0, fmt.Errorf("find tasks whose events are old: %w", err)
	}
	for i, row := range rows {
		if err := s.PruneEvents(ctx, db.PruneEventsParams{OrgID: row.OrgID, TaskID: row.ID}); err != nil {
			return int32(i), fmt.Errorf("delete events of %s: %w", row.ID, err)
		}
	}
	return int32(len(rows)), nil
}

// pruneBatch is the number of tasks that PruneAll looks for at once.
const pruneBatch = 100

// PruneAll is Prune for all tasks that ended longer ago than keep; 0 keeps events for
// ever.
func PruneAll(ctx context.Context, s *store.Store, keep time.Duration) error {
	for keep > 0 {
		n, err := Prune(ctx, s, keep, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
	return nil
}

// expired refuses a watch that would begin with a gap. One of the whole organisation from
// the beginning starts with the oldest event that is left.
func (w *Watcher) expired(ctx context.Context, q Watch) error {
	if q.After == (Cursor{}) && len(q.TaskIDs) == 0 {
		return nil
	}
	ids := q.TaskIDs
	if ids == nil {
		ids = []string{}
	}
	row, err := w.cfg.Store.PrunedAfter(ctx, db.PrunedAfterParams{
		OrgID: q.OrgID, TaskIds: ids, AfterXid: strconv.FormatUint(q.After.xid, 10), AfterID: q.After.id,
	})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find what was deleted after the cursor: %w", err)
	}
	fix := "watch without a cursor for what is left"
	if len(q.TaskIDs) > 0 {
		fix = "leave that task out; its result and steps are still there"
	}
	return fault.New(fault.Precondition, "events that the watch has not seen were deleted, the newest those of task %s on %s",
		row.TaskID, row.PrunedAt.UTC().Format(time.DateOnly)).
		WithCode(fault.CursorExpired).WithFix("%s", fix).WithObject(row.TaskID)
}
