package ca_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// memory keeps one secret. The hub's own store is PostgreSQL.
type memory struct {
	mu    sync.Mutex
	value []byte
}

func (m *memory) LoadSecret(context.Context, string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.value == nil {
		return nil, fault.New(fault.NotFound, "no secret")
	}
	return m.value, nil
}

func (m *memory) CreateSecret(_ context.Context, _ string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.value == nil {
		m.value = value
	}
	return m.value, nil
}

func open(t *testing.T, cfg ca.Config) *ca.CA {
	t.Helper()
	authority, err := ca.Open(t.Context(), cfg)
	require.NoError(t, err)
	return authority
}

func TestReplicasThatStartTogetherShareOneAuthority(t *testing.T) {
	t.Parallel()
	store := &memory{}
	var starting sync.WaitGroup
	fingerprints := make([]string, 8)
	for i := range fingerprints {
		starting.Go(func() {
			authority, err := ca.Open(t.Context(), ca.Config{Store: store})
			if err == nil {
				fingerprints[i] = authority.Fingerprint()
			}
		})
	}
	starting.Wait()
	require.Len(t, fingerprints[0], 64)
	for _, fingerprint := range fingerprints {
		require.Equal(t, fingerprints[0], fingerprint)
	}
}

func TestABrokenSecretIsSaidWithoutShowingIt(t *testing.T) {
	t.Parallel()
	_, err := ca.Open(t.Context(), ca.Config{Store: &memory{value: []byte("hunter2hunter2")}})
	require.ErrorContains(t, err, "certificate authority")
	require.NotContains(t, err.Error(), "hunter2")
}

func request(t *testing.T, template *x509.CertificateRequest, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return der
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

func leafOf(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return leaf
}

func TestOnlyTheKeyIsTakenFromARequest(t *testing.T) {
	t.Parallel()
	authority := open(t, ca.Config{Store: &memory{}})
	key := newKey(t, elliptic.P256())
	greedy, err := ca.ParseRequest(request(t, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "node_other", Organization: []string{"org_other"}},
		DNSNames: []string{"edge.deckhand.internal"},
		URIs:     []*url.URL{{Scheme: "deckhand", Host: "node", Path: "/node_other"}},
	}, key))
	require.NoError(t, err)
	text, err := authority.IssueNode("node_1", "org_1", greedy)
	require.NoError(t, err)
	leaf := leafOf(t, text)
	require.Empty(t, leaf.DNSNames)
	require.Equal(t, "deckhand://node/node_1", leaf.URIs[0].String())
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, leaf.ExtKeyUsage)
	require.True(t, key.PublicKey.Equal(leaf.PublicKey))
	node, err := ca.NodeOf(leaf)
	require.NoError(t, err)
	require.Equal(t, ca.Node{ID: "node_1", OrgID: "org_1", KeyFingerprint: greedy.KeyFingerprint}, node)
	require.InDelta(t, 24*time.Hour, time.Until(leaf.NotAfter), float64(time.Minute))
}

func TestRequestsThatTheHubDoesNotAccept(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	forged := request(t, &x509.CertificateRequest{}, newKey(t, elliptic.P256()))
	forged[len(forged)-1] ^= 1
	for name, c := range map[string]struct {
		der     []byte
		message string
	}{
		"nothing":               {nil, "not a PKCS #10"},
		"a forged signature":    {forged, "signature"},
		"another curve":         {request(t, &x509.CertificateRequest{}, newKey(t, elliptic.P384())), "ECDSA on P-256"},
		"another kind of a key": {request(t, &x509.CertificateRequest{}, ed), "ECDSA on P-256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ca.ParseRequest(c.der)
			require.True(t, fault.Is(err, fault.Invalid))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParseRequest(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(f, err)
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		if request, err := ca.ParseRequest(der); err == nil {
			require.Len(t, request.KeyFingerprint, 64)
		}
	})
}

func TestTheEdgesCertificateIsMadeAnewAtTwoThirdsOfItsLife(t *testing.T) {
	t.Parallel()
	now := time.Now()
	authority := open(t, ca.Config{Store: &memory{}, Now: func() time.Time { return now }})
	first, err := authority.EdgeCertificate()
	require.NoError(t, err)
	now = now.Add(15 * time.Hour)
	same, err := authority.EdgeCertificate()
	require.NoError(t, err)
	require.Same(t, first, same)
	now = now.Add(2 * time.Hour)
	second, err := authority.EdgeCertificate()
	require.NoError(t, err)
	require.NotSame(t, first, second)
	_, err = second.Leaf.Verify(x509.VerifyOptions{Roots: authority.Pool(), CurrentTime: now, DNSName: "edge.deckhand.internal"})
	require.NoError(t, err)
}

func TestLapsedCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	authority := open(t, ca.Config{Store: &memory{}, Now: func() time.Time { return now }})
	stranger := open(t, ca.Config{Store: &memory{}})
	issue := func(by *ca.CA) string {
		asked, err := ca.ParseRequest(request(t, &x509.CertificateRequest{}, newKey(t, elliptic.P256())))
		require.NoError(t, err)
		text, err := by.IssueNode("node_1", "org_1", asked)
		require.NoError(t, err)
		return text
	}
	own, foreign := issue(authority), issue(stranger)
	edge, err := authority.EdgeCertificate()
	require.NoError(t, err)
	server := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: edge.Certificate[0]}))
	grace := 30 * 24 * time.Hour

	now = now.Add(29 * 24 * time.Hour)
	node, err := authority.VerifyLapsed(own, grace)
	require.NoError(t, err)
	require.Equal(t, "node_1", node.ID)
	for text, message := range map[string]string{
		"": "not a certificate in PEM", authority.PEM(): "names no node",
		foreign: "not issued by this hub", server: "not issued by this hub",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "not an X.509",
	} {
		_, err := authority.VerifyLapsed(text, grace)
		require.ErrorContains(t, err, message)
	}
	now = now.Add(3 * 24 * time.Hour)
	_, err = authority.VerifyLapsed(own, grace)
	require.True(t, fault.Is(err, fault.Denied))
	require.ErrorContains(t, err, "new join token")
}
