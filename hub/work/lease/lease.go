// Package lease manages the leases by which workers own tasks. Leases claims, renews,
// checks and sweeps them.
//
// A claim is a compare-and-swap in PostgreSQL that returns a secret token. Every write of
// a worker carries (task, attempt, token) and is refused once the lease has ended on the
// database's clock. A worker renews its leases in batches. If a worker dies, its leases
// expire, and the sweeper puts their tasks back into the queue.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/message"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Lease names a hold on a task.
type Lease struct {
	TaskID  string
	Attempt int32
	// Token is a secret; the database keeps its hash.
	Token string
}

// Config holds the dependencies of Leases.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// TTL is how long a lease lasts without renewal.
	TTL time.Duration
	// Jailed reports whether a task has anything to do on its node. One that has
	// not runs as soon as it is claimed.
	Jailed func(ctx context.Context, q *db.Queries, t db.Task) (bool, error)
	// OnChange, if set, is called with an outcome and the number of leases that had it:
	// "renewed", "deferred" or "refused" at a renewal, or "lost" to the sweeper.
	OnChange func(what string, n int)
}

// Leases gives, renews, checks and ends leases.
type Leases struct{ cfg Config }

// New creates Leases.
func New(cfg Config) *Leases {
	if cfg.OnChange == nil {
		cfg.OnChange = func(string, int) {}
	}
	return &Leases{cfg}
}

// TTL is how long a lease lasts without renewal.
func (l *Leases) TTL() time.Duration { return l.cfg.TTL }

// Claim takes an admitted task of one of pools, or of any pool if pools is empty, for a
// worker. It returns nil if there is nothing to claim: the wake-up was stale, or another
// worker was first.
func (l *Leases) Claim(ctx context.Context, orgID, workerID, taskID string, attempt int32, pools ...string) (*Lease, *db.Task, error) {
	token := ident.Secret("dhl")
	var claimed *db.Task
	err := l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		claimed = nil
		row, err := tx.ClaimTask(ctx, db.ClaimTaskParams{
			OrgID: orgID, ID: taskID, Attempt: attempt, WorkerID: &workerID,
			Pools: pools, LeaseHash: ident.Hash(token), Ttl: l.cfg.TTL, Reason: "worker " + workerID + " is making its jail",
		})
		if store.IsNotFound(err) {
			w, err := tx.GetWorker(ctx, db.GetWorkerParams{OrgID: orgID, ID: workerID})
			switch {
			case store.IsNotFound(err):
				return unregistered(workerID)
			case err == nil && w.DrainedAt != nil:
				return fault.New(fault.Aborted, "worker %s is drained", workerID).WithFix("let another worker claim it").WithObject(workerID)
			case err == nil && w.Pressure != "":
				return fault.New(fault.Aborted, "%s", closedFor(workerID, w.Pressure)).WithFix("let another worker claim it").WithObject(workerID)
			}
			return err
		}
		if err != nil {
			return fmt.Errorf("claim task %s: %w", taskID, err)
		}
		t := row.Task
		attempt := db.CreateAttemptParams{TaskID: t.ID, Attempt: t.Attempt, OrgID: orgID, WorkerID: workerID}
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error { return q.CreateAttempt(ctx, attempt) })
		if t.Attempt == 1 && t.WorkspaceScope == string(persona.ScopeAgent) {
			// Its workspace is made there now, if it has none.
			home := db.SetAgentHomeParams{OrgID: orgID, ID: t.AgentID, NodeID: t.NodeID}
			tx.WithCommit(func(ctx context.Context, q *db.Queries) error { return q.SetAgentHome(ctx, home) })
		}
		if _, err := message.Bind(ctx, tx, t, t.TurnCount); err != nil {
			return err
		}
		claimed = &t
		by := event.Actor{Kind: "worker", ID: workerID}
		if err := tx.Append(orgID, t.ID, by,
			event.Draft{Type: eventkind.StateChanged, Payload: map[string]any{
				"from": string(task.Queued), "to": string(task.Starting), "reason": t.Reason,
			}},
			event.Draft{Type: eventkind.AgentSpawned, Payload: map[string]any{
				"attempt": t.Attempt, "worker_id": workerID, "provider": row.Provider, "model": row.Model,
				"jail_id": t.JailID, "node_id": t.NodeID, "image": t.Image, "image_digest": t.ImageDigest,
			}}); err != nil {
			return err
		}
		jailed, err := l.cfg.Jailed(ctx, tx.Queries, t)
		if err != nil || jailed {
			return err
		}
		t, err = task.Run(tx, t, by)
		return err
	})
	if err != nil || claimed == nil {
		return nil, nil, err
	}
	return &Lease{TaskID: claimed.ID, Attempt: claimed.Attempt, Token: token}, claimed, nil
}

