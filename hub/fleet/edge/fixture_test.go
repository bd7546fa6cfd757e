package edge_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/identity"
	"github.com/deckhand-sh/deckhand/node/link"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// patience bounds every wait for something that is bound to happen.
var patience = waittest.Limit(20 * time.Second)

// clock is a clock that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// lines is a log whose lines can be waited for.
type lines struct{ ch chan string }

func newLines() *lines { return &lines{ch: make(chan string, 1000)} }

func (l *lines) Write(p []byte) (int, error) {
	select {
	case l.ch <- string(p):
	default:
	}
	return len(p), nil
}

func (l *lines) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Debug})
}

// wait returns the first line yet unread that holds all of the parts.
func (l *lines) wait(t *testing.T, parts ...string) string {
	t.Helper()
	deadline := time.After(patience)
	var seen []string
	for {
		select {
		case line := <-l.ch:
			seen = append(seen, line)
			found := true
			for _, part := range parts {
				found = found && strings.Contains(line, part)
			}
			if found {
				return line
			}
		case <-deadline:
			require.FailNow(t, "no such line in the log", "%q in %s", parts, strings.Join(seen[:min(len(seen), 20)], ""))
		}
	}
}

// within returns what a channel gives.
func within[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "waited too long for "+what)
		panic("unreachable")
	}
}

// tap is a listener whose connections the test may cut.
type tap struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (l *tap) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *tap) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// change is one call of OnChange.
type change struct {
	nodeID    string
	connected bool
}

// hub is an edge with its authority, store and enrolment.
type hub struct {
	*edge.Edge

	t       *testing.T
	clock   *clock
	store   *memory
	ca      *ca.CA
	tap     *tap
	changes chan change
	log     *lines
	api     *httptest.Server
}

func newHub(t *testing.T, edits ...func(*edge.Config)) *hub {
	t.Helper()
	h := &hub{t: t, clock: newClock(), store: newMemory(), changes: make(chan change, 100), log: newLines()}
	var err error
	h.ca, err = ca.Open(t.Context(), ca.Config{Store: h.store, Now: h.clock.Now})
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h.tap = &tap{Listener: listener}
	cfg := edge.Config{
		Listener: h.tap, CA: h.ca, Nodes: h.store, Replica: "hub_1", Log: h.log.logger(),
		OnChange:          func(nodeID string, connected bool) { h.changes <- change{nodeID, connected} },
		HeartbeatInterval: 500 * time.Millisecond,
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	h.Edge, err = edge.New(cfg)
	require.NoError(t, err)
	require.NoError(t, h.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(h.Stop)

	enroller, err := enroll.New(enroll.Config{CA: h.ca, Store: h.store, EdgeAddress: listener.Addr().String()})
	require.NoError(t, err)
	_, handler := enrollmentv1connect.NewEnrollmentServiceHandler(enroller)
	h.api = httptest.NewServer(handler)
	t.Cleanup(h.api.Close)
	return h
}

// enrol enrols a machine as a node of this hub.
func (h *hub) enrol() *identity.Identity {
	h.t.Helper()
	id, err := identity.Open(identity.Config{Dir: filepath.Join(h.t.TempDir(), "identity"), Now: h.clock.Now})
	require.NoError(h.t, err)
	require.NoError(h.t, id.Enrol(h.t.Context(), identity.Enrolment{
		HubURL: h.api.URL, JoinToken: jointoken.New(h.ca.Fingerprint()).Reveal(), Name: "machine", Client: h.api.Client(),
	}))
	return id
}

// connected waits for a node to connect, and returns its link.
func (h *hub) connected(id *identity.Identity) *edge.Link {
	h.t.Helper()
	require.Equal(h.t, change{id.NodeID(), true}, within(h.t, h.changes, "the node to connect"))
	l, err := h.Local(id.NodeID())
	require.NoError(h.t, err)
	return l
}

func (h *hub) disconnected(id *identity.Identity) {
	h.t.Helper()
	require.Equal(h.t, change{id.NodeID(), false}, within(h.t, h.changes, "the node to disconnect"))
	_, err := h.Local(id.NodeID())
	require.Error(h.t, err)
}

// node is the node's end, with services that the test gives it.
type node struct {
	*link.Link

	log *lines
}

// start links a machine to the hub.
func (h *hub) start(id *identity.Identity, services func(grpc.ServiceRegistrar)) *node {
	h.t.Helper()
	return h.startWith(id, func(cfg *link.Config) {
		if services != nil {
			cfg.Services = services
		}
	})
}

// startWith is start with a configuration of the test's own.
func (h *hub) startWith(id *identity.Identity, edit func(*link.Config)) *node {
	h.t.Helper()
	n := &node{log: newLines()}
	cfg := link.Config{
		Identity: id, Services: func(grpc.ServiceRegistrar) {}, Log: n.log.logger(), Now: h.clock.Now,
		Hello: func(context.Context) (*nodev1.SessionResponse_Hello, error) {
			return &nodev1.SessionResponse_Hello{Version: "test", Capability: 1, Runtimes: []string{"runc"}}, nil
		},
		Backoff: backoff.Policy{Base: time.Millisecond, Max: 20 * time.Millisecond}, DrainTimeout: 3 * time.Second,
	}
	edit(&cfg)
	var err error
	n.Link, err = link.New(cfg)
	require.NoError(h.t, err)
	require.NoError(h.t, n.Start(context.WithoutCancel(h.t.Context())))
	h.t.Cleanup(n.Stop)
	return n
}

func shortHandshake(cfg *edge.Config) { cfg.HandshakeTimeout = 200 * time.Millisecond }

// clientOn is a hub of the test's own over a connection that a node dialled.
func (h *hub) clientOn(raw net.Conn) *grpc.ClientConn {
	h.t.Helper()
	certificate, err := h.ca.EdgeCertificate()
	require.NoError(h.t, err)
	conn := tls.Server(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{nodelink.ALPN}, Certificates: []tls.Certificate{*certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: h.ca.Pool(), Time: h.clock.Now,
	})
	client, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = client.Close() })
	return client
}
