package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/takeover"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// takenOver returns by whom the browser that a step is for is taken over; empty for nobody. It
// may be taken over between this and the call: then the call waits at the browser's keeper.
func takenOver(ctx context.Context, q *db.Queries, step db.Step) (string, error) {
	if !toolname.IsBrowser(step.Tool) {
		return "", nil
	}
	row, err := takeover.Now(ctx, q, step.OrgID, step.TaskID)
	if err != nil || row == nil {
		return "", err
	}
	return row.UserName, nil
}

// waits begins the reason of a step that waits for a machine or for a person, and hasTaken ends that
// for a person.
const (
	waits    = "waits: "
	hasTaken = " has taken over the browser"
)

// waitsForPerson reports whether a step was last said to wait for the person who has the browser.
func waitsForPerson(step db.Step) bool {
	return strings.HasPrefix(step.DecisionReason, waits) && strings.HasSuffix(step.DecisionReason, hasTaken)
}

// waitForPerson waits, as long as a call of the worker may, until the person who has taken the
// browser over gives it back, and says in the step why it waits. It reports whether the step may
// start.
func waitForPerson(ctx context.Context, s *Steps, step db.Step) (bool, error) {
	if State(step.State) != Granted || !toolname.IsBrowser(step.Tool) {
		return true, nil
	}
	return waitWhile(ctx, s, step, waitsForPerson(step), "allowed, after the browser was given back", func(ctx context.Context) (string, error) {
		by, err := takenOver(ctx, s.cfg.Store.Queries, step)
		if err != nil || by == "" {
			return "", err
		}
		return waits + by + hasTaken, nil
	})
}

// waitLook is how often a step that waits looks whether it may start.
const waitLook = 500 * time.Millisecond

// waitWhile waits, as long as a call of the worker may, while held returns why a granted step must
// wait, and says that in the step; once nothing holds it, freed is its reason. waited reports
// whether the step was last said to wait for this. waitWhile reports whether the step may start.
func waitWhile(ctx context.Context, s *Steps, step db.Step, waited bool, freed string, held func(context.Context) (string, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NodeWait)
	defer cancel()
	tick := time.NewTicker(waitLook)
	defer tick.Stop()
	said := ""
	for {
		holds, err := held(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return false, nil
			}
			return false, err
		}
		reason := holds
		if holds == "" && (waited || said != "") {
			reason = freed
		}
		if reason != "" && reason != said {
			said = reason
			if err := s.cfg.Store.SetStepWait(context.WithoutCancel(ctx), db.SetStepWaitParams{OrgID: step.OrgID, ID: step.ID, Reason: s.cfg.Redact.Org(step.OrgID).String(reason)}); err != nil {
				return false, fmt.Errorf("say why step %s waits: %w", step.ID, err)
			}
		}
		if holds == "" {
			return true, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}

// WatchBrowser begins to watch the browser of a task.
func WatchBrowser(ctx context.Context, s *Steps, t db.Task) (*tool.BrowserWatch, error) {
	none := fault.New(fault.Precondition, "the task has no browser that runs").WithObject(t.ID).WithFix("wait until it opens a page")
	if _, err := s.cfg.Store.BrowserKey(ctx, db.BrowserKeyParams{OrgID: t.OrgID, TaskID: t.ID}); store.IsNotFound(err) || err == nil && (t.NodeID == nil || t.JailID == "") {
		return nil, none
	}
	key, err := browsers{s}.key(ctx, t)
	if err != nil {
		return nil, err
	}
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return nil, err
	}
	return tool.WatchBrowser(ctx, node, t.JailID, t.ID, key)
}

// MayTakeOver refuses a take-over of the browser of a task in review mode: what a person did would
// be made at once, and not at the end of the review.
func MayTakeOver(ctx context.Context, s *Steps, t db.Task) error {
	p, err := s.persona(ctx, t)
	if err != nil {
		return err
	}
	if p.Mode == persona.Review {
		return fault.New(fault.Precondition, "in review mode, nothing leaves the workspace before the review: the browser cannot be taken over").WithObject(t.ID).
			WithFix("tell the agent what to look at, or accept its run")
	}
	return nil
}
