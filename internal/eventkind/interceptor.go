package eventkind

import (
	"context"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Interceptor refuses every call with an event that a worker must not write.
func Interceptor() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if told, ok := req.Any().(interface {
				GetEvents() []*deckhandv1.EventDraft
			}); ok {
				for _, e := range told.GetEvents() {
					if !FromWorker(e.GetType()) {
						return nil, fault.New(fault.Denied, "a worker may not record events of type %.64q", e.GetType()).
							WithCode(fault.PermissionDenied).WithFix("leave it out: the hub records it itself")
					}
				}
			}
			return next(ctx, req)
		}
	})
}
