// Package takeover keeps which browsers of tasks a person has taken over. It lasts as long as
// the hub with the person's stream says so every few seconds: one that dies gives it back.
package takeover

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// lasts is how long a take-over lasts without Keep, and KeepEvery how often that is due.
const (
	lasts     = 15 * time.Second
	KeepEvery = 3 * time.Second
)

// Takeovers is the store of take-overs.
type Takeovers struct {
	Store    *store.Store
	Recorder *event.Recorder
}

// Takeover is one in effect.
type Takeover struct {
	db.BrowserTakeover

	by event.Actor
	// Acts is how many acts were recorded.
	Acts int
}

// Now returns who has the browser of a task; nil for the agent.
func Now(ctx context.Context, q *db.Queries, orgID, taskID string) (*db.BrowserTakeover, error) {
	row, err := q.BrowserTakenOver(ctx, db.BrowserTakenOverParams{OrgID: orgID, TaskID: taskID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find who has the browser of %s: %w", taskID, err)
	}
	return &row, nil
}

// Take has the browser of a task be a person's.
func (s *Takeovers) Take(ctx context.Context, t db.Task, by event.Actor, userID string) (*Takeover, error) {
	var row db.BrowserTakeover
	err := s.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		if err := endLapsed(ctx, tx, t.ID); err != nil {
			return err
		}
		row, err = tx.TakeBrowser(ctx, db.TakeBrowserParams{TaskID: t.ID, OrgID: t.OrgID, Holder: ident.New("hold"), UserID: userID, UserName: by.ID, Lasts: lasts})
		if store.IsNotFound(err) {
			has, err := tx.BrowserTakenOver(ctx, db.BrowserTakenOverParams{OrgID: t.OrgID, TaskID: t.ID})
			if err != nil {
				return fault.New(fault.Unavailable, "the browser has just been given back").WithObject(t.ID).WithFix("take it over again")
			}
			return fault.New(fault.Precondition, "%s has had this browser since %s UTC", has.UserName, has.BeganAt.UTC().Format("15:04:05")).WithObject(t.ID).
				WithFix("wait until it is given back, maybe in another tab of yours")
		}
		if err != nil {
			return fmt.Errorf("take the browser of %s over: %w", t.ID, err)
		}
		return tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.BrowserTaken, Payload: map[string]any{"by": by.ID}})
	})
	return &Takeover{BrowserTakeover: row, by: by}, err
}

// Keep reports whether a take-over is still in effect, and has it last longer.
func (s *Takeovers) Keep(ctx context.Context, t *Takeover) (bool, error) {
	n, err := s.Store.KeepBrowser(ctx, db.KeepBrowserParams{OrgID: t.OrgID, TaskID: t.TaskID, Holder: t.Holder, Lasts: lasts})
	return n > 0, err
}

// Record adds an act of the person to the task's history.
func (s *Takeovers) Record(ctx context.Context, t *Takeover, payload map[string]any) error {
	payload["by"] = t.UserName
	err := s.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return tx.Append(t.OrgID, t.TaskID, t.by, event.Draft{Type: eventkind.BrowserActed, Payload: payload})
	})
	if err == nil {
		t.Acts++
	}
	return err
}

// Give gives the browser back to the agent. If it has lapsed and that is in the history, nothing is
// added.
func (s *Takeovers) Give(ctx context.Context, t *Takeover, reason string) error {
	return s.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.GiveBrowserBack(ctx, db.GiveBrowserBackParams{OrgID: t.OrgID, TaskID: t.TaskID, Holder: t.Holder})
		if err != nil {
			return fmt.Errorf("give the browser of %s back: %w", t.TaskID, err)
		}
		if n == 0 {
			return nil
		}
		return tx.Append(t.OrgID, t.TaskID, t.by, event.Draft{Type: eventkind.BrowserGiven, Payload: map[string]any{"by": t.UserName, "reason": reason, "acts": t.Acts}})
	})
}

// Sweep ends the take-overs whose hub does not keep them any more.
func (s *Takeovers) Sweep(ctx context.Context) error {
	return s.Recorder.Tx(ctx, func(tx *event.Tx) error { return endLapsed(ctx, tx, "") })
}

// endLapsed ends what has lapsed of a task; of all if that is empty.
func endLapsed(ctx context.Context, tx *event.Tx, taskID string) error {
	gone, err := tx.EndLapsedTakeovers(ctx, taskID)
	if err != nil {
		return fmt.Errorf("end take-overs that have lapsed: %w", err)
	}
	for _, row := range gone {
		if err := tx.Append(row.OrgID, row.TaskID, event.Actor{Kind: "hub", ID: "takeover"}, event.Draft{
			Type: eventkind.BrowserGiven, Payload: map[string]any{"by": row.UserName, "reason": "its hub ended"},
		}); err != nil {
			return err
		}
	}
	return nil
}
