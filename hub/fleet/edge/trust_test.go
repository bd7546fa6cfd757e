package edge_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/identity"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// clientCertificate has an authority issue a certificate for a fresh key.
func clientCertificate(t *testing.T, authority *ca.CA, nodeID string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	request, err := ca.ParseRequest(csr)
	require.NoError(t, err)
	text, err := authority.IssueNode(nodeID, "org_1", request)
	require.NoError(t, err)
	block, _ := pem.Decode([]byte(text))
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// knock dials the edge and returns how it was refused.
func (h *hub) knock(config *tls.Config) error {
	h.t.Helper()
	config.ServerName, config.RootCAs = nodelink.ServerName, h.ca.Pool()
	config.Time = h.clock.Now
	if config.NextProtos == nil {
		config.NextProtos = []string{nodelink.ALPN}
	}
	dialer := tls.Dialer{Config: config}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", h.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// In TLS 1.3 the server's refusal comes after the client's handshake. The
	// hub, being the gRPC client, speaks first to a node that it takes.
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestTheEdgeTakesOnlyItsOwnNodes(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	foreign, err := ca.Open(t.Context(), ca.Config{Store: newMemory()})
	require.NoError(t, err)
	past := newClock()
	past.advance(-25 * time.Hour)
	yesterday, err := ca.Open(t.Context(), ca.Config{Store: h.store, Now: past.Now})
	require.NoError(t, err)
	edgeCertificate, err := h.ca.EdgeCertificate()
	require.NoError(t, err)

	for name, c := range map[string]struct {
		config *tls.Config
		refuse string
	}{
		"without a certificate": {&tls.Config{}, "certificate required"},
		"a foreign authority's certificate": {
			&tls.Config{Certificates: []tls.Certificate{clientCertificate(t, foreign, "node_1")}}, "unknown certificate authority",
		},
		"an expired certificate": {
			&tls.Config{Certificates: []tls.Certificate{clientCertificate(t, yesterday, "node_1")}}, "expired certificate",
		},
		"the edge's own certificate": {
			&tls.Config{Certificates: []tls.Certificate{*edgeCertificate}}, "bad certificate",
		},
		"TLS 1.2": {
			&tls.Config{MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{clientCertificate(t, h.ca, "node_1")}}, "protocol version",
		},
		"another protocol": {
			&tls.Config{NextProtos: []string{"h2"}, Certificates: []tls.Certificate{clientCertificate(t, h.ca, "node_1")}}, "no application protocol",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := c.config
			if config.MaxVersion == 0 {
				config.MinVersion = tls.VersionTLS13
			}
			require.ErrorContains(t, h.knock(config), c.refuse)
		})
	}
}

func TestACertificateOfANodeThatTheStoreDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.store.mu.Lock()
	delete(h.store.nodes, id.NodeID())
	h.store.mu.Unlock()
	n := h.start(id, nil)
	n.log.wait(t, "the hub ended the link", "is not known")
	require.Empty(t, h.Connected())
}

func TestTheNodeTrustsNoOtherEdge(t *testing.T) {
	t.Parallel()
	h, impostor := newHub(t), newHub(t)
	// The machine's packets go elsewhere: its own hub's address is another's.
	id := h.enrol()
	moved := impostor.enrol()
	config, err := id.TLS()
	require.NoError(t, err)
	dialer := tls.Dialer{Config: config}
	_, err = dialer.DialContext(t.Context(), "tcp", moved.EdgeAddress())
	require.ErrorContains(t, err, "certificate")
	// A node's certificate does not make an edge.
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{nodelink.ALPN},
		Certificates: []tls.Certificate{clientCertificate(t, h.ca, "node_1")},
	})
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	}()
	_, err = dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.ErrorContains(t, err, "certificate")
}

func TestSilentHandshakesAreDroppedInTime(t *testing.T) {
	t.Parallel()
	h := newHub(t, shortHandshake)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	h.log.wait(t, "refused a connection", "TLS handshake")
}

// half is a connection that says its first word only.
type half struct {
	net.Conn

	said bool
}

