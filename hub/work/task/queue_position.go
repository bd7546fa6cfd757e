package task

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/queue"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// QueuePosition is the position of a task in its organisation's queue.
type QueuePosition struct {
	// Place counts from 1; 0 for a task that is not queued, or too far back.
	Place int32
	// Wait is the estimated waiting time; negative if it is unknown.
	Wait time.Duration
	// Basis describes what Wait was estimated from.
	Basis string
}

const (
	// countPerShare is up to which position places are computed.
	countPerShare = 1000
	// paceSample is from how many of the last tasks a pace is taken, and
	// paceFor how long it is taken for good.
	paceSample      = 100
	paceFor         = 10 * time.Second
	rememberedPaces = 1024
)

// Standings returns the positions of those of the tasks that are queued.
func (s *Service) Standings(ctx context.Context, orgID string, tasks ...db.Task) (map[string]QueuePosition, error) {
	wanted := map[string]bool{}
	for _, t := range tasks {
		if State(t.State) == Queued && t.AdmittedAt == nil {
			wanted[t.ID] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	places, err := s.looks.Do(ctx, orgID, func(ctx context.Context) (places, error) { return s.places(ctx, orgID) })
	if err != nil {
		return nil, err
	}
	out := make(map[string]QueuePosition, len(wanted))
	for _, t := range tasks {
		place, ok := places.of[t.ID]
		if !ok || !wanted[t.ID] {
			continue
		}
		pace, err := s.pace(ctx, orgID, t.AgentID)
		if err != nil {
			return nil, err
		}
		out[t.ID] = estimate(place, places.active, pace)
	}
	return out, nil
}

// places is an organisation's queue at a moment.
type places struct {
	of     map[string]int32 // by task, from 1
	active int32            // tasks in progress
}

// places computes the queue's order. Concurrent callers share one computation, since each
// submission calls it.
func (s *Service) places(ctx context.Context, orgID string) (places, error) {
	rows, err := s.cfg.Store.QueuePlaces(ctx, db.QueuePlacesParams{OrgID: orgID, PerShare: countPerShare})
	if err != nil {
		return places{}, fmt.Errorf("read the queue: %w", err)
	}
	turns := map[string]queue.Turn{}
	for _, row := range rows {
		turns[row.Share] = queue.Turn{Active: int(row.Active), Served: row.ServedAt}
	}
	out := places{of: make(map[string]int32, len(rows))}
	err = queue.Walk(rows, func(row db.QueuePlacesRow) queue.Entry {
		return queue.Entry{Share: row.Share, Priority: row.Priority}
	}, turns, func(row db.QueuePlacesRow) (bool, error) {
		out.of[row.ID], out.active = int32(len(out.of)+1), row.AllActive //nolint:gosec // a few thousand
		return true, nil
	})
	return out, err
}

// estimate reckons how long a task waits: those in progress and those before it,
// spread over as many as run at once now.
func estimate(place, active int32, pace db.TaskPaceRow) QueuePosition {
	st := QueuePosition{Place: place, Wait: -1, Basis: "no history"}
	seconds := pace.AgentS
	switch {
	case pace.AgentCount > 0:
		st.Basis = fmt.Sprintf("the last %d tasks of the agent", pace.AgentCount)
	case pace.AllCount > 0:
		seconds = pace.AllS
		st.Basis = fmt.Sprintf("the last %d tasks of the organisation", pace.AllCount)
	default:
		return st
	}
	before := float64(place-1) + min(1, float64(active))*0.5
	st.Wait = time.Duration(before / float64(max(1, active)) * seconds * float64(time.Second)).Round(time.Second)
	return st
}

// pace returns how long tasks took lately.
func (s *Service) pace(ctx context.Context, orgID, agentID string) (db.TaskPaceRow, error) {
	key := orgID + "/" + agentID
	if p, ok := s.paces.Get(key); ok {
		return p, nil
	}
	p, err := s.cfg.Store.TaskPace(ctx, db.TaskPaceParams{OrgID: orgID, AgentID: agentID, Sample: paceSample})
	if err != nil {
		return p, fmt.Errorf("read how long tasks took: %w", err)
	}
	s.paces.Add(key, p)
	return p, nil
}

// Reorder is where a person puts a queued task: exactly one of the fields is
// set.
type Reorder struct {
	// First: before all others.
	First bool
	// Before is the id of the task that it goes before, with its priority.
	Before string
	// Priority gives it another priority, at its own place there.
	Priority int32
}

// Reorder puts a queued task to another place.
func (s *Service) Reorder(ctx context.Context, orgID, id string, to Reorder, by event.Actor) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// Nothing is admitted from a queue that is being put in order.
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		t, err := lockQueued(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		payload := map[string]any{"priority_before": t.Priority}
		params := db.MoveInQueueParams{OrgID: orgID, ID: id, Share: t.CreatedBy, Priority: t.Priority, Place: t.Place}
		switch {
		case to.First:
			highest, err := tx.FirstPriority(ctx, orgID)
			if err != nil {
				return fmt.Errorf("read the queue: %w", err)
			}
			params.Share, params.Priority, params.Place = queue.Front, highest, time.Unix(0, 0)
			payload["first"] = true
		case to.Before != "":
			if to.Before == id {
				return fault.New(fault.Invalid, "before names the task itself").WithFix("name another queued task").WithObject(id)
			}
			other, err := lockQueued(ctx, tx, orgID, to.Before)
			if err != nil {
				return err
			}
			params.Share, params.Priority, params.Place = other.Share, other.Priority, other.Place
			payload["before"] = other.ID
		default:
			params.Priority = to.Priority
		}
		moved, err := tx.MoveInQueue(ctx, params)
		if err != nil {
			return fmt.Errorf("move task %s in the queue: %w", id, err)
		}
		payload["priority"] = moved.Priority
		if by.Kind == event.User {
			after := maps.Clone(payload)
			delete(after, "priority_before")
			if err := audit.Append(tx, audit.Entry{
				OrgID: orgID, By: by, Action: "task.reordered", ObjectKind: "task", ObjectID: id,
				Before: map[string]any{"priority": t.Priority}, After: after,
			}); err != nil {
				return err
			}
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		return tx.Append(orgID, id, by, event.Draft{Type: eventkind.TaskReordered, Payload: payload})
	})
}

func lockQueued(ctx context.Context, tx *event.Tx, orgID, id string) (db.Task, error) {
	t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: id})
	if err != nil {
		return t, fmt.Errorf("lock task %s: %w", id, err)
	}
	switch {
	case State(t.State) != Queued:
		return t, fault.New(fault.Precondition, "task %s is %s and not in the queue", id, t.State).WithObject(id).
			WithFix("only queued tasks have a place to change")
	case t.AdmittedAt != nil:
		return t, fault.New(fault.Precondition, "task %s is about to start", id).WithObject(id).
			WithFix("it has left the queue; pause or cancel it")
	}
	return t, nil
}
