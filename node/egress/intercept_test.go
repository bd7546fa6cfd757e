package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// secret is what a credential inserts.
const secret = "ghs_0123456789abcdefSECRET"

// fakeHub is a hub with one authority and tokens that the test sets.
type fakeHub struct {
	pem, key string
	roots    *x509.CertPool

	mu     sync.Mutex
	tokens map[string]egresslink.Token // by credential
	asked  map[string]int
	ends   []egresslink.Record
	begun  []egresslink.Record
	held   http.RoundTripper
	// wait, if it is set, is waited for before a token is given.
	wait chan struct{}
	// full says that nothing can be recorded.
	full bool
}

// ended waits until n requests with a credential have ended, and returns their records.
func (h *fakeHub) ended(t *testing.T, n int) []egresslink.Record {
	t.Helper()
	var out []egresslink.Record
	waittest.Until(t, 10*time.Second, fmt.Sprintf("%d requests have ended", n), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		out = slices.Clone(h.ends)
		return len(out) >= n
	})
	require.Len(t, out, n)
	return out
}

func newHub(t *testing.T, hosts ...string) *fakeHub {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	h := &fakeHub{
		pem: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		roots: x509.NewCertPool(), tokens: map[string]egresslink.Token{}, asked: map[string]int{},
	}
	h.roots.AppendCertsFromPEM([]byte(h.pem))
	return h
}

func (h *fakeHub) Authority(_ context.Context, q egresslink.AuthorityRequest) (egresslink.Authority, error) {
	if q.JailID != jailID || q.Certificate != h.pem {
		return egresslink.Authority{}, fault.New(fault.NotFound, "no such authority")
	}
	return egresslink.Authority{Key: h.key}, nil
}

func (h *fakeHub) Token(_ context.Context, q egresslink.TokenRequest) (egresslink.Token, error) {
	h.mu.Lock()
	wait := h.wait
	h.asked[q.Credential]++
	h.mu.Unlock()
	if wait != nil {
		<-wait
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	token, ok := h.tokens[q.Credential]
	if !ok {
		return token, fault.New(fault.Denied, "the credential %s was revoked", q.Credential).WithFix("ask an administrator")
	}
	return token, nil
}

func (h *fakeHub) RoundTrip(r *http.Request) (*http.Response, error) { return h.held.RoundTrip(r) }

func (h *fakeHub) Begin(rec egresslink.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full {
		return fault.New(fault.Unavailable, "the disk is full")
	}
	h.begun = append(h.begun, rec)
	return nil
}

func (h *fakeHub) End(rec egresslink.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, rec)
}

// sign signs a certificate for any name with the jail's authority.
func (h *fakeHub) sign(t *testing.T, ca *x509.Certificate, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(h.key))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
	}, ca, own.Public(), key)
	require.NoError(t, err)
	out, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return out
}

func (h *fakeHub) set(credential string, token egresslink.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if token.ExpiresAt.IsZero() {
		token.ExpiresAt = time.Now().Add(time.Hour)
	}
	h.tokens[credential] = token
}

// secureOrigin is a server with TLS for a name, and its certificate in PEM.
func secureOrigin(t *testing.T, h http.HandlerFunc, names ...string) (port uint32, roots string) {
	t.Helper()
	return secureServer(t, h, nil, names...)
}

