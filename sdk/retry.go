package sdk

import (
	"context"
	"crypto/rand"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// defaultRetries is how often a call is tried again.
const defaultRetries = 3

// retryBackoff has many clients that lost the same hub return one after another.
var retryBackoff = backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}

// longestWait is how long the hub may ask to wait before another try. A call that would
// have to wait longer fails at once.
const longestWait = 30 * time.Second

// retries tries calls again that can be repeated safely.
type retries struct {
	limit int // 0 or less for never
}

// WrapUnary implements connect.Interceptor.
func (r retries) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := req.Spec().Procedure
		if r.limit <= 0 || !repeatable[procedure] && !keyed[procedure] {
			return next(ctx, req)
		}
		if key, _ := ctx.Value(idempotencyKey{}).(string); keyed[procedure] && key == "" {
			ctx = WithIdempotencyKey(ctx, rand.Text())
		}
		for n := 1; ; n++ {
			res, err := next(ctx, req)
			if err == nil || n > r.limit || ctx.Err() != nil {
				return res, err
			}
			delay, ok := again(err, retryBackoff.Delay(n))
			if deadline, has := ctx.Deadline(); !ok || has && time.Until(deadline) < delay {
				return res, err
			}
			if backoff.Wait(ctx, delay) != nil {
				return res, err
			}
		}
	}
}

// again returns when the same call may succeed: after delay or, if the hub says so, later.
// It reports whether that may be so at all. An error that is unavailable and has a code is
// about something else than the hub, such as a node, which is not back in a moment.
func again(err error, delay time.Duration) (time.Duration, bool) {
	e := fault.As(err)
	switch {
	case e == nil:
		return 0, false
	case e.Kind == fault.Unavailable && e.Code == "", e.RetryAfter > 0, e.Code == fault.IdempotencyInProgress:
	default:
		return 0, false
	}
	delay = max(delay, e.RetryAfter)
	return delay, delay <= longestWait
}

// WrapStreamingClient implements connect.Interceptor. A stream is not repeated: Watch goes
// on at its cursor.
func (retries) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor; clients have no use for it.
func (retries) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
