// Package outage keeps the tasks whose model does not answer: its provider is overloaded,
// limits the rate, or cannot be reached. Such a task waits without a slot. From time to
// time the task that has waited longest tries the model, one for each model and
// organisation; when it answers, all that wait for it go on. An outage that lasts is one item
// of the inbox for its provider, which is withdrawn when a model of it answers.
package outage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

const (
	// SweepEvery is the interval of Sweep.
	SweepEvery = 2 * time.Second
	// probeTime is after how long another task probes, if the one that does has not
	// reported: it may wait for a worker itself.
	probeTime = 5 * time.Minute
)

// tellAfter is how long a model does not answer before people are told: most outages are
// shorter.
const tellAfter = time.Minute

// probeDelay is the time between probes.
var probeDelay = backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute}

// Model names a model of a provider; the zero value names none.
type Model struct{ Provider, Name string }

// String is for people.
func (m Model) String() string { return m.Name + " of " + m.Provider }

// Failure is how a model did not answer.
type Failure struct {
	Model         Model
	Code, Message string
	// After is the shortest time to wait, if the provider named one.
	After time.Duration
	// MaxWait is how long the task waits for an answer before a person must look.
	MaxWait time.Duration
}

// Wait takes a running task from its worker until its model answers again. A task that
// has waited for f.MaxWait is escalated.
func Wait(ctx context.Context, tx *event.Tx, t db.Task, f Failure, by event.Actor) error {
	joined, err := tx.JoinOutage(ctx, db.JoinOutageParams{OrgID: t.OrgID, ID: t.ID, Provider: f.Model.Provider, Model: f.Model.Name, MaxWait: f.MaxWait})
	if err != nil {
		return fmt.Errorf("store that %s waits for its model: %w", t.ID, err)
	}
	if err := count(ctx, tx, t, f); err != nil {
		return err
	}
	cause := strings.TrimSuffix(f.Message, ".")
	if joined.TimeLeft <= 0 {
		if err := tx.LeaveOutage(ctx, db.LeaveOutageParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
			return fmt.Errorf("store that %s waits no longer: %w", t.ID, err)
		}
		return task.Escalate(ctx, tx, t, fmt.Sprintf("No answer from its model in %s (limits.outage). Last error: %s", f.MaxWait, cause), f.Code, by)
	}
	until := time.Now().Add(joined.TimeLeft).UTC()
	if err := tx.Append(t.OrgID, t.ID, by, event.Draft{Type: eventkind.ModelOutage, Payload: map[string]any{
		"provider": f.Model.Provider, "model": f.Model.Name, "error_code": f.Code, "message": f.Message,
		"since": joined.OutageSince.UTC().Format(time.RFC3339), "until": until.Format(time.RFC3339),
	}}); err != nil {
		return err
	}
	reason := fmt.Sprintf("%s; goes on when %s answers again, and is escalated if it does not until %s",
		cause, f.Model, until.Format("2006-01-02 15:04:05 UTC"))
	if _, err := task.Move(ctx, tx, t, task.Waiting, reason, by); err != nil {
		return err
	}
	// It tries once more then.
	if err := tx.SetTaskTimer(ctx, db.SetTaskTimerParams{OrgID: t.OrgID, ID: t.ID, Wait: joined.TimeLeft, Reason: reason}); err != nil {
		return fmt.Errorf("set the timer of %s: %w", t.ID, err)
	}
	return nil
}