// touch records that a worker is alive and whether it can take more tasks, and returns
// whether it may.
func (l *Leases) touch(ctx context.Context, orgID, workerID, pressure string) (draining bool, err error) {
	row, err := l.cfg.Store.TouchWorker(ctx, db.TouchWorkerParams{OrgID: orgID, ID: workerID, Pressure: pressure})
	if store.IsNotFound(err) {
		return false, unregistered(workerID)
	}
	if err != nil {
		return false, fmt.Errorf("record that worker %s is alive: %w", workerID, err)
	}
	if row.WasPressure == pressure {
		return row.DrainedAt != nil, nil
	}
	if pressure != "" {
		err = l.takeBack(ctx, orgID, row.Pool, closedFor(workerID, pressure))
	}
	l.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
	return row.DrainedAt != nil, err
}

// takeBack has what was admitted to a pool, and not claimed yet, wait in the
// queue again, if none of the pool's workers takes anything.
func (l *Leases) takeBack(ctx context.Context, orgID, pool, reason string) error {
	err := l.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockAdmission(ctx, orgID); err != nil {
			return err
		}
		return q.TakeBackFromPool(ctx, db.TakeBackFromPoolParams{
			OrgID: orgID, Pool: pool, Reason: reason, StaleAfter: WorkerStale(l.cfg.TTL),
		})
	})
	if err != nil {
		return fmt.Errorf("requeue the tasks that wait for pool %s: %w", pool, err)
	}
	return nil
}

// closedFor says why a worker takes nothing new.
func closedFor(workerID, pressure string) string {
	return fmt.Sprintf("worker %s takes nothing new: %s", workerID, pressure)
}

func unregistered(workerID string) error {
	return fault.New(fault.NotFound, "worker %s is not registered", workerID).WithFix("register again").WithObject(workerID)
}

// Renewal is what became of one lease.
type Renewal struct {
	TaskID string
	// Held reports that the lease was renewed, and Deferred that it has not ended and could not
	// be renewed, since its task is locked: it ends when it would have ended anyway.
	Held, Deferred bool
	// Reason is why a lease has ended: the task's state, or "lost".
	Reason string
}