func (h *half) Write(p []byte) (int, error) {
	if h.said {
		return len(p), nil
	}
	h.said = true
	return h.Conn.Write(p)
}

// A handshake that has begun and does not continue yields its turn to the next one when
// its time is over; a silent connection takes no turn.
func TestHandshakesTakeTurns(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(cfg *edge.Config) { cfg.HandshakeTimeout, cfg.HandshakesAtOnce = 2*time.Second, 1 })
	id, next := h.enrol(), h.enrol()
	config, err := id.TLS()
	require.NoError(t, err)
	dial := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	stuck := tls.Client(&half{Conn: dial()}, config)
	require.NoError(t, stuck.HandshakeContext(t.Context()), "as far as the client can tell")
	began := time.Now()
	h.start(next, nil)
	h.log.wait(t, "refused a connection", "TLS handshake")
	h.connected(next)
	t.Logf("the next one had its turn after %s", time.Since(began))
}

// mute is a node that speaks by the test's orders only.
type mute struct {
	nodev1.UnimplementedSessionServiceServer

	stream chan nodev1.SessionService_SessionServer
}

func (m *mute) Session(stream nodev1.SessionService_SessionServer) error {
	m.stream <- stream
	<-stream.Context().Done()
	return stream.Context().Err()
}

// one is a listener of one connection.
type one struct {
	net.Listener

	conn chan net.Conn
}

func (o one) Accept() (net.Conn, error) {
	if conn, ok := <-o.conn; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (o one) Close() error   { return nil }
func (o one) Addr() net.Addr { return &net.TCPAddr{} }

// dialMute links a machine by hand, and returns its session stream.
func (h *hub) dialMute(id *identity.Identity) nodev1.SessionService_SessionServer {
	h.t.Helper()
	config, err := id.TLS()
	require.NoError(h.t, err)
	conn, err := (&tls.Dialer{Config: config}).DialContext(h.t.Context(), "tcp", h.Addr().String())
	require.NoError(h.t, err)
	server := grpc.NewServer()
	m := &mute{stream: make(chan nodev1.SessionService_SessionServer, 1)}
	nodev1.RegisterSessionServiceServer(server, m)
	conns := make(chan net.Conn, 1)
	conns <- conn
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(one{conn: conns})
	}()
	h.t.Cleanup(func() {
		close(conns)
		server.Stop()
		<-served
	})
	return within(h.t, m.stream, "the hub's session call")
}

func hello() *nodev1.SessionResponse {
	return &nodev1.SessionResponse{Message: &nodev1.SessionResponse_Hello_{Hello: &nodev1.SessionResponse_Hello{Version: "mute"}}}
}

func TestTheHubDropsANodeThatFallsSilent(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	stream := h.dialMute(id)
	require.NoError(t, stream.Send(hello()))
	link := h.connected(id)
	within(t, link.Done(), "the link to end")
	require.ErrorContains(t, link.Err(), "nothing was heard of the node")
	h.disconnected(id)
}

func TestTheHubTakesNoHelloThatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("label", i)] = "x"
	}
	for name, said := range map[string]*nodev1.SessionResponse_Hello{
		"too many labels":          {Labels: many},
		"a label that is long":     {Labels: map[string]string{"zone": strings.Repeat("x", 129)}},
		"a label for the terminal": {Labels: map[string]string{"zone": "\x1b[2J"}},
		"a version too":            {Version: "1.0\x1b[2J"},
		"too many runtimes":        {Runtimes: slices.Repeat([]string{"runc"}, 17)},
		"a long pressure":          {Pressure: strings.Repeat("x", 201)},
		"too many bytes":           {Jails: slices.Repeat([]*nodev1.Jail{{JailId: strings.Repeat("x", 1000)}}, 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			stream := h.dialMute(h.enrol())
			require.NoError(t, stream.Send(&nodev1.SessionResponse{Message: &nodev1.SessionResponse_Hello_{Hello: said}}))
			within(t, stream.Context().Done(), "the session to end")
			require.Empty(t, h.Connected())
			require.Empty(t, h.changes)
		})
	}
}