// count stores that a model failed a task. What counts for the time of the next probe is
// the first failure, and those of probes.
func count(ctx context.Context, tx *event.Tx, t db.Task, f Failure) error {
	key := db.LockOutageParams{OrgID: t.OrgID, Provider: f.Model.Provider, Model: f.Model.Name}
	if err := tx.CreateOutage(ctx, db.CreateOutageParams(key)); err != nil {
		return fmt.Errorf("store that %s does not answer: %w", f.Model, err)
	}
	o, err := tx.LockOutage(ctx, key)
	if err != nil {
		return fmt.Errorf("lock the outage of %s: %w", f.Model, err)
	}
	params := db.CountOutageFailureParams{OrgID: t.OrgID, Provider: f.Model.Provider, Model: f.Model.Name, Failures: o.Failures, Prober: o.Prober}
	if o.Failures == 0 || o.Prober == t.ID {
		wait := max(f.After, probeDelay.FullDelay(int(o.Failures)+1))
		params.Failures, params.Prober, params.Wait = o.Failures+1, "", &wait
	}
	if err := tx.CountOutageFailure(ctx, params); err != nil {
		return fmt.Errorf("store that %s does not answer: %w", f.Model, err)
	}
	if time.Since(o.Since) < tellAfter {
		return nil
	}
	return stop.OpenOutage(ctx, tx, t.OrgID, t.ID, f.Model.Provider, strings.TrimSuffix(f.Message, "."), o.Since)
}

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Log      hclog.Logger
}

// Service ends the waits for models. It may be used by several goroutines.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Sweep sends the probes that are due, and wakes the tasks whose model answers again.
func (s *Service) Sweep(ctx context.Context) error {
	rows, err := s.cfg.Store.Outages(ctx)
	if err != nil {
		return fmt.Errorf("find the models that tasks wait for: %w", err)
	}
	var errs []error
	for _, o := range rows {
		switch {
		case o.Answers:
			errs = append(errs, s.wake(ctx, o))
		case o.Due:
			_, err := s.next(ctx, o, fmt.Sprintf("looks whether %s answers again; waits for a worker", modelOf(o)), s.probes)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func modelOf(o db.OutagesRow) Model { return Model{Provider: o.Provider, Name: o.Model} }

// wake queues all tasks that wait for a model.
func (s *Service) wake(ctx context.Context, o db.OutagesRow) error {
	s.cfg.Log.Info("a model answers again", "org_id", o.OrgID, "provider", o.Provider, "model", o.Model, "tasks", o.Tasks)
	for range o.Tasks {
		found, err := s.next(ctx, o, fmt.Sprintf("%s answers again; waits for a worker", modelOf(o)), nil)
		if err != nil {
			return err
		}
		if !found {
			break
		}
	}
	if err := s.cfg.Store.DeleteOutage(ctx, db.DeleteOutageParams{OrgID: o.OrgID, Provider: o.Provider, Model: o.Model, FailedAt: *o.FailedAt}); err != nil {
		return fmt.Errorf("store that %s answers again: %w", modelOf(o), err)
	}
	// Another model of the provider that does not answer opens it again with its next failure.
	return stop.Withdraw(ctx, s.cfg.Store.Queries, o.OrgID, stop.Provider, stop.OutageSubject(o.Provider), modelOf(o).String()+" answers again")
}

// next queues the task that has waited longest for a model, and reports whether there was
// one. then, if set, is done in the same transaction.
func (s *Service) next(ctx context.Context, o db.OutagesRow, reason string, then func(ctx context.Context, tx *event.Tx, t db.Task) error) (found bool, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTaskInOutage(ctx, db.LockTaskInOutageParams{OrgID: o.OrgID, Provider: o.Provider, Model: o.Model})
		if store.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock a task that waits for %s: %w", modelOf(o), err)
		}
		found = true
		if then != nil {
			if err := then(ctx, tx, t); err != nil {
				return err
			}
		}
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		_, err = task.Move(ctx, tx, t, task.Queued, reason, event.Hub)
		return err
	})
	return found, err
}

// probes stores that a task tries its model.
func (s *Service) probes(ctx context.Context, tx *event.Tx, t db.Task) error {
	err := tx.ProbeOutage(ctx, db.ProbeOutageParams{
		OrgID: t.OrgID, Provider: t.OutageProvider, Model: t.OutageModel, Prober: t.ID, Wait: probeTime,
	})
	if err != nil {
		return fmt.Errorf("store that %s probes its model: %w", t.ID, err)
	}
	return nil
}
