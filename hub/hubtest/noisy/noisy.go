// Package noisy simulates an organisation that uses a hub as hard as the API permits, for
// tests and benchmarks of the effect on other organisations. It only uses public
// procedures, with its own tokens. Calls that the hub refuses are counted, not failures.
package noisy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	// from is the address that its calls come from: the hub has to trust a proxy on
	// loopback.
	from = "192.0.2.66"
	// maxConns bounds its connections. Watches take a hundred.
	maxConns = 180
	// pause is what an action waits after it was refused.
	pause = 5 * time.Millisecond
	// ready bounds each wait of Prepare.
	ready = 30 * time.Second
)

// Neighbour is the organisation. Make it, give it a node, prepare it, run it.
type Neighbour struct {
	// JoinToken enrols its node, whose name is to be NodeName.
	JoinToken string

	url         string
	http        *http.Client
	admin       *sdk.Client
	workers     *sdk.Client
	worker      string // its id
	costly      hook
	cheap       hook
	exec        string
	lease       *deckhandv1.Lease // of the task that talks to a model
	destination string
	model       *httptest.Server
	counts      map[string]*Count
	submissions atomic.Int64
	events      atomic.Int64
}

// NodeName is the name of its node.
const NodeName = "noisy"

// hook is a webhook of its own.
type hook struct{ path, secret string }

// Count is how often an action was done, and how often the hub refused it.
type Count struct{ Done, Refused atomic.Int64 }

type proxied struct{ next http.RoundTripper }

// RoundTrip sets the client address, as a proxy does.
func (p proxied) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Forwarded-For", from)
	return p.next.RoundTrip(req)
}

// Make makes an organisation on the hub whose operator calls.
func Make(ctx context.Context, operator *sdk.Client, name string) (*Neighbour, error) {
	made, err := operator.Organisations.CreateOrganisation(ctx, &deckhandv1.CreateOrganisationRequest{Name: name})
	if err != nil {
		return nil, err
	}
	n := &Neighbour{
		url:    operator.URL(),
		http:   &http.Client{Transport: proxied{&http.Transport{MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns}}},
		counts: map[string]*Count{},
	}
	for _, a := range n.actions() {
		n.counts[a.name] = &Count{}
	}
	if n.admin, err = n.client(made.GetToken()); err != nil {
		return nil, err
	}
	token, err := n.admin.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Name: "w", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER})
	if err != nil {
		return nil, err
	}
	if n.workers, err = n.client(token.GetSecret()); err != nil {
		return nil, err
	}
	join, err := n.admin.Nodes.CreateJoinToken(ctx, &deckhandv1.CreateJoinTokenRequest{})
	if err != nil {
		return nil, err
	}
	n.JoinToken = join.GetToken()
	return n, nil
}

func (n *Neighbour) client(token string) (*sdk.Client, error) {
	return sdk.New(sdk.Config{URL: n.url, Token: token, HTTPClient: n.http, Retries: -1})
}

// Prepare makes what the actions need. The node has to be started before.
func (n *Neighbour) Prepare(ctx context.Context) error {
	for _, step := range []func(context.Context) error{n.connected, n.agents, n.hooks, n.register, n.logged, n.talking, n.notified} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("prepare the noisy organisation: %w", err)
		}
	}
	return nil
}

// Run does all that it can, everything at once, until ctx ends.
func (n *Neighbour) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, a := range n.actions() {
		count := n.counts[a.name]
		for range a.at {
			all.Go(func() {
				for ctx.Err() == nil {
					err := a.do(ctx)
					switch {
					case ctx.Err() != nil:
						return
					case err == nil:
						count.Done.Add(1)
					default:
						count.Refused.Add(1)
						time.Sleep(pause)
					}
				}
			})
		}
	}
	renewing := time.NewTicker(2 * time.Second)
	defer renewing.Stop()
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-renewing.C:
			}
			_, _ = n.workers.Workers.RenewLeases(ctx, &deckhandv1.RenewLeasesRequest{
				WorkerId: n.worker, Leases: []*deckhandv1.Lease{n.lease},
			}) // without a lease its calls of models are refused, which is noise as well
		}
	})
	all.Wait()
}

// Counts returns how often each action was done so far.
func (n *Neighbour) Counts() map[string]*Count { return n.counts }

// Close stops everything besides the hub.
func (n *Neighbour) Close() {
	if n.model != nil {
		n.model.CloseClientConnections()
		n.model.Close()
	}
	n.http.CloseIdleConnections()
}

// wait calls is until it returns true.
func wait(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	for {
		yes, err := is()
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
