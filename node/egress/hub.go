package egress

import (
	"context"
	"net/http"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Hub is what the proxy needs of its hub. An error of a method is a fault that says what
// happened and what to do about it.
type Hub interface {
	// Authority returns the key of an authority of a jail.
	Authority(ctx context.Context, req egresslink.AuthorityRequest) (egresslink.Authority, error)
	// Token returns what is inserted into requests with a credential that nodes may hold.
	Token(ctx context.Context, req egresslink.TokenRequest) (egresslink.Token, error)
	// RoundTrip sends a request that has the headers of package egresslink to the hub, which
	// inserts a credential and sends it on through Tunnel.
	http.RoundTripper
}

// Recorder stores what was done with credentials.
type Recorder interface {
	// Begin stores that a request is about to be made. If it cannot, the request is not made.
	Begin(egresslink.Record) error
	// End stores how the request with that ID ended.
	End(egresslink.Record)
}

// noHub is the hub of a proxy that has none.
type noHub struct{}

var errNoHub = fault.New(fault.Unavailable, "this node's egress proxy has no connection to its hub").WithFix("try again in a moment")

// Authority implements Hub.
func (noHub) Authority(context.Context, egresslink.AuthorityRequest) (egresslink.Authority, error) {
	return egresslink.Authority{}, errNoHub
}

// Token implements Hub.
func (noHub) Token(context.Context, egresslink.TokenRequest) (egresslink.Token, error) {
	return egresslink.Token{}, errNoHub
}

// RoundTrip implements Hub.
func (noHub) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoHub }
