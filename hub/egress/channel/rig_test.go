package channel_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/hub/egress/channel"
	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/egress/hublink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgID, nodeID, jailID = "org_1", "node_1", "jail_1"
	secret                = "sk-0123456789-SECRET"
)

// rig is a command in a jail, the node's proxy with a credential that stays in the hub, the
// hub's channel to it, and a server.
type rig struct {
	t        *testing.T
	server   *httptest.Server
	hub      *fakeHub
	channels *channel.Channels
	link     *hublink.Link
	client   func(http2 bool) *http.Client
}

// fakeHub is what the channel asks, and what links it with the node.
type fakeHub struct {
	machine.Link // only Egress is called

	key, roots string
	node       nodev1.EgressServiceClient

	mu      sync.Mutex
	idle    bool  // no task is running in the jail
	refuse  error // of Insert
	records []egresslink.Record
}

func (h *fakeHub) Egress() nodev1.EgressServiceClient { return h.node }

func (h *fakeHub) JailIsLive(_ context.Context, arg db.JailIsLiveParams) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return arg == db.JailIsLiveParams{OrgID: orgID, NodeID: nodeID, JailID: jailID} && !h.idle, nil
}

func (h *fakeHub) Token(_ context.Context, _, _, jail, _, _ string) (egresslink.Token, error) {
	if jail != jailID {
		return egresslink.Token{}, fault.New(fault.Denied, "no task is running in jail %s", jail)
	}
	return egresslink.Token{}, fault.New(fault.Denied, "this credential stays in the hub")
}

func (h *fakeHub) Insert(_ context.Context, org, node, jail, name string, req *http.Request) (credential.Inserted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return credential.Inserted{}, h.refuse
	}
	if h.idle || jail != jailID {
		return credential.Inserted{}, fault.New(fault.Denied, "no task is running in jail %s", jail)
	}
	if org != orgID || node != nodeID || name != "api" || req.URL.Scheme != "https" {
		return credential.Inserted{}, errors.New("another question was expected")
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	return credential.Inserted{Secrets: []string{secret}, Roots: h.roots, Private: true}, nil
}

func (h *fakeHub) Record(_ context.Context, _, _ string, records []egresslink.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, records...)
	return nil
}

// recorder records in memory what the node's journal records in a file.
type recorder struct{}

func (recorder) Begin(egresslink.Record) error { return nil }
func (recorder) End(egresslink.Record)         {}

// face is the node's service, as its proxy process has it.
type face struct {
	nodev1.EgressServiceServer
	link *hublink.Link
}

func (f face) Channel(stream nodev1.EgressService_ChannelServer) error {
	return f.link.Serve(stream.Context(), &byteStream{stream: stream})
}

// byteStream is a channel as a stream of bytes.
type byteStream struct {
	stream nodev1.EgressService_ChannelServer
	rest   []byte
	mu     sync.Mutex // of Write
}

func (s *byteStream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		req, err := s.stream.Recv()
		if err != nil {
			return 0, err
		}
		s.rest = req.GetData()
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *byteStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(b), s.stream.Send(&nodev1.ChannelResponse{Data: b})
}

func (s *byteStream) Close() error { return nil }

func newRig(t *testing.T, h http.HandlerFunc) *rig {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca, key := authority(t)
	r := &rig{t: t, server: server, link: hublink.New(), hub: &fakeHub{
		key: key, roots: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}}
	proxy := egress.New(egress.Config{Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Hub: r.link, Recorder: recorder{}})
	require.NoError(t, proxy.Start(context.Background()))
	t.Cleanup(proxy.Stop)

	pipe := bufconn.Listen(1 << 20)
	node := grpc.NewServer()
	nodev1.RegisterEgressServiceServer(node, face{egress.NewServer(proxy), r.link})
	var serving sync.WaitGroup
	serving.Go(func() { _ = node.Serve(pipe) })
	t.Cleanup(func() { node.Stop(); serving.Wait() })
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.hub.node = nodev1.NewEgressServiceClient(conn)
	r.channels = channel.New(channel.Config{
		Queries: r.hub, Credentials: r.hub, Log: hclog.NewNullLogger(),
		Key: func(_ context.Context, org, jail, certificate string) (string, error) {
			if org != orgID || jail != jailID || certificate != ca {
				return "", fault.New(fault.NotFound, "no such authority")
			}
			return r.hub.key, nil
		},
		Node: func(string) (machine.Link, error) { return r.hub, nil },
		Org:  func(string) (string, error) { return orgID, nil },
	})
	t.Cleanup(r.channels.Close)
	r.channels.Changed(nodeID, true)

	socket := filepath.Join(t.TempDir(), "egress.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	port := uint32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port())
	require.NoError(t, proxy.Serve(jailID, l, &nodev1.Egress{
		Bindings:    []*nodev1.Egress_Binding{{Credential: "api", Hosts: []string{"127.0.0.1"}, Ports: []uint32{port}, Held: true}},
		Authorities: []string{ca},
	}))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	r.client = func(http2 bool) *http.Client {
		tr := &http.Transport{
			Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128"}),
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2,
		}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: waittest.Limit(time.Minute)}
	}
	return r
}

// authority returns the certificate and the key of a jail's authority.
func authority(t *testing.T) (certificate, key string) {
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
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

func (r *rig) get(client *http.Client, path string) (int, string) {
	r.t.Helper()
	res, err := client.Get(r.server.URL + path)
	require.NoError(r.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(body)
}

func versions(t *testing.T, run func(t *testing.T, http2 bool)) {
	t.Helper()
	for name, http2 := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, http2)
		})
	}
}
