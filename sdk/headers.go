package sdk

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

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