// Renew renews those of a worker's leases whose tasks are not locked, and waits for no lock.
// pressure is why the worker takes no new tasks, empty if it does; draining reports that it may
// not take any.
func (l *Leases) Renew(ctx context.Context, orgID, workerID, pressure string, leases []Lease) (out []Renewal, draining bool, err error) {
	if draining, err = l.touch(ctx, orgID, workerID, pressure); err != nil || len(leases) == 0 {
		return nil, draining, err
	}
	params := db.RenewLeasesParams{OrgID: orgID, Ttl: l.cfg.TTL}
	for _, le := range leases {
		params.Ids = append(params.Ids, le.TaskID)
		params.Attempts = append(params.Attempts, le.Attempt)
		params.Hashes = append(params.Hashes, ident.Hash(le.Token))
	}
	held, deferred, err := l.renew(ctx, params)
	if err != nil {
		return nil, draining, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	refused := len(leases) - len(held) - len(deferred)
	l.cfg.OnChange("renewed", len(held))
	l.cfg.OnChange("deferred", len(deferred))
	l.cfg.OnChange("refused", refused)
	gone := map[string]string{}
	if refused > 0 {
		states, err := l.cfg.Store.TaskStates(ctx, db.TaskStatesParams{OrgID: orgID, Ids: params.Ids})
		if err != nil {
			return nil, draining, fmt.Errorf("read states of lost leases: %w", err)
		}
		for _, s := range states {
			gone[s.ID] = s.State
		}
	}
	out = make([]Renewal, len(leases))
	for i, le := range leases {
		row := db.LiveLeasesRow{ID: le.TaskID, Attempt: le.Attempt}
		out[i] = Renewal{TaskID: le.TaskID, Held: held[row], Deferred: deferred[row]}
		if !out[i].Held && !out[i].Deferred {
			out[i].Reason = "lost"
			if state := gone[le.TaskID]; task.State(state).Final() && state != "" {
				out[i].Reason = state
			}
		}
	}
	return out, draining, nil
}

const (
	// tryFor is for how long the renewal of leases whose tasks are locked is tried again, and
	// tryAgain is the pause between. A worker waits for the response no longer than a third of a
	// lease.
	tryFor   = 500 * time.Millisecond
	tryAgain = 50 * time.Millisecond
)

// renew renews leases and returns which it renewed, and which are live and were not renewed. On a
// busy database some of a worker's tasks are always locked by a write that waits for the disk or
// for a standby, and a hub that was cut off may keep a lock for longer than a lease: none of them
// may delay the response, by which the worker keeps its other tasks.
func (l *Leases) renew(ctx context.Context, left db.RenewLeasesParams) (held, deferred map[db.LiveLeasesRow]bool, err error) {
	held = make(map[db.LiveLeasesRow]bool, len(left.Ids))
	for began := time.Now(); ; {
		rows, err := l.cfg.Store.RenewLeases(ctx, left)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			held[db.LiveLeasesRow(row)] = true
		}
		if len(rows) == len(left.Ids) {
			return held, nil, nil
		}
		live, err := l.cfg.Store.LiveLeases(ctx, db.LiveLeasesParams{Ids: left.Ids, Attempts: left.Attempts, Hashes: left.Hashes})
		if err != nil {
			return nil, nil, err
		}
		deferred = make(map[db.LiveLeasesRow]bool, len(left.Ids)-len(rows))
		for _, row := range live {
			if !held[row] {
				deferred[row] = true
			}
		}
		if len(deferred) == 0 || time.Since(began) > tryFor {
			return held, deferred, nil
		}
		again := db.RenewLeasesParams{OrgID: left.OrgID, Ttl: left.Ttl}
		for i, id := range left.Ids {
			if deferred[db.LiveLeasesRow{ID: id, Attempt: left.Attempts[i]}] {
				again.Ids, again.Attempts, again.Hashes = append(again.Ids, id), append(again.Attempts, left.Attempts[i]), append(again.Hashes, left.Hashes[i])
			}
		}
		left = again
		if err := backoff.Wait(ctx, tryAgain); err != nil {
			return nil, nil, err
		}
	}
}

// Stale is the error of a write whose lease has ended.
func Stale(le Lease) error {
	return fault.New(fault.Precondition, "the lease of attempt %d on task %s has ended", le.Attempt, le.TaskID).
		WithCode(fault.LeaseEnded).WithFix("stop working on it").WithObject(le.TaskID)
}

// LockTask locks the leased task's row for the rest of the transaction; a stale
// lease is refused.
func LockTask(ctx context.Context, tx *event.Tx, orgID string, le Lease) (db.Task, error) {
	t, err := tx.LockLeasedTask(ctx, db.LockLeasedTaskParams{
		OrgID: orgID, ID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token),
	})
	if store.IsNotFound(err) {
		return t, Stale(le)
	}
	if err != nil {
		return t, fmt.Errorf("lock task %s: %w", le.TaskID, err)
	}
	return t, nil
}

// Check returns the leased task without locking it; a stale lease is refused.
// It takes no organisation: the token is proof enough.
func (l *Leases) Check(ctx context.Context, le Lease) (db.Task, error) {
	t, err := l.cfg.Store.GetLeasedTask(ctx, db.GetLeasedTaskParams{
		ID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token),
	})
	if store.IsNotFound(err) {
		return t, Stale(le)
	}
	return t, err
}

// Call is Check with the data that a call of a model provider needs.
func (l *Leases) Call(ctx context.Context, le Lease, provider string) (db.GetLeasedCallRow, error) {
	row, err := l.cfg.Store.GetLeasedCall(ctx, db.GetLeasedCallParams{
		ID: le.TaskID, Attempt: le.Attempt, LeaseHash: ident.Hash(le.Token), Provider: provider,
	})
	if store.IsNotFound(err) {
		return row, Stale(le)
	}
	return row, err
}

