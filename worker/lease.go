package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// errOutdated ends a task whose lease could not be renewed in time.
var errOutdated = errors.New("the lease could not be renewed in time")

// errGone ends a task whose lease the hub says is gone.
type errGone struct{ reason string }

// Error implements error.
func (e errGone) Error() string { return "the lease is gone: " + e.reason }

// margin is how long before a lease can have ended on the hub's clock its task
// is stopped: a sixth of its length, at most 5 s.
func margin(ttl time.Duration) time.Duration { return min(ttl/6, 5*time.Second) }

// heldLease is one lease. Its task's context ends when the lease is lost, and
// otherwise before it can have expired: the hub counts a lease from its
// response, and the worker from its request, which was earlier.
type heldLease struct {
	lease  *deckhandv1.Lease
	cancel context.CancelCauseFunc
	end    *time.Timer
}

// leases are those that the worker holds.
type leases struct {
	mu   sync.Mutex
	held map[string]*heldLease // by task id
}

func newLeases() *leases { return &leases{held: map[string]*heldLease{}} }

// add starts to manage a lease that was requested at sent. The returned context
// ends with the lease.
func (l *leases) add(ctx context.Context, lease *deckhandv1.Lease, sent time.Time, ttl time.Duration) (context.Context, *heldLease) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &heldLease{lease: lease, cancel: cancel}
	h.end = time.AfterFunc(time.Until(sent.Add(ttl-margin(ttl))), func() { cancel(errOutdated) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[lease.GetTaskId()] = h
	return ctx, h
}

// drop ends the care for a lease.
func (l *leases) drop(h *heldLease) {
	h.end.Stop()
	h.cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[h.lease.GetTaskId()] == h {
		delete(l.held, h.lease.GetTaskId())
	}
}

// all returns the current leases.
func (l *leases) all() []*heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*heldLease, 0, len(l.held))
	for _, h := range l.held {
		out = append(out, h)
	}
	return out
}

// tasks returns the ids of the tasks whose leases are held.
func (l *leases) tasks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}

// renewed moves a lease's end. A task that was stopped already stays stopped.
func (h *heldLease) renewed(sent time.Time, ttl time.Duration) {
	if h.end.Stop() {
		h.end.Reset(time.Until(sent.Add(ttl - margin(ttl))))
	}
}

// defaultRenewal is the interval of renewals where the hub names none.
const defaultRenewal = 10 * time.Second

// renewLoop renews all leases in one call each interval, and sooner after a
// failure, and when the hub is to hear that this worker takes nothing new, or does again.
func (w *Worker) renewLoop(ctx context.Context) {
	retry := backoff.Policy{Base: 200 * time.Millisecond, Max: 2 * time.Second}
	for failures := 0; ; {
		interval := w.registered.Load().GetRenewInterval().AsDuration()
		if interval <= 0 {
			interval = defaultRenewal
		}
		wait := interval
		if failures > 0 {
			wait = min(interval, retry.Delay(failures))
		}
		if w.sleepBetweenRenewals(ctx, wait, failures > 0) != nil {
			return
		}
		if err := w.renew(ctx, interval); err != nil {
			failures++
			w.cfg.Log.Warn("leases were not renewed; trying again", "error", err, "failures", failures)
		} else {
			failures = 0
		}
	}
}

// sleepBetweenRenewals waits until the next renewal is due: after d or, unless the last one
// failed, as soon as the hub does not know whether this worker takes new tasks. Where it does
// not, the door is shut, whatever the hub knows.
func (w *Worker) sleepBetweenRenewals(ctx context.Context, d time.Duration, failed bool) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	stopping := w.stopping
	for {
		why, changed := closedFor(w)
		w.door.press(why != "")
		if told := w.told.Load(); !failed && why != deref(told) && w.registered.Load().GetWorkerId() != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-changed:
		case <-stopping:
			stopping = nil
		}
	}
}

// closedFor returns why a worker takes nothing new, empty if it does, and what ends when
// that may have changed; nil for never.
func closedFor(w *Worker) (why string, changed <-chan struct{}) {
	select {
	case <-w.stopping:
		return "it is stopping", nil
	default:
		return w.pressure.Now()
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// renew renews all leases of this worker. It is also the worker's heartbeat,
// even without leases, and the response says whether the worker may take more
// tasks.
func (w *Worker) renew(ctx context.Context, timeout time.Duration) error {
	all := w.leases.all()
	registered := w.registered.Load()
	if registered.GetWorkerId() == "" {
		return nil // it is registering
	}
	why, _ := closedFor(w)
	req := &deckhandv1.RenewLeasesRequest{WorkerId: registered.GetWorkerId(), Pressure: why}
	for _, h := range all {
		req.Leases = append(req.Leases, h.lease)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := time.Now()
	res, err := w.client.Workers.RenewLeases(ctx, req)
	if len(all) > 0 {
		w.metrics.renewed(err)
	}
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			w.forget()
		}
		return fmt.Errorf("renew %d leases: %w", len(all), err)
	}
	w.told.Store(&why)
	w.heardNow()
	w.door.set(res.GetDraining())
	if len(res.GetRenewals()) != len(all) {
		return fmt.Errorf("the hub answered %d renewals for %d leases", len(res.GetRenewals()), len(all))
	}
	for i, renewal := range res.GetRenewals() {
		switch {
		case renewal.GetHeld():
			all[i].renewed(sent, registered.GetLeaseTtl().AsDuration())
		case renewal.GetDeferred(): // its end stays as it is
		default:
			all[i].cancel(errGone{renewal.GetReason()})
		}
	}
	return nil
}
