package sdk

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

type idempotencyKey struct{}

// WithIdempotencyKey returns a context whose unary calls have a key: a call that is repeated
// with the same key and request within 24 hours changes nothing and returns the first
// response. Reads ignore it. Use a key such as a UUID for one call only.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// headers adds who is calling to each request and makes each error a
// *fault.Error.
type headers struct {
	token     string
	userAgent string
}

func (h *headers) set(ctx context.Context, header http.Header) {
	if h.token != "" {
		header.Set("Authorization", "Bearer "+h.token)
	}
	if id := logging.Correlation(ctx); id != "" {
		header.Set(logging.CorrelationHeader, id)
	}
	header.Set("User-Agent", h.userAgent)
}

// WrapUnary implements connect.Interceptor.
func (h *headers) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		h.set(ctx, req.Header())
		if key, ok := ctx.Value(idempotencyKey{}).(string); ok && key != "" {
			req.Header().Set("Idempotency-Key", key)
		}
		res, err := next(ctx, req)
		return res, fault.FromConnect(err)
	}
}

// WrapStreamingClient implements connect.Interceptor. Errors of a stream are
// mapped where it is read: connect itself needs them as they come.
func (h *headers) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		h.set(ctx, conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor; clients have no use for
// it.
func (h *headers) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