// secureServer is secureOrigin, with a function that is told of the server's connections.
func secureServer(t *testing.T, h http.HandlerFunc, told func(net.Conn, http.ConnState), names ...string) (port uint32, roots string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "origin"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: names, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = told
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	_, text, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	number, err := strconv.ParseUint(text, 10, 16)
	require.NoError(t, err)
	return uint32(number), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

// bound is a jail with a credential for the host git.test.
type bound struct {
	*rig
	hub   *fakeHub
	port  uint32
	roots string // that the server is verified by
	spool string
}

func newBound(t *testing.T, h http.HandlerFunc, change func(*nodev1.Egress)) *bound {
	t.Helper()
	return newBoundWith(t, egress.Config{}, h, change)
}

func newBoundWith(t *testing.T, cfg egress.Config, h http.HandlerFunc, change func(*nodev1.Egress)) *bound {
	t.Helper()
	port, roots := secureOrigin(t, h, "git.test")
	hub := newHub(t, "git.test")
	hub.set("github", egresslink.Token{Headers: map[string]string{"Authorization": "Bearer " + secret}, Secrets: []string{secret}})
	rules := &nodev1.Egress{
		Bindings:    []*nodev1.Egress_Binding{{Credential: "github", Hosts: []string{"git.test"}, Ports: []uint32{port}, Roots: roots, Version: "1"}},
		Authorities: []string{hub.pem},
		// The server is on this machine, whose address must be named itself.
		Rules: []*nodev1.Egress_Rule{{Host: "127.0.0.1", Ports: []uint32{port}}},
	}
	if change != nil {
		change(rules)
	}
	spool := t.TempDir()
	cfg.Hub, cfg.Recorder, cfg.SpoolDir = hub, hub, spool
	r := newRig(t, cfg, rules)
	r.names.set("git.test", "127.0.0.1")
	return &bound{rig: r, hub: hub, port: port, roots: roots, spool: spool}
}

func (b *bound) url(path string) string {
	return "https://git.test:" + strconv.Itoa(int(b.port)) + path
}

// browser is a program of the jail that trusts the jail's authority.
func (b *bound) browser(http2 bool) *http.Client {
	c := b.client("exec_1")
	tr := c.Transport.(*http.Transport) //nolint:forcetypeassert // see client
	tr.TLSClientConfig = &tls.Config{RootCAs: b.hub.roots}
	tr.ForceAttemptHTTP2 = http2
	return c
}

// A host that only a credential opens, with which requests may only read, is not reached through a
// WebSocket. With a credential for all methods it is.
func TestACredentialThatReadsRefusesWebSockets(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{{"GET", "HEAD", "OPTIONS"}, nil} {
		arrived := false
		b := newBound(t, func(w http.ResponseWriter, _ *http.Request) {
			arrived = true
			w.WriteHeader(http.StatusTeapot) // it does not speak WebSocket
		}, func(e *nodev1.Egress) { e.Bindings[0].Methods = methods })
		req, err := http.NewRequest(http.MethodGet, b.url("/ws"), nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "WebSocket")
		res, err := b.browser(false).Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		_ = res.Body.Close()
		if methods == nil {
			require.Equal(t, http.StatusTeapot, res.StatusCode, string(body))
			continue
		}
		require.Equal(t, http.StatusForbidden, res.StatusCode)
		require.Contains(t, string(body), "what is sent through a WebSocket is not seen")
		require.False(t, arrived)
	}
}

func TestACredentialIsInserted(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, []string{"Bearer " + secret}, r.Header.Values("Authorization"))
			assert.Empty(t, r.Header.Values("Proxy-Authorization"))
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Method+" "+r.Host+r.RequestURI+" "+string(body))
		}, nil)
		req, err := http.NewRequest(http.MethodPost, b.url("/repos/a/b?q=1;2"), strings.NewReader("hello"))
		require.NoError(t, err)
		req.Header["authorization"] = []string{"Bearer placeholder"}
		req.Header.Set("Authorization", "Bearer placeholder")
		res, err := b.browser(http2).Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		_ = res.Body.Close()
		require.Equal(t, 200, res.StatusCode, string(body))
		assert.Equal(t, "POST git.test:"+strconv.Itoa(int(b.port))+"/repos/a/b?q=1;2 hello", string(body))
		wantMajor := 1
		if http2 {
			wantMajor = 2
		}
		assert.Equal(t, wantMajor, res.ProtoMajor)
		rec := b.hub.ended(t, 1)[0]
		assert.Equal(t, "github", rec.Credential)
		assert.Equal(t, "/repos/a/b?q=…", rec.Path)
		assert.Equal(t, 200, rec.Status)
		assert.EqualValues(t, 5, rec.SentBytes)
		assert.EqualValues(t, len(body), rec.ReceivedBytes)
		assert.Equal(t, b.hub.begun[0].ID, rec.ID)
	}
}
