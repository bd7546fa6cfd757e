package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Below is what people do with deliveries: create one by hand, replay one, list them.

// Fire creates a delivery by hand. Repeated with its idempotency key it returns the first
// one.
func (s *Service) Fire(ctx context.Context, orgID, id, goal, idempotencyKey string, by event.Actor) (string, error) {
	delivery := ident.New("dlv")
	key := "manual:" + delivery
	if idempotencyKey != "" {
		key = "manual-key:" + idempotencyKey
	}
	err := s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Trigger) error {
		if row.State != stateEnabled {
			return notEnabled(row)
		}
		_, err := tx.CreateDelivery(ctx, db.CreateDeliveryParams{
			ID: delivery, OrgID: orgID, TriggerID: id, Key: key, Source: "manual", SentBy: by.ID, Address: by.Address,
			Headers: json.RawMessage("{}"), Body: []byte{}, Goal: goal,
		})
		if store.IsNotFound(err) {
			first, err := tx.DeliveryByKey(ctx, db.DeliveryByKeyParams{OrgID: orgID, TriggerID: id, Key: key})
			delivery = first.ID
			return err
		}
		if err != nil {
			return fmt.Errorf("store a delivery of %s: %w", id, err)
		}
		tx.AfterCommit(s.Kick)
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "trigger.fired", ObjectKind: "trigger", ObjectID: id, After: map[string]any{"delivery_id": delivery, "goal": goal},
		})
	})
	return delivery, err
}

func notEnabled(row db.Trigger) error {
	return fault.New(fault.Precondition, "trigger %s is %s: %s", row.Name, row.State, row.Reason).
		WithFix("deckhand trigger enable %s", row.Name).WithObject(row.ID)
}

// Replay creates a copy of a delivery, and returns the new one's id.
func (s *Service) Replay(ctx context.Context, orgID, id string, by event.Actor) (string, error) {
	first, err := s.Delivery(ctx, orgID, id)
	if err != nil {
		return "", err
	}
	d := first.Delivery
	if d.State == "duplicate" {
		return "", fault.New(fault.Precondition, "delivery %s is a duplicate of %s", d.ID, store.Text(d.DuplicateOf)).WithFix("replay that one").WithObject(d.ID)
	}
	fresh := ident.New("dlv")
	err = s.locked(ctx, orgID, d.TriggerID, func(tx *event.Tx, row db.Trigger) error {
		if row.State != stateEnabled {
			return notEnabled(row)
		}
		if _, err := tx.CreateDelivery(ctx, db.CreateDeliveryParams{
			ID: fresh, OrgID: orgID, TriggerID: d.TriggerID, Key: "replay:" + fresh, Source: "replay", SentBy: by.ID, Address: by.Address,
			Event: d.Event, Headers: d.Headers, Body: d.Body, Goal: d.Goal, ReplayOf: &d.ID,
		}); err != nil {
			return fmt.Errorf("store the replay of %s: %w", d.ID, err)
		}
		tx.AfterCommit(s.Kick)
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "delivery.replayed", ObjectKind: "delivery", ObjectID: d.ID,
			After: map[string]any{"trigger_id": d.TriggerID, "delivery_id": fresh},
		})
	})
	return fresh, err
}

// FindDelivery returns the id of the delivery that ref names, an id or a unique
// prefix, among those that v sees. A delivery shows what was sent: the maker of
// its trigger, the owner of the trigger's agent and administrators see it.
func (s *Service) FindDelivery(ctx context.Context, v task.Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindDeliveries(ctx, db.FindDeliveriesParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("dlv", ref),
	})
	if err == nil && len(rows) == 0 {
		return "", fault.New(fault.NotFound, "there is no delivery %q", ref).WithFix("list what there is with: deckhand trigger deliveries").WithObject(ref)
	}
	return store.One("delivery", ref, rows, err)
}

// Delivery returns a delivery by its id.
func (s *Service) Delivery(ctx context.Context, orgID, id string) (db.GetDeliveryRow, error) {
	row, err := s.cfg.Store.GetDelivery(ctx, db.GetDeliveryParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no delivery %q", id).WithObject(id)
	}
	return row, err
}

// Filter picks deliveries; empty fields pick all.
type Filter struct {
	TriggerID string
	States    []string
	PageSize  int32
	PageToken string
}

// Deliveries returns a page of the deliveries that v sees, newest first, and the
// next page's token.
func (s *Service) Deliveries(ctx context.Context, v task.Viewer, f Filter) ([]db.ListDeliveriesRow, string, error) {
	params := db.ListDeliveriesParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, States: f.States, MaxRows: f.PageSize + 1}
	if f.TriggerID != "" {
		params.TriggerID = &f.TriggerID
	}
	s.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListDeliveries(ctx, all)
		return err
	})
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListDeliveries(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list deliveries: %w", err)
	}
	if len(rows) <= int(f.PageSize) {
		return rows, "", nil
	}
	rows = rows[:f.PageSize]
	last := rows[len(rows)-1]
	return rows, store.PageToken(last.ReceivedAt, last.ID), nil
}

const pruneBatch = 1000

// Prune deletes what is kept long enough.
func (s *Service) Prune(ctx context.Context) error {
	for {
		n, err := s.cfg.Store.PruneDeliveries(ctx, db.PruneDeliveriesParams{Days: RetentionDays, MaxRows: pruneBatch})
		if err != nil {
			return fmt.Errorf("delete old deliveries: %w", err)
		}
		if n < pruneBatch {
			break
		}
	}
	if _, err := s.cfg.Store.PruneFlights(ctx, time.Hour); err != nil {
		return fmt.Errorf("forget what ran once at a time: %w", err)
	}
	return nil
}
