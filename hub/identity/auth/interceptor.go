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
	// Identify returns the owner of the session with a cookie's value.
	Identify(ctx context.Context, secret string) (Identity, error)
}

// Access decides from which networks calls may come.
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

// Admit refuses a caller who may not call a procedure, and returns the request's
// context with who calls. A call with both a token and a cookie is the token's.
func (g Guards) Admit(procedure string, r *http.Request) (context.Context, error) {
	return g.admit(r.Context(), procedure, r.RemoteAddr, r.Header)
}

// identify returns the identity of a caller. Unknown tokens and sessions cost a query
// each, so the number of attempts per address is limited.
func (g Guards) identify(ctx context.Context, peer string, header http.Header) (Identity, error) {
	if program := programOf(ctx); program != nil {
		return program(ctx)
	}
	bearer, secret := header.Get("Authorization"), cookie(header)
	if bearer == "" && secret == "" {
		return Identity{}, errNoToken()
	}
	if id, ok := g.Tokens.remembered(bearer); ok {
		return id, nil
	}
	if err := g.Rates.MayFail(peer); err != nil {
		return Identity{}, err
	}
	var id Identity
	var err error
	if bearer != "" {
		id, err = g.Tokens.Identify(ctx, bearer)
	} else {
		id, err = g.Sessions.Identify(ctx, secret)
	}
	if fault.Is(err, fault.Unauthenticated) {
		g.Rates.Failed(peer)
	}
	return id, err
}

type mcpKey struct{}

// ThroughMCP returns the context of a call that comes through the MCP server.
func ThroughMCP(ctx context.Context) context.Context { return context.WithValue(ctx, mcpKey{}, true) }

func throughMCP(ctx context.Context) bool {
	through, _ := ctx.Value(mcpKey{}).(bool)
	return through
}

func (g Guards) admit(ctx context.Context, procedure, peer string, header http.Header) (context.Context, error) {
	rule, ok := RuleOf(procedure)
	if !ok {
		return ctx, fault.New(fault.Denied, "%s has no rule of who may call it", procedure)
	}
	if rule.Kind != Worker && !IsProgram(ctx) {
		if err := g.Rates.address(peer); err != nil {
			return ctx, err
		}
	}
	if rule.Public && !IsProgram(ctx) {
		return ctx, nil
	}
	id, err := g.identify(ctx, peer, header)
	if err != nil {
		return ctx, err
	}
	if id.Kind == User || id.Kind == Program {
		if err := g.Rates.token(cmp.Or(id.SessionID, id.TokenID)); err != nil {
			return ctx, err
		}
	}
	if err := Allow(id, procedure, rule); err != nil {
		return ctx, err
	}
	if id.Scope.MCP && !throughMCP(ctx) {
		return ctx, fault.New(fault.Denied, "this token is of a program that was connected to the MCP server, and good for nothing else").
			WithCode(fault.PermissionDenied).WithFix("make a token: deckhand token create --help")
	}
	if err := g.from(ctx, id, procedure, peer, header); err != nil {
		return ctx, err
	}
	id.OnMachine = onMachine(id, peer, header)
	id.Address, id.UserAgent = peer, header.Get("User-Agent")
	return WithIdentity(ctx, id), nil
}

// from refuses a call from a network that the organisation's access rules do not allow.
func (g Guards) from(ctx context.Context, id Identity, procedure, peer string, header http.Header) error {
	if onMachine(id, peer, header) || id.Kind == Program { // a program's call comes over the link of its node
		return nil
	}
	return g.Access.Check(ctx, id, procedure, AddressOf(peer))
}

// onMachine reports whether a call comes with a token of the data folder, from the hub's
// own machine.
func onMachine(id Identity, peer string, header http.Header) bool {
	return id.Local && AddressOf(peer).IsLoopback() && !forwarded(header)
}

// ForwardedHeaders are the headers by which a proxy declares that it has passed a call on.
var ForwardedHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// forwarded reports whether a proxy declares that it has passed a call on. A proxy that
// does not declare it gains nothing: only tokens of the data folder are exempt.
func forwarded(h http.Header) bool {
	for _, name := range ForwardedHeaders {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// Interceptor refuses a call that no Door has admitted to the procedure: a second check,
// in case that a procedure is served in another way.
func Interceptor() connect.Interceptor { return admitted{} }

type admitted struct{}

type admittedKey struct{}

func (admitted) check(ctx context.Context, procedure string) error {
	if got, _ := ctx.Value(admittedKey{}).(string); got != procedure {
		return fault.New(fault.Denied, "no caller was admitted to %s", procedure)
	}
	return nil
}

func (a admitted) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := a.check(ctx, req.Spec().Procedure); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (admitted) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (a admitted) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := a.check(ctx, conn.Spec().Procedure); err != nil {
			return err
		}
		err := next(ctx, conn)
		if why := fault.As(context.Cause(ctx)); why != nil {
			return why // the caller's rights have ended by now
		}
		return err
	}
}
