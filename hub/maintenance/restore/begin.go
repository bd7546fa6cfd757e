// Package restore continues the work of an installation whose database was restored to an
// earlier state: from a backup, by PostgreSQL's own means, or by the promotion of a standby that
// lacks the last commits. Below, the backup is that state, whatever it came from. Begin prepares
// the restored database; a Comparer then brings it into line with the nodes.
//
// A restored database is older than the world. Nodes have run commands that it does not
// know, tasks that it takes for running have ended, and a hub that still works on the
// lost database may hold their links. Four things together keep everything from being
// done twice:
//
//   - Epochs. Begin sets a floor that is above every epoch given before (the time, in
//     microseconds). Nodes refuse sessions with older epochs, so that the first session
//     with this hub ends the reign of every other.
//   - Leases. Begin ends them all: a worker that goes on with what it had in memory is
//     refused.
//   - Holds. No task that had not ended in the backup goes on before a person resumes it,
//     nor does a review of one. For the verdict that the person sees, every node that the backup knows is asked for its ledger when it connects;
//     a node that never comes back must be revoked.
//   - What waited to be sent or started in the backup (accepted deliveries, pending
//     notifications, slots of schedules) is not sent or started: it may have been.
//
// The nodes' ledgers show what a task did after the backup, but never that it did nothing: it
// may have acted through the hub, on a machine's host, on a node that was enrolled after the
// backup, or through tasks that the backup does not have. So every task is paused. Its events
// list what was recovered, its agent gets a message about it, and a person decides.
// Calls that the backup has and that had not run then are moved to started, so that
// resuming re-attaches to them instead of asking about them again.
//
// Comparing may be repeated: a hub that dies in between changes nothing that the next one
// does not do.
package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Kind is what a database was restored from, as the audit names it.
type Kind string

// FromBackup is a backup of deckhand backup create, and FromDatabase a database that was adopted in
// its place.
const (
	FromBackup   Kind = "backup"
	FromDatabase Kind = "database"
)

// Backup identifies what a database was restored from.
type Backup struct {
	Kind Kind
	ID   string
	// TakenAt is the time of the state, or Unknown.
	TakenAt time.Time
}

// Unknown is the time of a state of which nothing is known: nodes are asked for all that they have.
var Unknown = time.Unix(0, 0)

// Begun is what Begin found.
type Begun struct {
	// Nodes are asked for their ledgers, and Tasks wait for that.
	Nodes, Tasks int64
	// Deliveries and Notifications waited in the backup, and were dropped.
	Deliveries, Notifications int64
	// Sessions of people were ended.
	Sessions int64
}

// By is who does what a restore does.
var by = event.Actor{Kind: "hub", ID: "restore"}

// CheckClock refuses to restore while this machine's clock is behind the time of the state.
func CheckClock(takenAt time.Time) error {
	if now := time.Now(); now.Before(takenAt) {
		return fault.New(fault.Precondition, "the state to restore is of %s, and the clock of this machine says %s",
			takenAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)).
			WithFix("set the clock: the order of sessions with the nodes depends on it")
	}
	return nil
}

// Begin prepares a database that was just restored, before any hub starts on it.
func Begin(ctx context.Context, recorder *event.Recorder, st *store.Store, from Backup) (out Begun, err error) {
	if err := CheckClock(from.TakenAt); err != nil {
		return out, err
	}
	now := time.Now()
	id := ident.New("restore")
	when := "an unknown time"
	if !from.TakenAt.Equal(Unknown) {
		when = from.TakenAt.UTC().Format(time.RFC3339)
	}
	leased, err := st.LeasedTasks(ctx)
	if err != nil {
		return out, fmt.Errorf("find the tasks that were running: %w", err)
	}
	for _, row := range leased {
		if err := recorder.Tx(ctx, func(tx *event.Tx) error {
			t, err := tx.LockTask(ctx, db.LockTaskParams(row))
			if err != nil {
				return fmt.Errorf("lock task %s: %w", row.ID, err)
			}
			_, err = task.Requeue(ctx, tx, t, "the hub was restored to its state of "+when, "lost", by)
			return err
		}); err != nil {
			return out, err
		}
	}
	orgs, err := st.OrganisationIDs(ctx)
	if err != nil {
		return out, fmt.Errorf("list the organisations: %w", err)
	}
	err = recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.BeginRestore(ctx, db.BeginRestoreParams{ID: id, BackupID: from.ID, TakenAt: from.TakenAt, EpochFloor: now.UnixMicro()}); err != nil {
			return fmt.Errorf("record the restore: %w", err)
		}
		if out.Sessions, err = tx.EndAllSessions(ctx); err != nil {
			return fmt.Errorf("end the sessions of people: %w", err)
		}
		if err := tx.ForgetNodeSessions(ctx); err != nil {
			return fmt.Errorf("end the sessions of nodes: %w", err)
		}
		if out.Nodes, err = tx.RestoredNodes(ctx, id); err != nil {
			return fmt.Errorf("list the nodes to compare: %w", err)
		}
		if out.Tasks, err = tx.RestoredTasks(ctx, id); err != nil {
			return fmt.Errorf("hold the tasks that had not ended: %w", err)
		}
		if err := tx.UnadmitTasks(ctx, "the hub was restored to its state of "+when); err != nil {
			return fmt.Errorf("take admitted tasks back: %w", err)
		}
		dropped := "the hub was restored to its state of " + when + ", in which this waited: it may have been done since"
		if out.Deliveries, err = tx.DropAcceptedDeliveries(ctx, dropped+"; replay it if it was not"); err != nil {
			return fmt.Errorf("drop deliveries: %w", err)
		}
		if out.Notifications, err = tx.DropPendingNotifications(ctx, dropped+"; send it again if it was not"); err != nil {
			return fmt.Errorf("drop notifications: %w", err)
		}
		if err := trigger.SkipOverdue(ctx, tx.Queries, now); err != nil {
			return err
		}
		for _, org := range orgs {
			if err := audit.Append(tx, audit.Entry{
				OrgID: org, By: by, Action: "hub.restored", ObjectKind: string(from.Kind), ObjectID: from.ID,
				After: map[string]any{"state_of": when, "epoch_floor": now.UnixMicro()},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
