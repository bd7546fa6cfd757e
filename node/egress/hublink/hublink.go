// Package hublink is the egress proxy's way to its hub: HTTP over the session of yamux that
// EgressService.Channel carries. Link implements egress.Hub.
//
// The hub opens the channel when a node connects, and again after it restarts. Without one,
// requests wait for the next, and fail with fault.Unavailable after half a minute. When a
// channel ends, requests that change nothing (GET, HEAD and OPTIONS without a body) and have no
// response yet are sent again over the next one. The others fail with fault.Aborted: they may
// have taken effect. A response that has begun ends early.
package hublink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// waitFor is how long a request waits for a channel: a hub that restarts is back by then.
	waitFor = 30 * time.Second
	// tries is how often a request that changes nothing is sent.
	tries = 3
	// maxReply bounds what the hub answers about keys, tokens and records, in bytes.
	maxReply = 1 << 20
	// maxHeader bounds the header of a response that the hub passes on, in bytes.
	maxHeader = 256 << 10
	// keepIdle is how long a stream waits for the next request.
	keepIdle = time.Minute
	maxIdle  = 64
)

// Link is the way to the hub.
type Link struct {
	h1, h2 *http.Transport

	mu      sync.Mutex
	session *yamux.Session // guarded by mu
	changed chan struct{}  // closed when session changes; guarded by mu
}

// New creates a Link without a channel.
func New() *Link {
	l := &Link{changed: make(chan struct{})}
	base := func() *http.Transport {
		return &http.Transport{
			DialContext: l.dial, DisableCompression: true, IdleConnTimeout: keepIdle,
			MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxHeader, ExpectContinueTimeout: time.Second,
		}
	}
	l.h1, l.h2 = base(), base()
	l.h2.HTTP2 = egresslink.Windows()
	l.h2.Protocols = new(http.Protocols)
	l.h2.Protocols.SetUnencryptedHTTP2(true)
	return l
}

// Serve uses a channel until it ends or ctx does; it replaces the one before.
func (l *Link) Serve(ctx context.Context, channel io.ReadWriteCloser) error {
	session, err := yamux.Client(&egresslink.Frames{ReadWriteCloser: channel}, egresslink.SessionConfig())
	if err != nil {
		return errors.Join(err, channel.Close())
	}
	before := l.set(session)
	if before != nil {
		_ = before.Close()
	}
	defer session.Close()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-session.CloseChan():
	}
	l.mu.Lock()
	if l.session == session {
		l.session = nil
	}
	l.mu.Unlock()
	return nil
}

func (l *Link) set(session *yamux.Session) (before *yamux.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.session = l.session, session
	close(l.changed)
	l.changed = make(chan struct{})
	// Streams of the session before are not to be used again.
	l.h1.CloseIdleConnections()
	l.h2.CloseIdleConnections()
	return before
}

func (l *Link) current(ctx context.Context) (*yamux.Session, error) {
	for {
		l.mu.Lock()
		session, changed := l.session, l.changed
		l.mu.Unlock()
		if session != nil && !session.IsClosed() {
			return session, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

func (l *Link) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	session, err := l.current(waiting)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault.New(fault.Unavailable, "this node is not connected with its hub").WithFix("try again in a moment")
	}
	return session.Open()
}

// RoundTrip implements egress.Hub.
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	// The hub sends it on in the same version.
	transport := l.h1
	if req.ProtoMajor >= 2 {
		transport = l.h2
	}
	if req.URL.Host == "" || strings.HasPrefix(req.URL.Path, "/deckhand/") && req.Header.Get(egresslink.HeaderJail) == "" {
		return nil, errors.New("not a request for the hub to send on")
	}
	for try := 1; ; try++ {
		res, err := transport.RoundTrip(req)
		if err == nil || req.Context().Err() != nil || fault.As(err) != nil {
			return res, err
		}
		if try >= tries || !changesNothing(req) {
			return nil, fault.New(fault.Aborted, "the hub, which sends this request on, restarted or lost its connection with this node before there was a response; the request may have taken effect").
				WithFix("check on the server whether it has, before you send it again").WithCause(err)
		}
	}
}

// changesNothing reports whether a request may be sent twice, and its body is none that could
// have been read.
func changesNothing(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return req.Body == nil || req.Body == http.NoBody
	}
	return false
}

// Authority implements egress.Hub.
func (l *Link) Authority(ctx context.Context, req egresslink.AuthorityRequest) (out egresslink.Authority, err error) {
	return out, l.ask(ctx, egresslink.PathAuthority, req, &out)
}

// Token implements egress.Hub.
func (l *Link) Token(ctx context.Context, req egresslink.TokenRequest) (out egresslink.Token, err error) {
	return out, l.ask(ctx, egresslink.PathToken, req, &out)
}

// Store sends records to the hub and returns once they are stored.
func (l *Link) Store(ctx context.Context, records []egresslink.Record) error {
	return l.ask(ctx, egresslink.PathRecords, egresslink.Records{Records: records}, nil)
}

func (l *Link) ask(ctx context.Context, path string, question, answer any) error {
	raw, err := egresslink.Encode(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hub"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := l.h2.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e := fault.As(err); e != nil {
			return e
		}
		return fault.New(fault.Unavailable, "the hub did not respond").WithFix("try again in a moment").WithCause(err)
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return fault.New(fault.Unavailable, "the hub's response ended half-way").WithCause(err)
	}
	if res.StatusCode/100 != 2 {
		var e egresslink.Error
		if json.Unmarshal(raw, &e) != nil || e.Message == "" {
			e.Message = fmt.Sprintf("the hub responded with HTTP %d", res.StatusCode)
		}
		return e.Fault(res.StatusCode)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fault.New(fault.Unavailable, "the hub's response cannot be read").WithCause(err)
	}
	return nil
}
