package auth

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Interceptor refuses whoever has no right to call, and tells handlers who
// calls.
func Interceptor(tokens *Tokens) connect.Interceptor { return interceptor{tokens} }

type interceptor struct{ tokens *Tokens }

func (i interceptor) admit(ctx context.Context, procedure, peer string, header http.Header) (context.Context, error) {
	rule, ok := RuleOf(procedure)
	if !ok {
		return ctx, fault.New(fault.Denied, "%s has no rule of who may call it", procedure)
	}
	if rule.Public {
		return ctx, nil
	}
	id, err := i.tokens.Identify(ctx, header.Get("Authorization"))
	if err != nil {
		return ctx, err
	}
	if err := Allow(id, procedure, rule); err != nil {
		return ctx, err
	}
	id.Address, id.UserAgent = peer, header.Get("User-Agent")
	return WithIdentity(ctx, id), nil
}

func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, err := i.admit(ctx, req.Spec().Procedure, req.Peer().Addr, req.Header())
		if err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, err := i.admit(ctx, conn.Spec().Procedure, conn.Peer().Addr, conn.RequestHeader())
		if err != nil {
			return err
		}
		return next(ctx, conn)
	}
}
