// Package wire contains what the models of all providers share: an HTTP call
// that is cancelled when it stalls (Call), the assembly of a streamed response
// (Answer), and the mapping of provider errors to error kinds.
package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/worker/model"
)

// StallTimeout is the default time for which a call may be silent. Providers
// send a ping or data on their streams about every 15 s.
const StallTimeout = 90 * time.Second

// errStalled is the cause with which a stalled call is cancelled.
var errStalled = errors.New("the stream stalled")

// Call watches one call. It is cancelled when no byte comes for too long; bytes
// count and not events, as SDKs keep pings to themselves.
type Call struct {
	ctx      context.Context //nolint:containedctx // the call's own
	outer    context.Context //nolint:containedctx // of whoever makes it
	cancel   context.CancelCauseFunc
	provider string
	timeout  time.Duration
	timer    *time.Timer

	mu     sync.Mutex
	status int
	header http.Header
}

type callKey struct{}

// Begin begins to watch a call, which is made with the call's context through a
// client that Client made. End it.
func Begin(ctx context.Context, provider string, timeout time.Duration) *Call {
	if timeout == 0 {
		timeout = StallTimeout
	}
	c := &Call{outer: ctx, provider: provider, timeout: timeout}
	watched, cancel := context.WithCancelCause(ctx)
	c.ctx, c.cancel = context.WithValue(watched, callKey{}, c), cancel
	c.timer = time.AfterFunc(timeout, func() { cancel(errStalled) })
	return c
}

// Context is the call's own.
func (c *Call) Context() context.Context { return c.ctx }

// End stops watching.
func (c *Call) End() {
	c.timer.Stop()
	c.cancel(nil)
}

// Fail returns the error of a call. If the caller cancelled it, Fail returns
// that cause; if it stalled, the error says so; classify determines all other
// errors, and receives the status and message of an error response. If the
// stream broke off without an error, err is nil and classify is not called.
func (c *Call) Fail(err error, classify func(error) *model.Error) error {
	switch {
	case c.outer.Err() != nil:
		return context.Cause(c.outer)
	case errors.Is(context.Cause(c.ctx), errStalled):
		return &model.Error{
			Kind: model.Unavailable, Provider: c.provider, Err: errStalled,
			Message: "nothing came for " + c.timeout.String() + " in the middle of an answer",
		}
	case err == nil:
		return &model.Error{Kind: model.Unavailable, Provider: c.provider, Message: "the answer broke off before its end"}
	}
	e := classify(err)
	e.Provider, e.Err = c.provider, err
	if e.Message == "" {
		e.Message = err.Error()
	}
	c.mu.Lock()
	status, header := c.status, c.header
	c.mu.Unlock()
	if e.Status == 0 && status >= http.StatusBadRequest {
		e.Status = status
	}
	e.Hub = status == 0 // nothing was answered at all
	relayed(e, header)
	return e
}

// Client returns a client like base whose calls are watched.
func Client(base *http.Client) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	client := *base
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = transport{client.Transport}
	return &client
}

type transport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.base.RoundTrip(req)
	c, ok := req.Context().Value(callKey{}).(*Call)
	if !ok || err != nil {
		return res, err
	}
	c.timer.Reset(c.timeout)
	c.mu.Lock()
	c.status, c.header = res.StatusCode, res.Header
	c.mu.Unlock()
	res.Body = &body{res.Body, c}
	return res, nil
}

type body struct {
	io.ReadCloser

	call *Call
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.call.timer.Reset(b.call.timeout)
	}
	return n, err
}
