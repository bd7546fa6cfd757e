package auth

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Sessions knows whose sessions there are.
type Sessions interface {
	// Identify answers whose session a cookie's value is of.
	Identify(ctx context.Context, secret string) (Identity, error)
}

// Interceptor refuses whoever has no right to call, and tells handlers who
// calls. A call with both a token and a cookie is the token's.
func Interceptor(tokens *Tokens, sessions Sessions) connect.Interceptor {
	return interceptor{tokens, sessions}
}

type interceptor struct {
	tokens   *Tokens
	sessions Sessions
}

func (i interceptor) identify(ctx context.Context, header http.Header) (Identity, error) {
	if bearer := header.Get("Authorization"); bearer != "" {
		return i.tokens.Identify(ctx, bearer)
	}
	if secret := cookie(header); secret != "" {
		return i.sessions.Identify(ctx, secret)
	}
	return Identity{}, errNoToken()
}

func (i interceptor) admit(ctx context.Context, procedure, peer string, header http.Header) (context.Context, error) {
	rule, ok := RuleOf(procedure)
	if !ok {
		return ctx, fault.New(fault.Denied, "%s has no rule of who may call it", procedure)
	}
	if rule.Public {
		return ctx, nil
	}
	id, err := i.identify(ctx, header)
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
