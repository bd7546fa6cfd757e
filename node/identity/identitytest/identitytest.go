// Package identitytest provides tests with a hub that only enrols nodes. Hub signs what
// it is asked to sign, with a CA of its own, or refuses as the test says.
package identitytest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	enrollmentv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
)

// Hub is the hub.
type Hub struct {
	enrollmentv1connect.UnimplementedEnrollmentServiceHandler

	// URL is where it listens until the test ends.
	URL string
	// Refuse, if set, is its answer to every enrolment.
	Refuse error
	// Edge is the address at which it tells nodes to connect. Nobody listens there.
	Edge string

	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	asked []*enrollmentv1.EnrollNodeRequest
}

// New starts a hub with a CA of its own.
func New(t testing.TB) *Hub {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	h := &Hub{key: key, cert: cert}
	_, handler := enrollmentv1connect.NewEnrollmentServiceHandler(h)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	h.URL = server.URL
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	h.Edge = listener.Addr().String()
	return h
}

// Token returns a new join token of its CA.
func (h *Hub) Token() string {
	return jointoken.New(jointoken.Fingerprint(h.cert.RawSubjectPublicKeyInfo)).Reveal()
}

// Asked returns the enrolments that were asked for.
func (h *Hub) Asked() []*enrollmentv1.EnrollNodeRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// EnrollNode enrols a machine as node_1.
func (h *Hub) EnrollNode(_ context.Context, req *enrollmentv1.EnrollNodeRequest) (*enrollmentv1.EnrollNodeResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, req)
	if h.Refuse != nil {
		return nil, fault.ToConnect(h.Refuse)
	}
	csr, err := x509.ParseCertificateRequest(req.GetCsr())
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node_1"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}, h.cert, csr.PublicKey, h.key)
	if err != nil {
		return nil, err
	}
	text := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return &enrollmentv1.EnrollNodeResponse{
		NodeId: "node_1", CertificatePem: text(der), CaPem: text(h.cert.Raw), EdgeAddress: h.Edge,
	}, nil
}
