// Package edge is the hub's end of the links to its nodes. Edge accepts links; a Link or
// a NodeClient calls a node's services.
//
// A node dials the edge over mTLS and then serves gRPC on that connection, so that the
// hub is the client over it: HTTP/2 provides flow control and multiplexing. The first
// call is the session stream, which identifies the node and transfers heartbeats in both
// directions; liveness and work share the connection, so a dead link cannot look healthy.
//
// The store's session row names the replica that has a node's link, and its epoch grows
// with each session: a newer session of a node ends the older one, here and on other
// replicas. If the edge dies, its links die with it and the nodes dial again; commands on
// them keep running. If a node dies, its link is dropped after three missed heartbeats,
// and calls in flight return fault.Unavailable: the step's outcome is then requested by
// its id, later.
//
// A call of a node whose link another replica has goes there over mTLS, to the same port,
// and on over the link: see NodeClient and peer.go. If that replica dies, the call fails
// as if the link had broken.
package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// Config configures an Edge.
type Config struct {
	// Listener takes the nodes' TCP connections; the edge closes it. Its port is
	// the edge's own: a balancer before it passes TCP through.
	Listener net.Listener
	CA       *ca.CA
	Nodes    NodeStore
	// Replica names this hub process in the session rows.
	Replica string
	// Directory locates the replica that has a node's link; nil if there is only this
	// one.
	Directory Locator
	// Forwarded, if set, is called for each call that came from another replica ("in") or
	// went to one ("out"), when it has ended or, for an outgoing stream, has begun.
	Forwarded func(direction string, err error)
	Log       hclog.Logger
	// OnChange, if set, is called for each node that connects and disconnects, one call
	// at a time and in order. It must be quick.
	OnChange func(nodeID string, connected bool)
	// OnPressure, if set, is called with the organisation of a node whose pressure began
	// or ended. It must be quick.
	OnPressure func(orgID string)

	// HeartbeatInterval is the longest time between two messages of either end; 0 for 5
	// s. A link without a message for three intervals is dropped.
	HeartbeatInterval time.Duration
	// HandshakeTimeout bounds each of: TLS, admission, and the time to Hello;
	// 0 for 10 s.
	HandshakeTimeout time.Duration
	// AdmitPerSecond limits how many links are opened a second, so that a fleet that
	// reconnects does not overload the store; 0 for 500. AdmitBurst is how many may be
	// opened at once; 0 for 500. A link costs three short statements, of which PostgreSQL
	// on a small machine executes some thousands a second: with 500 links a second, a
	// fleet of 5 000 nodes reconnects in ten seconds, if the hub's processors are fast
	// enough for the handshakes, and most of the capacity is left to tasks.
	AdmitPerSecond float64
	AdmitBurst     int
	// MaxHandshakes bounds the handshakes in progress; more connections than that
	// are closed at once, and their nodes come back, later each time: so there
	// is room for those that are admitted within the HandshakeTimeout. 0 for
	// 1024.
	MaxHandshakes int
	// HandshakesAtOnce limits how many handshakes use a processor, from the ClientHello
	// to the last flight; the others wait. When a fleet reconnects to a busy machine, the
	// handshakes then end in time, one after the other, instead of all too late. 0 for
	// 64.
	HandshakesAtOnce int
}

// Edge holds the links to the nodes that dialled this hub. It runs once: after
// Stop its listener is closed.
type Edge struct {
	lifecycle.Runner

	cfg      Config
	admit    *rate.Limiter
	slots    chan struct{} // one for each handshake in progress
	turns    chan struct{} // one for each of those that uses a processor
	refusals rate.Sometimes

	mu    sync.Mutex       // guards links
	links map[string]*Link // by node id

	peers *peers

	changing sync.Mutex // orders registry changes and their OnChange calls
}

var _ lifecycle.Service = (*Edge)(nil)

// New checks the configuration and fills in its defaults.
func New(cfg Config) (*Edge, error) {
	if cfg.Listener == nil || cfg.CA == nil || cfg.Nodes == nil || cfg.Replica == "" {
		return nil, errors.New("edge: listener, ca, nodes and replica are needed")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(string, bool) {}
	}
	if cfg.OnPressure == nil {
		cfg.OnPressure = func(string) {}
	}
	if cfg.Forwarded == nil {
		cfg.Forwarded = func(string, error) {}
	}
	if cfg.HeartbeatInterval <= 0 {
		cfg.HeartbeatInterval = 5 * time.Second
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = 10 * time.Second
	}
	if cfg.AdmitPerSecond <= 0 {
		cfg.AdmitPerSecond = 500
	}
	if cfg.AdmitBurst <= 0 {
		cfg.AdmitBurst = 500
	}
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = 1024
	}
	if cfg.HandshakesAtOnce <= 0 {
		cfg.HandshakesAtOnce = 64
	}
	e := &Edge{
		cfg:      cfg,
		admit:    rate.NewLimiter(rate.Limit(cfg.AdmitPerSecond), cfg.AdmitBurst),
		slots:    make(chan struct{}, cfg.MaxHandshakes),
		turns:    make(chan struct{}, cfg.HandshakesAtOnce),
		refusals: rate.Sometimes{First: 10, Interval: 10 * time.Second},
		links:    map[string]*Link{},
	}
	e.peers = newPeers(e)
	return e, nil
}

