package trigger

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// dueBatch is how many triggers fire in one transaction.
	dueBatch = 500
	// firers is how many such transactions run at once.
	firers = 2
	// longestSleep is when a clock looks that nothing has woken: a trigger may have
	// been made.
	longestSleep = time.Second
	// shortestSleep keeps a clock from spinning on what is just not due.
	shortestSleep = time.Millisecond
	// lateAfter is how late a slot may fire before it counts as missed: no hub led
	// for a moment.
	lateAfter = time.Minute
	// loopAfterFailure is the least pause of a loop whose run could not begin.
	loopAfterFailure = time.Minute
	loopBatch        = 100
)

// Clock fires schedules and loops. The leader runs it; the rows' locks and the
// deliveries' keys keep two leaders apart during a takeover. Time is the database's:
// setting its clock back fires no slot again, since a trigger's next slot only moves
// forward.
type Clock struct {
	lifecycle.Runner

	triggers *Service
}

// Clock returns the service's clock.
func (s *Service) Clock() *Clock { return &Clock{triggers: s} }

// Start begins to fire what is due.
func (c *Clock) Start(ctx context.Context) error {
	return c.Run(ctx, func(ctx context.Context) error {
		sleep := time.NewTimer(0)
		defer sleep.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-sleep.C:
			}
			wait, err := c.triggers.Tick(ctx)
			if err != nil {
				if ctx.Err() == nil {
					c.triggers.cfg.Log.Warn("cannot fire due triggers; will try again", "error", err)
				}
				wait = longestSleep
			}
			sleep.Reset(min(max(wait, shortestSleep), longestSleep))
		}
	})
}

// Tick fires everything that is due, and returns the time until the next slot.
func (s *Service) Tick(ctx context.Context) (time.Duration, error) {
	n, err := s.fire(ctx)
	if err == nil && n == dueBatch {
		// Very many at one moment: their deliveries wait until all have fired.
		var firing errgroup.Group
		for range firers {
			firing.Go(func() error {
				for {
					if n, err := s.fire(ctx); err != nil || n < dueBatch {
						return err
					}
				}
			})
		}
		err = firing.Wait()
	}
	if n > 0 {
		s.Kick()
	}
	if err != nil {
		return 0, err
	}
	if err := s.restLoops(ctx); err != nil {
		return 0, err
	}
	wait, err := s.cfg.Store.NextDueTrigger(ctx)
	if err != nil {
		return 0, fmt.Errorf("find what is due next: %w", err)
	}
	return wait, nil
}

// fire fires a batch of triggers, and returns how many were due.
func (s *Service) fire(ctx context.Context) (n int, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := tx.LockDueTriggers(ctx, dueBatch)
		if err != nil {
			return fmt.Errorf("lock the triggers that are due: %w", err)
		}
		n = len(rows)
		if n == 0 {
			return nil
		}
		var fired db.FireSlotsParams
		var moved db.SetTriggerSlotsParams
		var resting []db.Trigger
		for _, row := range rows {
			t := row.Trigger
			if Kind(t.Kind) == Loop {
				add(&fired, t, "loop", "loop:"+t.NextAt.UTC().Format(time.RFC3339Nano), "accepted", "", *t.NextAt)
				resting = append(resting, t)
				continue
			}
			c, err := s.compile(t)
			if err == nil && (c.every == nil || t.SlotAt == nil) {
				err = fmt.Errorf("trigger %s of kind %s has a time and no slot", t.ID, t.Kind)
			}
			if err != nil {
				return err
			}
			slot := c.due(&fired, t, row.Now)
			if slot.IsZero() {
				resting = append(resting, t) // never again
				continue
			}
			moved.Ids, moved.Slots = append(moved.Ids, t.ID), append(moved.Slots, slot)
			moved.Nexts = append(moved.Nexts, slot.Add(schedule.Jitter(t.ID, slot, c.spec.GetCron().GetJitter().AsDuration())))
		}
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			if err := q.FireSlots(ctx, fired); err != nil {
				return err
			}
			for _, t := range resting {
				if err := q.SetTriggerNext(ctx, db.SetTriggerNextParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
					return err
				}
			}
			return q.SetTriggerSlots(ctx, moved)
		})
		return nil
	})
	return n, err
}

// due adds what a schedule fires now, and returns its next slot.
func (c *compiled) due(fired *db.FireSlotsParams, t db.Trigger, now time.Time) time.Time {
	cron := c.spec.GetCron()
	slot := *t.SlotAt
	if now.Sub(*t.NextAt) <= lateAfter {
		add(fired, t, "cron", slotKey(slot), "accepted", "", slot)
		return c.every.Next(slot)
	}
	// No hub ran at that time, nor perhaps at the slots after it.
	missed := cron.GetMissed()
	most := 1
	if missed == "all" {
		if most = int(cron.GetMaxMissed()); most == 0 {
			most = defaultMaxMissed
		}
	}
	slots, _ := c.every.Missed(slot.Add(-time.Second), now, most)
	if len(slots) == 0 {
		return c.every.Next(now)
	}
	last := slots[len(slots)-1]
	switch recent := now.Sub(last) <= lateAfter; {
	case missed == "skip" && recent:
		add(fired, t, "cron", slotKey(last), "accepted", "", last)
	case missed == "skip":
		add(fired, t, "cron", slotKey(last), "filtered", "no hub was there from "+slot.UTC().Format(time.RFC3339)+" on, and missed is skip", last)
	default:
		for _, missed := range slots {
			add(fired, t, "cron", slotKey(missed), "accepted", "", missed)
		}
	}
	return c.every.Next(last)
}

func slotKey(slot time.Time) string { return "slot:" + slot.UTC().Format(time.RFC3339) }

func add(f *db.FireSlotsParams, t db.Trigger, source, key, state, reason string, slot time.Time) {
	f.Ids, f.Orgs, f.Triggers = append(f.Ids, ident.New("dlv")), append(f.Orgs, t.OrgID), append(f.Triggers, t.ID)
	f.Keys, f.Sources, f.States = append(f.Keys, key), append(f.Sources, source), append(f.States, state)
	f.Reasons, f.Slots = append(f.Reasons, reason), append(f.Slots, slot)
}

// restLoops sets when loops continue whose run has ended.
func (s *Service) restLoops(ctx context.Context) error {
	rows, err := s.cfg.Store.RestingLoops(ctx, loopBatch)
	if err != nil {
		return fmt.Errorf("find loops whose run has ended: %w", err)
	}
	for _, row := range rows {
		c, err := s.compile(row.Trigger)
		if err != nil {
			return err
		}
		pause := c.pause()
		if row.Asked >= 0 {
			least, most := c.pauses()
			pause = min(max(time.Duration(row.Asked)*time.Second, least), most)
		}
		if row.DeliveryState != "started" {
			pause = max(pause, loopAfterFailure)
		}
		if err := s.cfg.Store.SetTriggerNext(ctx, db.SetTriggerNextParams{
			OrgID: row.Trigger.OrgID, ID: row.Trigger.ID, NextAt: new(row.EndedAt.Add(pause)),
		}); err != nil {
			return fmt.Errorf("set when loop %s goes on: %w", row.Trigger.ID, err)
		}
	}
	return nil
}
