package auth

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Sessions knows whose sessions there are.
type Sessions interface {
	// Identify answers whose session a cookie's value is of.
	Identify(ctx context.Context, secret string) (Identity, error)
}

// Access says from where calls may come.
type Access interface {
	// Check refuses a caller's call of a procedure from an address.
	Check(ctx context.Context, id Identity, procedure string, from netip.Addr) error
}

// Guards are what a call has to pass.
type Guards struct {
	Tokens   *Tokens
	Sessions Sessions
	Rates    *Rates
	Access   Access
}

// Interceptor refuses whoever has no right to call, and tells handlers who
// calls. A call with both a token and a cookie is the token's.
func Interceptor(g Guards) connect.Interceptor { return interceptor{g} }

// Admit refuses whoever may not call a procedure by a request that is no RPC,
// for example a WebSocket's, and answers the request's context with who calls.
func (g Guards) Admit(procedure string, r *http.Request) (context.Context, error) {
	return interceptor{g}.admit(r.Context(), procedure, r.RemoteAddr, r.Header)
}

type interceptor struct{ Guards }

func (i interceptor) identify(ctx context.Context, header http.Header) (Identity, error) {
	if bearer := header.Get("Authorization"); bearer != "" {
		return i.Tokens.Identify(ctx, bearer)
	}
	if secret := cookie(header); secret != "" {
		return i.Sessions.Identify(ctx, secret)
	}
	return Identity{}, errNoToken()
}

func (i interceptor) admit(ctx context.Context, procedure, peer string, header http.Header) (context.Context, error) {
	rule, ok := RuleOf(procedure)
	if !ok {
		return ctx, fault.New(fault.Denied, "%s has no rule of who may call it", procedure)
	}
	if rule.Kind != Worker {
		if err := i.Rates.address(peer); err != nil {
			return ctx, err
		}
	}
	if rule.Public {
		return ctx, nil
	}
	id, err := i.identify(ctx, header)
	if err != nil {
		return ctx, err
	}
	if id.Kind == User {
		if err := i.Rates.token(cmp.Or(id.SessionID, id.TokenID)); err != nil {
			return ctx, err
		}
	}
	if err := Allow(id, procedure, rule); err != nil {
		return ctx, err
	}
	if from := AddressOf(peer); !from.IsLoopback() || header.Get("X-Forwarded-For") != "" {
		if err := i.Access.Check(ctx, id, procedure, from); err != nil {
			return ctx, err
		}
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