// Start begins to take connections.
func (e *Edge) Start(ctx context.Context) error { return e.Run(ctx, e.accept) }

// Addr returns the address that the edge listens on.
func (e *Edge) Addr() net.Addr { return e.cfg.Listener.Addr() }

// accept accepts connections until ctx ends, and returns when every link has ended.
func (e *Edge) accept(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var links sync.WaitGroup
	defer links.Wait()
	links.Go(func() { e.touch(ctx) })
	links.Go(func() { _ = e.peers.server.Serve(e.peers) }) // always net.ErrClosed
	defer e.peers.stop()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = e.cfg.Listener.Close() })()

	pause := backoff.Policy{Base: 10 * time.Millisecond, Max: time.Second}
	for failures := 0; ; {
		conn, err := e.cfg.Listener.Accept()
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", e.Addr(), err)
		default: // too many open files, for example: it passes
			e.cfg.Log.Warn("cannot accept a connection", "error", err)
			failures++
			if backoff.Wait(ctx, pause.Delay(failures)) != nil {
				return nil
			}
			continue
		}
		select {
		case e.slots <- struct{}{}:
			links.Go(func() { e.serve(ctx, conn) })
		default:
			_ = conn.Close()
			e.refused(conn.RemoteAddr(), errors.New("too many handshakes in progress"))
		}
	}
}

// serve takes one connection from its handshake to its end.
func (e *Edge) serve(ctx context.Context, raw net.Conn) {
	defer func() { _ = raw.Close() }()
	conn, node, err := e.handshake(ctx, raw)
	<-e.slots
	if err != nil {
		e.refused(raw.RemoteAddr(), err)
		return
	}
	if conn.ConnectionState().NegotiatedProtocol == nodelink.PeerALPN {
		e.peers.take(conn)
		return
	}
	if err := newLink(ctx, e, conn, node).run(); err != nil {
		e.refused(raw.RemoteAddr(), fmt.Errorf("node %s: %w", node.ID, err))
	}
}

// handshake identifies a node by its certificate and waits for its turn. Of a
// replica it sees to it that it is one; the answered node is then empty.
func (e *Edge) handshake(ctx context.Context, raw net.Conn) (*tls.Conn, ca.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.HandshakeTimeout)
	defer cancel()
	turn := false
	conn := tls.Server(raw, &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  e.cfg.CA.Pool(),
		NextProtos: []string{nodelink.ALPN, nodelink.PeerALPN},
		Time:       e.cfg.CA.Now,
		// Every session is verified again.
		SessionTicketsDisabled: true,
		// The client has sent something: a silent one does not occupy a handshake slot.
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			select {
			case e.turns <- struct{}{}:
				turn = true
				return nil, nil //nolint:nilnil // this one
			case <-hello.Context().Done():
				return nil, errors.New("too many handshakes at once")
			}
		},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if slices.Contains(hello.SupportedProtos, nodelink.PeerALPN) {
				return e.cfg.CA.ReplicaCertificate(e.cfg.Replica)
			}
			return e.cfg.CA.EdgeCertificate()
		},
	})
	err := conn.HandshakeContext(ctx)
	if turn {
		<-e.turns
	}
	if err != nil {
		return nil, ca.Node{}, fmt.Errorf("TLS handshake: %w", err)
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == nodelink.PeerALPN {
		_, err := ca.ReplicaOf(state.PeerCertificates[0])
		return conn, ca.Node{}, err
	}
	if state.NegotiatedProtocol != nodelink.ALPN {
		return nil, ca.Node{}, errors.New("TLS handshake: the client does not speak " + nodelink.ALPN)
	}
	node, err := ca.NodeOf(state.PeerCertificates[0])
	if err != nil {
		return nil, ca.Node{}, err
	}
	if err := e.admit.Wait(ctx); err != nil {
		return nil, ca.Node{}, fmt.Errorf("node %s: not admitted in time: %w", node.ID, err)
	}
	return conn, node, nil
}

// refused logs a connection that became no link: the first few, and then one
// in ten seconds, since anyone can cause them.
func (e *Edge) refused(from net.Addr, err error) {
	e.refusals.Do(func() {
		e.cfg.Log.Info("refused a connection", "remote", from.String(), "error", err)
	})
}
