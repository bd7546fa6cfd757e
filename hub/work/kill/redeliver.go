package kill

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// batch bounds how many open orders are taken up at once.
const batch = 500

// Reconcile gives a node the orders that it has not confirmed: it was away.
func (s *Switch) Reconcile(ctx context.Context, orgID, nodeID string) error {
	open, err := s.cfg.Store.OpenKillOrders(ctx, db.OpenKillOrdersParams{OrgID: orgID, NodeID: nodeID, MaxRows: batch})
	if err != nil {
		return fmt.Errorf("find kill orders for node %s: %w", nodeID, err)
	}
	if len(open) > 0 {
		s.carryOut(ctx, open)
		s.cfg.Recorder.Publish(change.QueueChanged{OrgID: orgID})
	}
	return nil
}

// Sweep gives all open orders again to the nodes that can be reached. Any
// number of hubs may do so at once.
func (s *Switch) Sweep(ctx context.Context) error {
	orgs, err := s.cfg.Store.OrganisationsWithKillOrders(ctx)
	if err != nil {
		return fmt.Errorf("find open kill orders: %w", err)
	}
	for _, orgID := range orgs {
		if err := s.Reconcile(ctx, orgID, ""); err != nil {
			return err
		}
	}
	return nil
}

// Holds returns a page of the holds on what v sees, active ones first, and the next page's
// token; with released, also those that were released.
func (s *Switch) Holds(ctx context.Context, v visibility.Viewer, released bool, page string, size int32) ([]db.Hold, string, error) {
	p := db.ListHoldsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Released: released, MaxRows: size + 1}
	if page != "" {
		standing, at, id, err := store.ParseStandingToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeStanding, p.BeforeTime, p.BeforeID = standing, &at, id
	}
	rows, err := s.cfg.Store.ListHolds(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list holds: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.Hold) string { return store.StandingToken(last.ReleasedAt == nil, last.CreatedAt, last.ID) })
	return rows, next, nil
}

// Release ends a hold: what it kept from starting may start again. Releasing it
// twice is harmless.
func (s *Switch) Release(ctx context.Context, orgID, id, reason string, by event.Actor) (db.Hold, error) {
	var h db.Hold
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := tx.ReleaseHold(ctx, db.ReleaseHoldParams{OrgID: orgID, ID: id, ReleasedBy: by.ID})
		if err != nil {
			return fmt.Errorf("release hold %s: %w", id, err)
		}
		if h, err = tx.GetHold(ctx, db.GetHoldParams{OrgID: orgID, ID: id}); err != nil {
			return fmt.Errorf("read hold %s: %w", id, err)
		}
		if rows == 0 {
			return nil
		}
		tx.Publish(change.QueueChanged{OrgID: orgID})
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "hold.released", ObjectKind: "hold", ObjectID: id, Reason: reason,
			Before: map[string]any{"scope": h.Scope, "object_id": h.ObjectID, "held_by": h.HeldBy},
		})
	})
	return h, err
}

// errNoTrigger is for a trigger that nothing was fired by.
func errNoTrigger(id string) error {
	return fault.New(fault.NotFound, "there is no trigger %q, and no task was ever fired by one", id).
		WithFix("list what there is with: deckhand trigger list").WithObject(id)
}

// KnowTrigger refuses a trigger that nothing was fired by.
func (s *Switch) KnowTrigger(ctx context.Context, orgID, id string) error {
	known, err := s.cfg.Store.TriggerKnown(ctx, db.TriggerKnownParams{OrgID: orgID, TriggerID: id})
	if err != nil {
		return fmt.Errorf("look for trigger %s: %w", id, err)
	}
	if !known {
		return errNoTrigger(id)
	}
	return nil
}
