package loop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// caller repeats calls to the hub that may yet succeed.
type caller struct {
	hub     Hub
	lease   *deckhandv1.Lease
	backoff backoff.Policy
	log     hclog.Logger
	// lost is set once a call was refused for the lease: no other is tried.
	lost atomic.Bool
}

// maxInternal is how often a call is repeated that the hub fails by itself: a
// mistake in the hub would not pass, and the lease would be renewed forever.
const maxInternal = 5

// do calls fn until it succeeds, fails for good, or the context ends. Every
// call of the loop may be repeated: the hub knows turns by their number, steps
// by their call, checkpoints by their iteration and events by their batch.
func (c *caller) do(ctx context.Context, what string, fn func(ctx context.Context) error) error {
	for failures := 1; ; failures++ {
		if c.lost.Load() {
			return fmt.Errorf("%s: %w", what, ErrLeaseLost)
		}
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := fault.As(fault.FromConnect(err))
		switch {
		case e.Code == fault.LeaseEnded:
			c.lost.Store(true)
			return fmt.Errorf("%s: %w", what, ErrLeaseLost)
		case !passing(e.Kind), e.Kind == fault.Internal && failures > maxInternal:
			return fmt.Errorf("%s: %w", what, err)
		}
		wait := c.backoff.Delay(failures)
		c.log.Warn("the hub did not take a call; trying again", "call", what, "error", e.Message, "failures", failures, "wait", wait)
		if err := backoff.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// passing says which errors of the hub may pass by themselves. The lease
// bounds how long they are waited for.
func passing(kind fault.Kind) bool {
	switch kind {
	case fault.Unavailable, fault.Deadline, fault.Aborted, fault.Exhausted, fault.Internal, fault.Canceled, fault.Unauthenticated:
		return true
	default:
		return false
	}
}

// outbox collects events until a call that stores them.
type outbox struct {
	hub   *caller
	delay time.Duration

	mu     sync.Mutex
	events []*deckhandv1.EventDraft
	batch  int64
	soon   *time.Timer
}

// maxEvents is the maximum number of events in one call.
const maxEvents = 100

// add appends an event. A payload that is no JSON is a mistake in this
// package; the event then says so.
func (o *outbox) add(kind eventkind.Kind, payload map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, &deckhandv1.EventDraft{Type: string(kind), Payload: toStruct(payload)})
}

// take returns what is there and forgets it.
func (o *outbox) take() []*deckhandv1.EventDraft {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.events
	o.events = nil
	return out
}

// flushSoon stores what is there by itself, unless a call takes it along before
// long: watchers see what a model or a command is busy with. An error is met
// again by the next call.
func (o *outbox) flushSoon(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.soon != nil {
		o.soon.Stop()
	}
	o.soon = time.AfterFunc(o.delay, func() {
		if err := o.flushDownTo(ctx, 0); err != nil && ctx.Err() == nil {
			o.hub.log.Debug("events wait for the next call", "reason", err)
		}
	})
}

// stop ends what flushSoon began.
func (o *outbox) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.soon != nil {
		o.soon.Stop()
	}
}

// flushDownTo stores events until at most left are there.
func (o *outbox) flushDownTo(ctx context.Context, left int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.events) > left {
		n := min(len(o.events), maxEvents)
		o.batch++
		err := o.hub.do(ctx, "store events", func(ctx context.Context) error {
			_, err := o.hub.hub.RecordEvents(ctx, &deckhandv1.RecordEventsRequest{
				Lease: o.hub.lease, Events: o.events[:n], Batch: o.batch,
			})
			return err
		})
		if err != nil {
			return err
		}
		o.events = o.events[n:]
	}
	return nil
}

// with gives what is there to a call that stores it in its own transaction.
func (o *outbox) with(ctx context.Context, call func(events []*deckhandv1.EventDraft) error) error {
	if err := o.flushDownTo(ctx, maxEvents); err != nil {
		return err
	}
	return call(o.take())
}
