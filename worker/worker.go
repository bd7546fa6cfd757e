// Package worker runs agents' loops. A Worker registers with a hub, learns over
// NATS that tasks can be claimed, claims as many as it has free slots, and runs
// each with package loop in its own goroutine. Everything else (turns, steps,
// events, models) goes through the hub.
//
// It holds no state that it cannot lose. If it is killed, its leases expire and
// other workers continue where it stopped. If it is stopped, its tasks may go on for
// Config.DrainTimeout, and then it returns them to the queue at no cost. If the hub cannot
// be reached, it retries with jitter, and each of its tasks stops before its lease can
// have expired on the hub's clock.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/version"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
	"github.com/deckhand-sh/deckhand/worker/model/failover"
)

// Worker is a lifecycle.Service. It ends by itself only when the hub refuses
// its token.
type Worker struct {
	lifecycle.Runner

	cfg    Config
	client *sdk.Client
	leases *leases
	// slots holds one element for each task that runs.
	slots chan struct{}
	// lent holds one element for each task that has given its slot to another while it
	// starts.
	lent chan struct{}
	door *intake
	// pressure reports whether this machine has room for new tasks.
	pressure *pressure.Watch
	// stopping is closed when the worker is told to stop.
	stopping chan struct{}
	tasks    sync.WaitGroup
	// ending ends when tasks are handed back, since the worker stops.
	ending context.Context
	// registered is what the hub answered last; never nil once running.
	registered atomic.Pointer[deckhandv1.RegisterWorkerResponse]
	// forgotten is poked when the hub no longer knows this worker.
	forgotten chan struct{}
	metrics   *metrics
	// breakers are those of all models that this worker asks.
	breakers *failover.Breakers
	// heard is when the hub answered last; nil before it did.
	heard atomic.Pointer[time.Time]
	// bus is where wake-ups are heard; nil for nowhere.
	bus atomic.Pointer[nats.Conn]
	// told is why this worker takes nothing new, as it was reported to the hub; nil for
	// nothing.
	told  atomic.Pointer[string]
	retry backoff.Policy
}

func newWorker(cfg Config, client *sdk.Client) *Worker {
	w := &Worker{
		cfg: cfg, client: client, leases: newLeases(), slots: make(chan struct{}, cfg.Slots), lent: make(chan struct{}, cfg.Slots), door: newDoor(),
		pressure:  pressure.New(pressure.Config{Limits: cfg.Pressure, Measure: cfg.Measure, Log: cfg.Log}),
		forgotten: make(chan struct{}, 1), retry: backoff.Policy{Base: 200 * time.Millisecond, Max: 15 * time.Second},
	}
	w.metrics = newMetrics(cfg.Registry, cfg.Slots, func() int { return len(w.slots) })
	w.breakers = failover.NewBreakers(failover.BreakerConfig{OpenFor: w.cfg.ModelRest, Changed: func(provider, of string, open bool) {
		w.metrics.breaker(provider, of, open)
		if open {
			cfg.Log.Warn("a model does not answer and is left alone for a while", "provider", provider, "model", of)
			return
		}
		cfg.Log.Info("a model answers again", "provider", provider, "model", of)
	}})
	return w
}

// Start begins to take on tasks. A hub that cannot be reached yet is waited
// for.
func (w *Worker) Start(ctx context.Context) error { return w.Run(ctx, w.run) }

func (w *Worker) run(ctx context.Context) error {
	// Renewals continue until the last task has been handed back.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewer sync.WaitGroup
	defer renewer.Wait()
	defer stopRenewing()
	defer w.tasks.Wait()
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	w.ending = ending
	w.stopping = make(chan struct{})
	defer func() {
		close(w.stopping)
		idle := make(chan struct{})
		go func() {
			w.tasks.Wait()
			close(idle)
		}()
		drain.Config{Timeout: w.cfg.DrainTimeout, Running: w.leases.tasks, Log: w.cfg.Log}.Wait(idle)
		end()
	}()

	if err := w.pressure.Start(renewing); err != nil {
		return fmt.Errorf("watch the machine: %w", err)
	}
	defer w.pressure.Stop()
	if err := w.register(ctx); err != nil {
		return ended(ctx, err)
	}
	renewer.Go(func() { w.renewLoop(renewing) })
	for failures := 0; ; {
		started := time.Now()
		err := w.listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(started) > time.Minute {
			failures = 0
		}
		failures++
		wait := w.retry.Delay(failures)
		if errors.Is(err, errForgotten) {
			w.cfg.Log.Info("the hub no longer knows this worker; registering again")
		} else {
			w.cfg.Log.Warn("wake-ups cannot be heard; trying again", "error", err, "wait", wait)
		}
		if backoff.Wait(ctx, wait) != nil {
			return nil
		}
		if err := w.register(ctx); err != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns nil for what ended with the context.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// register makes the worker known, as who it was before where the hub still
// remembers. It returns an error only when trying again would not help.
func (w *Worker) register(ctx context.Context) error {
	for failures := 1; ; failures++ {
		req := &deckhandv1.RegisterWorkerRequest{
			Name: w.cfg.Name, Slots: int32(w.cfg.Slots), Version: version.Version, Pool: w.cfg.Pool,
			WorkerId: w.registered.Load().GetWorkerId(),
		}
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		res, err := w.client.Workers.RegisterWorker(callCtx, req)
		cancel()
		if err == nil {
			w.cfg.Redactor.Add(res.GetBus().GetPassword())
			if req.GetWorkerId() != res.GetWorkerId() {
				w.told.Store(nil)
			}
			w.registered.Store(res)
			w.heardNow()
			// An earlier message about the registration is obsolete.
			select {
			case <-w.forgotten:
			default:
			}
			w.cfg.Log.Info("registered", "worker_id", res.GetWorkerId(), "hub", w.client.URL(), "slots", w.cfg.Slots)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := fault.As(err)
		switch e.Kind {
		case fault.NotFound:
			if req.GetWorkerId() != "" {
				w.registered.Store(&deckhandv1.RegisterWorkerResponse{})
				continue
			}
		case fault.Unauthenticated, fault.Denied, fault.Invalid:
			return fmt.Errorf("register with the hub at %s: %w", w.client.URL(), err)
		}
		wait := w.retry.Delay(failures)
		w.cfg.Log.Warn("the hub does not take the registration; trying again", "hub", w.client.URL(), "error", e.Message, "wait", wait)
		if err := backoff.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// callTimeout limits calls to which the hub responds at once.
const callTimeout = 10 * time.Second

// forget notes that the hub no longer knows this worker.
func (w *Worker) forget() {
	select {
	case w.forgotten <- struct{}{}:
	default:
	}
}