// Ended returns those of the leases that have ended, in one look.
func (l *Leases) Ended(ctx context.Context, leases []Lease) ([]Lease, error) {
	var params db.LiveLeasesParams
	for _, le := range leases {
		params.Ids = append(params.Ids, le.TaskID)
		params.Attempts = append(params.Attempts, le.Attempt)
		params.Hashes = append(params.Hashes, ident.Hash(le.Token))
	}
	rows, err := l.cfg.Store.LiveLeases(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("query %d leases: %w", len(leases), err)
	}
	live := make(map[db.LiveLeasesRow]bool, len(rows))
	for _, row := range rows {
		live[row] = true
	}
	var ended []Lease
	for _, le := range leases {
		if !live[db.LiveLeasesRow{ID: le.TaskID, Attempt: le.Attempt}] {
			ended = append(ended, le)
		}
	}
	return ended, nil
}

// Release hands a task back to the queue at no cost in retries.
func (l *Leases) Release(ctx context.Context, orgID string, le Lease, reason string) error {
	return l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		by := event.Actor{Kind: "worker", ID: *t.WorkerID}
		why := "handed back by worker " + by.ID + "; waits for another"
		if reason != "" {
			why += " (" + reason + ")"
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		_, err = task.Requeue(ctx, tx, t, why, "released", by)
		return err
	})
}

const (
	// maxWorkerLosses is how many workers may be lost with one task before a person
	// must look: it may be the task that kills them.
	maxWorkerLosses = 5
	// maxLapses is how often a task's lease may end under a worker that lives. It is higher,
	// since an overloaded hub or database ends the leases of all tasks.
	maxLapses = 20
)

// sweepBatch bounds what one sweep takes on.
const sweepBatch = 500

// Sweep requeues the tasks of expired leases and returns how many there were. Any number
// of hubs may sweep at once.
func (l *Leases) Sweep(ctx context.Context) (int, error) {
	expired, err := l.cfg.Store.ExpiredLeases(ctx, sweepBatch)
	if err != nil {
		return 0, fmt.Errorf("find ended leases: %w", err)
	}
	swept := 0
	var errs []error
	for _, row := range expired {
		// One task that cannot be swept holds up no other.
		err := l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			t, err := tx.LockExpiredLease(ctx, db.LockExpiredLeaseParams{OrgID: row.OrgID, ID: row.ID})
			if store.IsNotFound(err) {
				return nil // renewed, ended or swept by now
			}
			if err != nil {
				return fmt.Errorf("lock task %s: %w", row.ID, err)
			}
			alive, err := l.alive(ctx, tx.Queries, t)
			if err != nil {
				return err
			}
			lost, err := tx.CountLostLease(ctx, db.CountLostLeaseParams{OrgID: t.OrgID, ID: t.ID, Alive: alive})
			if err != nil {
				return fmt.Errorf("count the lost lease of %s: %w", t.ID, err)
			}
			tx.AfterCommit(func() {
				swept++
				l.cfg.OnChange("lost", 1)
				l.cfg.Recorder.Publish(change.QueueChanged{OrgID: t.OrgID})
			})
			switch {
			case !alive && lost.WorkerLosses >= maxWorkerLosses:
				return task.Escalate(ctx, tx, t, fmt.Sprintf(
					"%d workers in a row were lost while they ran this task, the last one %s (see their logs)", maxWorkerLosses, *t.WorkerID),
					"", event.Hub)
			case alive && lost.LeaseLapses >= maxLapses:
				return task.Escalate(ctx, tx, t, fmt.Sprintf(
					"its lease ended %d times in a row without progress, although its workers live: the task may stall them, or the hub or its database is too slow (see --lease-ttl)", maxLapses),
					"", event.Hub)
			}
			reason := "worker " + *t.WorkerID + " was lost; waits for another"
			if alive {
				reason = "the lease ended although worker " + *t.WorkerID + " lives: it stalled, or the hub or its database is too slow; waits for a worker"
			}
			_, err = task.Requeue(ctx, tx, t, reason, "lost", event.Hub)
			return err
		})
		errs = append(errs, err)
	}
	return swept, errors.Join(errs...)
}

// alive reports whether the worker of a task whose lease has ended lives: it called after it had
// renewed that lease. What has ended the lease is then that it stalled, or the absence of the hub or
// the database.
func (l *Leases) alive(ctx context.Context, q *db.Queries, t db.Task) (bool, error) {
	w, err := q.GetWorker(ctx, db.GetWorkerParams{OrgID: t.OrgID, ID: *t.WorkerID})
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("load worker %s: %w", *t.WorkerID, err)
	}
	renewed := t.LeaseExpiresAt.Add(-l.cfg.TTL)
	return w.LastSeenAt.After(renewed.Add(l.cfg.TTL / 6)), nil
}
