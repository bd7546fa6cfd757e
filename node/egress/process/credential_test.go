// The proxy confines itself to what a binary without C needs, and the race detector
// brings C: it could not start a thread.

//go:build !race

package process_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// hub is one that gives a token and an authority's key, and stores records.
type hub struct {
	ca, key string
	node    nodev1.EgressServiceClient

	mu      sync.Mutex
	end     func()                       // ends the channel; guarded by mu
	asked   int                          // for tokens; guarded by mu
	records map[string]egresslink.Record // guarded by mu
}

func newHub(t *testing.T, p *process.Process) *hub {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true,
		PermittedIPRanges: []*net.IPNet{{IP: net.IPv4(127, 0, 0, 1).To4(), Mask: net.CIDRMask(32, 32)}},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	h := &hub{
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
		records: map[string]egresslink.Record{},
	}
	pipe := bufconn.Listen(1 << 20)
	daemon := grpc.NewServer()
	nodev1.RegisterEgressServiceServer(daemon, process.NewServer(p))
	go func() { _ = daemon.Serve(pipe) }()
	t.Cleanup(daemon.Stop)
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	h.node = nodev1.NewEgressServiceClient(conn)
	ctx, cancel := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for ctx.Err() == nil { // it opens another one when the proxy has died
			one, end := context.WithCancel(ctx)
			h.mu.Lock()
			h.end = end
			h.mu.Unlock()
			h.serve(one)
			end()
		}
	})
	t.Cleanup(func() { cancel(); keeping.Wait() })
	return h
}

// serve has one channel until it ends.
func (h *hub) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.node.Channel(ctx)
	if err != nil {
		return
	}
	session, err := yamux.Server(&bytestream.Stream{
		Recv: func() ([]byte, error) {
			res, err := stream.Recv()
			return res.GetData(), err
		},
		Send: func(b []byte) error { return stream.Send(&nodev1.ChannelRequest{Data: b}) },
		End:  cancel,
	}, egresslink.SessionConfig())
	if err != nil {
		return
	}
	defer session.Close()
	mux := http.NewServeMux()
	reply := func(answer any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) }
	}
	mux.Handle(egresslink.PathAuthority, reply(egresslink.Authority{Key: h.key}))
	mux.HandleFunc(egresslink.PathToken, func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked++
		h.mu.Unlock()
		reply(egresslink.Token{
			Headers: map[string]string{"Authorization": "Bearer token-of-the-test"}, Secrets: []string{"token-of-the-test"}, ExpiresAt: time.Now().Add(time.Hour),
		})(w, r)
	})
	mux.HandleFunc(egresslink.PathRecords, func(_ http.ResponseWriter, r *http.Request) {
		var got egresslink.Records
		if json.NewDecoder(r.Body).Decode(&got) != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, rec := range got.Records {
			h.records[rec.Path] = rec
		}
	})
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetUnencryptedHTTP2(true)
	defer server.Close()
	_ = server.Serve(session)
}

// bound returns a program in a jail with a credential for a server.
func (r *rig) bound(t *testing.T, h *hub, server *httptest.Server) *http.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "egress.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	require.NoError(t, r.proxy.Serve("jail_bound", l, &nodev1.Egress{
		Bindings: []*nodev1.Egress_Binding{{
			Credential: "api", Hosts: []string{"127.0.0.1"}, Ports: []uint32{uint32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port())},
			Roots: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		}},
		Authorities: []string{h.ca},
		Rules:       []*nodev1.Egress_Rule{{Host: "127.0.0.1", Ports: []uint32{1}}},
	}))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(h.ca)))
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: waittest.Limit(30 * time.Second)}
}

// Requests that a proxy had under way when it was killed are recorded all the same.
func TestAKilledProxysRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHub(t, r.proxy)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer token-of-the-test", r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/long" {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	client := r.bound(t, h, server)
	begin := func(path string) *http.Response {
		res, err := client.Get(server.URL + path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		text := make([]byte, 6)
		_, err = io.ReadFull(res.Body, text)
		require.NoError(t, err, string(text))
		require.Equal(t, "begun\n", string(text))
		return res
	}
	_, err := io.ReadAll(begin("/short").Body)
	require.NoError(t, err)
	long := begin("/long")
	require.NoError(t, syscall.Kill(r.pid(), syscall.SIGKILL))
	_, err = io.ReadAll(long.Body)
	require.Error(t, err)
	waittest.Until(t, 20*time.Second, "both are recorded", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.records) == 2
	})
	assert.Empty(t, h.records["/short"].Problem)
	assert.Equal(t, http.StatusOK, h.records["/short"].Status)
	assert.Equal(t, "the egress proxy ended before the response did", h.records["/long"].Problem)
	_, err = io.ReadAll(begin("/again").Body) // the next proxy asks for everything again
	require.NoError(t, err)
}

// What the hub has ended while there was no channel is not known: with the next one, tokens are
// asked for again.
func TestTokensAreForgottenWithANewChannel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHub(t, r.proxy)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	client := r.bound(t, h, server)
	asked := func() int {
		res, err := client.Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.asked
	}
	require.Equal(t, 1, asked())
	require.Equal(t, 1, asked())
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	waittest.Until(t, 20*time.Second, "the token is asked for over the next channel", func() bool { return asked() == 2 })
	require.Equal(t, 2, asked())
}
