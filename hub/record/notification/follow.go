package notification

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// followBatch is how many events are read at once; those that are sent are held in
// memory.
const followBatch = 500

// Follower reads on in the histories of tasks. The leader runs it; a
// compare-and-swap of each destination's place keeps two apart while one takes
// over.
type Follower struct {
	lifecycle.Runner

	service *Service
}

// Follower returns the service's follower.
func (s *Service) Follower() *Follower { return &Follower{service: s} }

// Start begins to read.
func (f *Follower) Start(ctx context.Context) error {
	return f.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(f.service.cfg.Sweep)
		defer tick.Stop()
		for {
			if err := f.service.Follow(ctx); err != nil && ctx.Err() == nil {
				f.service.cfg.Log.Warn("cannot read events for notifications; will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// Follow reads all there is for all destinations.
func (s *Service) Follow(ctx context.Context) error {
	rows, err := s.cfg.Store.EnabledDestinations(ctx)
	if err != nil {
		return fmt.Errorf("list destinations: %w", err)
	}
	var failed []error
	for _, row := range rows {
		if err := s.follow(ctx, row); err != nil && !errors.Is(err, errMoved) {
			failed = append(failed, fmt.Errorf("destination %s: %w", row.ID, err))
		}
	}
	return errors.Join(failed...)
}

// errMoved reports that a destination's position has changed.
var errMoved = errors.New("another hub was here, or the destination was disabled")

// follow reads all there is for one.
func (s *Service) follow(ctx context.Context, row db.Destination) error {
	d, err := s.ready(ctx, row)
	if err != nil {
		return err
	}
	// An empty list would mean no restriction.
	types := append(d.selected.Sources(), "")
	xid, id := row.AfterXid, row.AfterID
	for ctx.Err() == nil {
		// A statement of its own: the next one's snapshot must be younger.
		horizon, err := s.cfg.Store.EventHorizon(ctx)
		if err != nil {
			return fmt.Errorf("find what is committed: %w", err)
		}
		events, err := s.cfg.Store.EventsToTell(ctx, db.EventsToTellParams{
			OrgID: d.OrgID, Types: types, AfterXid: xid, AfterID: id, Horizon: horizon, MaxRows: followBatch,
		})
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if len(events) == 0 {
			return nil
		}
		var out owed
		if d.Kind == kindNATS {
			err = s.publish(ctx, d, events)
		} else {
			err = d.collect(&out, events)
		}
		if err != nil {
			return err
		}
		last := events[len(events)-1]
		err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			moved, err := tx.MoveDestination(ctx, db.MoveDestinationParams{
				OrgID: d.OrgID, ID: d.ID, FromXid: xid, FromID: id, AfterXid: last.Xid, AfterID: last.ID,
			})
			if err != nil {
				return fmt.Errorf("store how far it was read: %w", err)
			}
			if moved == 0 {
				return errMoved
			}
			s.owe(tx, d.OrgID, out)
			return nil
		})
		if err != nil {
			return err
		}
		if xid, id = last.Xid, last.ID; len(events) < followBatch {
			return nil
		}
	}
	return ctx.Err()
}

// each calls fn with the messages of each event.
func (d *destination) each(events []db.EventsToTellRow, fn func(CloudEvent) error) error {
	for _, row := range events {
		if !row.Wanted || !d.about(row.AgentName) || !d.concerns(row.CreatedBy) {
			continue
		}
		var payload map[string]any
		if err := json.Unmarshal(row.Payload, &payload); err != nil {
			return fmt.Errorf("read event %d: %w", row.ID, err)
		}
		for _, kind := range d.selected.Of(row.Type, payload) {
			if err := fn(tell(d.OrgID, kind, row, payload)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *destination) collect(out *owed, events []db.EventsToTellRow) error {
	return d.each(events, func(e CloudEvent) error { return out.add(d.ID, e) })
}

// publish sends events on NATS, and returns when its server has them.
func (s *Service) publish(ctx context.Context, d *destination, events []db.EventsToTellRow) error {
	some := false
	err := d.each(events, func(e CloudEvent) error {
		data, err := e.encode()
		if err != nil {
			return err
		}
		some = true
		return s.cfg.Bus.PublishLifecycle(d.OrgID, e.Type, data)
	})
	if err != nil || !some {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.cfg.Bus.FlushEvents(ctx)
}
