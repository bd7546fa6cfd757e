package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Worker is a worker as it presents itself.
type Worker struct {
	// ID is that of an earlier registration, or empty.
	ID      string
	Name    string
	Pool    string
	Slots   int32
	Version string
}

// Register registers a worker and returns its id. An earlier registration is reused only
// if it belonged to one of the given pools; without pools, if it belonged to any.
func (l *Leases) Register(ctx context.Context, orgID string, w Worker, pools ...string) (string, error) {
	id := w.ID
	if id != "" {
		before, err := l.cfg.Store.GetWorker(ctx, db.GetWorkerParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) || err == nil && len(pools) > 0 && !slices.Contains(pools, before.Pool) {
			return "", fault.New(fault.NotFound, "there is no worker %q to take up again", id).
				WithFix("register without worker_id").WithObject(id)
		}
		if err != nil {
			return "", fmt.Errorf("load worker %s: %w", id, err)
		}
	} else {
		id = ident.New("worker")
	}
	if err := l.cfg.Store.RegisterWorker(ctx, db.RegisterWorkerParams{
		ID: id, OrgID: orgID, Name: w.Name, Pool: w.Pool, Slots: w.Slots, Version: w.Version,
	}); err != nil {
		return "", fmt.Errorf("store worker %s: %w", w.Name, err)
	}
	l.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
	return id, nil
}

// WorkerStale is how long a worker counts as connected after its last call.
func WorkerStale(ttl time.Duration) time.Duration { return max(2*ttl, time.Minute) }

// Workers returns a page by name of the workers that called recently, and the next page's
// token.
func (l *Leases) Workers(ctx context.Context, orgID, page string, size int32) ([]db.LiveWorkersRow, string, error) {
	name, id, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := l.cfg.Store.LiveWorkers(ctx, db.LiveWorkersParams{
		OrgID: orgID, StaleAfter: WorkerStale(l.cfg.TTL), AfterName: name, AfterID: id, MaxRows: size + 1,
	})
	if err != nil {
		return nil, "", fmt.Errorf("list workers: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.LiveWorkersRow) string { return store.NameToken(last.Worker.Name, last.Worker.ID) })
	return rows, next, nil
}

// Drain stops new tasks from going to a worker; its current ones continue.
func (l *Leases) Drain(ctx context.Context, orgID, ref string, by event.Actor, reason string) (db.LiveWorkersRow, error) {
	entry := audit.Entry{By: by, Action: "worker.drained", Reason: reason}
	return l.change(ctx, orgID, ref, entry, func(q *db.Queries, id string) (int64, error) {
		return q.DrainWorker(ctx, db.DrainWorkerParams{OrgID: orgID, ID: id, By: by.ID, Reason: reason})
	})
}

// Undrain lets a worker take tasks again.
func (l *Leases) Undrain(ctx context.Context, orgID, ref string, by event.Actor) (db.LiveWorkersRow, error) {
	entry := audit.Entry{By: by, Action: "worker.undrained"}
	return l.change(ctx, orgID, ref, entry, func(q *db.Queries, id string) (int64, error) {
		return q.UndrainWorker(ctx, db.UndrainWorkerParams{OrgID: orgID, ID: id})
	})
}

// change changes the worker that ref identifies, with an audit entry if anything changed,
// and returns the worker.
func (l *Leases) change(
	ctx context.Context, orgID, ref string, entry audit.Entry, do func(q *db.Queries, id string) (int64, error),
) (db.LiveWorkersRow, error) {
	found, err := l.cfg.Store.FindWorkers(ctx, db.FindWorkersParams{
		OrgID: orgID, Ref: ref, Prefix: store.Prefix("worker", ref), StaleAfter: WorkerStale(l.cfg.TTL),
	})
	id, err := store.One("worker", ref, found, err)
	if err != nil {
		return db.LiveWorkersRow{}, err
	}
	entry.OrgID, entry.ObjectKind, entry.ObjectID = orgID, "worker", id
	if err := l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := do(tx.Queries, id)
		if err != nil || rows == 0 {
			return err
		}
		return audit.Append(tx, entry)
	}); err != nil {
		return db.LiveWorkersRow{}, fmt.Errorf("change worker %s: %w", id, err)
	}
	l.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
	rows, err := l.cfg.Store.LiveWorkers(ctx, db.LiveWorkersParams{OrgID: orgID, StaleAfter: WorkerStale(l.cfg.TTL), ID: &id, MaxRows: 1})
	if err != nil {
		return db.LiveWorkersRow{}, fmt.Errorf("look at worker %s: %w", id, err)
	}
	if len(rows) > 0 {
		return rows[0], nil
	}
	w, err := l.cfg.Store.GetWorker(ctx, db.GetWorkerParams{OrgID: orgID, ID: id})
	return db.LiveWorkersRow{Worker: w}, err
}
