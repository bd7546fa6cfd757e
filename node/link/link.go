// Package link is the node's end of the link to its hub.
//
// The node dials the hub's edge with its certificate and then serves gRPC on
// that one connection, with the hub as the client. The hub's first call is the
// session: Welcome with an epoch, which must not be older than one seen before,
// then Hello from the node, then heartbeats in both directions. Until the
// session is established, every other call is refused.
//
// If the hub dies, or is silent for three heartbeats, the link dials again,
// indefinitely and with full jitter. Commands on the node keep running: they do
// not depend on the link.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/identity"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config says how to be linked.
type Config struct {
	Identity *identity.Identity
	// Services are what the hub may call, by registering them.
	Services func(grpc.ServiceRegistrar)
	// Hello describes the node; it is asked for at each session.
	Hello func(ctx context.Context) (*nodev1.SessionResponse_Hello, error)
	// HubURL is the hub's API, where a certificate that has expired is
	// replaced; empty for the one of the enrolment.
	HubURL string
	// EdgeAddress is the host:port of the hub's edge; empty means the address
	// returned at enrolment.
	EdgeAddress string
	Log         hclog.Logger
	// OnChange, if set, is called when a session is established and when it has
	// ended.
	OnChange func(connected bool)
	// OnContact, if set, is called whenever the hub was heard from in a
	// session: at its Welcome and at each later message. It must not block.
	OnContact func()
	// OnAccepted, if set, is called in each session when the hub has accepted Hello and has
	// kept the session for some heartbeats. It must not block.
	OnAccepted func()
	// Pressure, if set, returns why nothing new may start on this node, "" for
	// nothing, and a channel that is closed when that has changed.
	Pressure func() (why string, changed <-chan struct{})
	// OnRecorded, if set, is called with the ids of the execs whose end the hub
	// has stored. It must not block.
	OnRecorded func(ids []string)

	// Backoff spaces out the dials; zero for 500 ms to 10 s: a hub that is back
	// turns away at no cost those that it has no room for yet.
	Backoff backoff.Policy
	// HandshakeTimeout bounds the dial with TLS, and then the wait for Welcome;
	// 0 for 15 s and 30 s.
	HandshakeTimeout time.Duration
	// DrainTimeout is how long calls in progress may last once the link is asked
	// to stop; 0 for not at all. Those that have no end of their own are ended at once.
	DrainTimeout time.Duration
	// MaxCalls is how many calls of the hub's may be in progress at once, streams among
	// them; 0 for 4096. What comes above waits in the hub. Kinds of streams that
	// people open have smaller bounds of their own, so that a kill never waits.
	MaxCalls uint32
	// RenewAfter is the part of a certificate's life after which it is renewed;
	// 0 for two thirds.
	RenewAfter float64
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Link keeps the node linked to its hub.
type Link struct {
	lifecycle.Runner

	cfg Config
	// stopping are servers whose connection is gone and whose last handlers are
	// ending.
	stopping sync.WaitGroup
}

var _ lifecycle.Service = (*Link)(nil)

// New checks the configuration and fills in its defaults.
func New(cfg Config) (*Link, error) {
	if cfg.Identity == nil || cfg.Services == nil || cfg.Hello == nil {
		return nil, errors.New("link: identity, services and hello are needed")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(bool) {}
	}
	if cfg.OnContact == nil {
		cfg.OnContact = func() {}
	}
	if cfg.OnAccepted == nil {
		cfg.OnAccepted = func() {}
	}
	if cfg.OnRecorded == nil {
		cfg.OnRecorded = func([]string) {}
	}
	if cfg.Pressure == nil {
		cfg.Pressure = func() (string, <-chan struct{}) { return "", nil }
	}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = backoff.Policy{Base: 500 * time.Millisecond, Max: 10 * time.Second}
	}
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = 4096
	}
	if cfg.RenewAfter <= 0 {
		cfg.RenewAfter = 2.0 / 3
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Link{cfg: cfg}, nil
}

// Start begins to dial; it does not wait for the hub.
func (l *Link) Start(ctx context.Context) error { return l.Run(ctx, l.loop) }

// loop dials and serves until ctx ends.
func (l *Link) loop(ctx context.Context) error {
	defer l.stopping.Wait()
	var last string // the error logged last: an outage is one line, not many
	for failures := 0; ctx.Err() == nil; {
		stood, err := l.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if stood {
			failures, last = 0, ""
		}
		failures++
		pause := l.cfg.Backoff.FullDelay(failures)
		if text := err.Error(); text != last {
			l.cfg.Log.Warn("no link to the hub", "edge", l.edgeAddress(), "error", err, "next_try_in", pause.Round(time.Millisecond).String())
			last = text
		}
		if backoff.Wait(ctx, pause) != nil {
			break
		}
	}
	return nil
}

// once holds one connection from its dial to its end. It reports whether a
// session stood on it long enough to count as one, and why it ended.
func (l *Link) once(ctx context.Context) (stood bool, err error) {
	if l.cfg.Identity.Lapsed() {
		if err := l.cfg.Identity.Renew(ctx, l.cfg.HubURL, nil); err != nil {
			return false, fmt.Errorf("renew the lapsed certificate: %w", err)
		}
		l.cfg.Log.Info("renewed the lapsed certificate")
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return false, err
	}
	return l.serve(ctx, conn)
}

func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	config, err := l.cfg.Identity.TLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.handshakeTimeout(15*time.Second))
	defer cancel()
	dialer := tls.Dialer{Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", l.edgeAddress())
	if err != nil {
		return nil, fmt.Errorf("dial the hub's edge: %w", err)
	}
	return conn, nil
}

func (l *Link) edgeAddress() string {
	if l.cfg.EdgeAddress != "" {
		return l.cfg.EdgeAddress
	}
	return l.cfg.Identity.EdgeAddress()
}

func (l *Link) handshakeTimeout(otherwise time.Duration) time.Duration {
	if l.cfg.HandshakeTimeout > 0 {
		return l.cfg.HandshakeTimeout
	}
	return otherwise
}

// serve serves gRPC on one connection until it breaks, the session ends, or
// ctx does; then calls in progress have the drain time-out to finish.
func (l *Link) serve(ctx context.Context, raw net.Conn) (stood bool, err error) {
	conn := watch(raw)
	session := newSession(l, conn)
	defer session.watchdog.Stop()
	defer session.end()
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(nodelink.MaxMessageBytes),
		grpc.MaxSendMsgSize(nodelink.MaxMessageBytes),
		grpc.MaxHeaderListSize(nodelink.MaxHeaderBytes),
		grpc.MaxConcurrentStreams(l.cfg.MaxCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: nodelink.PingAfter, Timeout: nodelink.PingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: nodelink.MinPingInterval, PermitWithoutStream: true,
		}),
		grpc.UnaryInterceptor(session.interceptUnary),
		grpc.StreamInterceptor(session.interceptStream),
		grpc.WaitForHandlers(true),
	)
	nodev1.RegisterSessionServiceServer(server, session)
	l.cfg.Services(server)

	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listenOn(conn)) // always net.ErrClosed: the one connection is gone
	}()
	select {
	case <-conn.closed:
		session.finish(conn.reason())
	case <-session.over:
		session.part(server)
	case <-ctx.Done():
		session.drain(l.cfg.DrainTimeout)
		session.part(server)
	}
	_ = conn.Close()
	<-served
	// A handler that is slow to end must not keep the node from its hub.
	l.stopping.Go(server.Stop)
	session.wait()
	return session.stood.Load(), session.cause
}
