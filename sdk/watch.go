package sdk

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// silence is how long a watch may be quiet before the link counts as dead: the
// hub sends a heartbeat every 15 s.
const silence = 45 * time.Second

// watchBackoff spreads the returns of many watchers after a hub restart.
var watchBackoff = backoff.Policy{Base: 200 * time.Millisecond, Max: 10 * time.Second}

// Watch returns what EventService.Watch streams, heartbeats left out. When the
// link breaks it connects again, with jittered waits for as long as the
// context lives, and goes on after the last cursor it saw: no stored event is
// missed or repeated. Live thinking is not stored: a piece may be missed.
//
// The sequence ends when the hub ends it, or with one error: the context's, or
// one that a new try would not mend.
func (c *Client) Watch(ctx context.Context, req *deckhandv1.WatchRequest) iter.Seq2[*deckhandv1.WatchResponse, error] {
	return c.watch(ctx, req, silence)
}

func (c *Client) watch(ctx context.Context, req *deckhandv1.WatchRequest, silence time.Duration) iter.Seq2[*deckhandv1.WatchResponse, error] {
	return func(yield func(*deckhandv1.WatchResponse, error) bool) {
		req := proto.CloneOf(req)
		for failures := 0; ; {
			before := req.GetCursor()
			left, err := c.watchOnce(ctx, req, silence, yield)
			if left {
				return
			}
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			if !worthReturning(err) {
				yield(nil, fault.FromConnect(err))
				return
			}
			if req.GetCursor() != before {
				failures = 0
			}
			failures++
			if err := backoff.Wait(ctx, watchBackoff.Delay(failures)); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errSilent ends a stream on which nothing came for too long.
var errSilent = errors.New("nothing was heard from the hub, not even a heartbeat")

// watchOnce reads one stream and moves req's cursor along. left says that the
// caller or the hub is done.
func (c *Client) watchOnce(ctx context.Context, req *deckhandv1.WatchRequest, silence time.Duration,
	yield func(*deckhandv1.WatchResponse, error) bool,
) (left bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()

	stream, err := c.Events.Watch(ctx, req)
	if err != nil {
		return false, silenceOr(ctx, err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		quiet.Reset(silence)
		res := stream.Msg()
		if cursor := res.GetCursor(); cursor != "" {
			// The hub refuses a watch that begins both there and now.
			req.Cursor, req.FromNow = cursor, false
		}
		if res.GetEvent() == nil && res.GetThinking() == nil && res.GetStepProgress() == nil {
			continue
		}
		if !yield(proto.CloneOf(res), nil) {
			return true, nil
		}
		// The time that the caller took is not the hub's silence.
		quiet.Reset(silence)
	}
	if err := stream.Err(); err != nil {
		return false, silenceOr(ctx, err)
	}
	return true, nil
}

func silenceOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return fault.New(fault.Unavailable, "%s", errSilent).WithCause(err)
	}
	return err
}

// worthReturning reports whether a new connection may mend a broken watch.
func worthReturning(err error) bool {
	e := fault.As(fault.FromConnect(err))
	if e == nil {
		return false
	}
	switch e.Kind {
	case fault.Unavailable, fault.Aborted, fault.Deadline, fault.Exhausted, fault.Canceled:
		return true
	case fault.Internal:
		// If the hub itself reports "internal", the error has a detail; a
		// stream that broke in the middle has none.
		return e.Code == "" && e.Fix == ""
	default:
		return false
	}
}