func TestTheHubDropsANodeThatTalksWithoutEnd(t *testing.T) {
	t.Parallel()
	for reason, say := range map[string]func(i int, csr []byte) *nodev1.SessionResponse{
		"more than ten messages": func(i int, _ []byte) *nodev1.SessionResponse {
			return &nodev1.SessionResponse{Message: &nodev1.SessionResponse_Heartbeat{Heartbeat: &nodev1.Heartbeat{Pressure: fmt.Sprint("no room ", i%2)}}}
		},
		"certificates again and again": func(_ int, csr []byte) *nodev1.SessionResponse {
			return &nodev1.SessionResponse{Message: &nodev1.SessionResponse_CertificateRequest_{
				CertificateRequest: &nodev1.SessionResponse_CertificateRequest{Csr: csr},
			}}
		},
		"what no node may": func(int, []byte) *nodev1.SessionResponse {
			return &nodev1.SessionResponse{Message: &nodev1.SessionResponse_Heartbeat{Heartbeat: &nodev1.Heartbeat{Pressure: strings.Repeat("x", 201)}}}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			id := h.enrol()
			stream := h.dialMute(id)
			go func() { // what the hub says is read, or it could say no more
				for {
					if _, err := stream.Recv(); err != nil {
						return
					}
				}
			}()
			require.NoError(t, stream.Send(hello()))
			link := h.connected(id)
			csr, err := id.Request()
			require.NoError(t, err)
			for i := 0; i < 100_000 && link.Err() == nil; i++ {
				if stream.Send(say(i, csr)) != nil {
					break
				}
			}
			within(t, link.Done(), "the link to end")
			require.ErrorContains(t, link.Err(), reason)
		})
	}
}

func TestTheHubDropsANodeThatNeverSaysHello(t *testing.T) {
	t.Parallel()
	h := newHub(t, shortHandshake)
	stream := h.dialMute(h.enrol())
	within(t, stream.Context().Done(), "the session to be dropped")
	require.Empty(t, h.Connected())
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for _, row := range h.store.nodes {
		require.Equal(t, int64(1), row.epoch)
	}
}

func TestANodeThatAsksForAnotherKeysCertificateLosesItsLink(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id, other := h.enrol(), h.enrol()
	stream := h.dialMute(id)
	require.NoError(t, stream.Send(hello()))
	link := h.connected(id)
	csr, err := other.Request()
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodev1.SessionResponse{Message: &nodev1.SessionResponse_CertificateRequest_{
		CertificateRequest: &nodev1.SessionResponse_CertificateRequest{Csr: csr},
	}}))
	within(t, link.Done(), "the link to end")
	require.ErrorContains(t, link.Err(), "another key")
}

func TestANodeDialsAgainWhenTheHubFallsSilent(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.Stop() // a hub of the test's own takes its place

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", id.EdgeAddress())
	require.NoError(t, err)
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	defer func() { _ = listener.Close() }()
	n := h.start(id, nil)
	client := h.clientOn(within(t, accepted, "the node to dial"))
	stream, err := nodev1.NewSessionServiceClient(client).Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodev1.SessionRequest{Message: &nodev1.SessionRequest_Welcome_{
		Welcome: &nodev1.SessionRequest_Welcome{Epoch: 5, Replica: "silent", HeartbeatIntervalMs: 50},
	}}))
	message, err := stream.Recv()
	require.NoError(t, err)
	require.NotNil(t, message.GetHello())

	n.log.wait(t, "no link to the hub", "nothing was heard of the hub")
	again := within(t, accepted, "the node to dial again")
	_ = again.Close()
}

func TestTheNodeTakesNoCallBeforeItsSession(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.Stop()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", id.EdgeAddress())
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	h.start(id, newExecs().register)
	conn, err := listener.Accept()
	require.NoError(t, err)
	client := h.clientOn(conn)
	_, err = nodev1.NewExecServiceClient(client).StartExec(t.Context(), &nodev1.StartExecRequest{
		Spec: &nodev1.ExecSpec{ExecId: "step_1", JailId: "jail_1", Argv: []string{"true"}},
	})
	require.ErrorContains(t, err, "outside a session")
}
