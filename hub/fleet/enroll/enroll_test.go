package enroll_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/node/identity"
	enrollmentv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hub is the part of a hub that enrols.
type hub struct {
	t     *testing.T
	ca    *ca.CA
	store *memory
	api   *httptest.Server
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{t: t, store: newMemory()}
	var err error
	h.ca, err = ca.Open(t.Context(), ca.Config{Store: h.store})
	require.NoError(t, err)
	enroller, err := enroll.New(enroll.Config{CA: h.ca, Store: h.store, EdgeAddress: "edge.example:7443"})
	require.NoError(t, err)
	h.api = serve(t, enroller)
	return h
}

func serve(t *testing.T, handler enrollmentv1connect.EnrollmentServiceHandler) *httptest.Server {
	t.Helper()
	_, mux := enrollmentv1connect.NewEnrollmentServiceHandler(handler)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func machine(t *testing.T) (*identity.Identity, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "identity")
	id, err := identity.Open(identity.Config{Dir: dir})
	require.NoError(t, err)
	return id, dir
}

func (h *hub) enrol(id *identity.Identity, token, name string) error {
	return id.Enrol(h.t.Context(), identity.Enrolment{
		HubURL: h.api.URL, JoinToken: token, Name: name, Labels: map[string]string{"zone": "a"}, Client: h.api.Client(),
	})
}

// A single-use join token enrols the key that the machine made itself.
func TestAMachineEnrolsWithItsOwnKey(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id, dir := machine(t)
	require.False(t, id.Enrolled())
	_, err := id.TLS()
	require.ErrorContains(t, err, "not enrolled")

	require.NoError(t, h.enrol(id, h.store.add(h.ca, time.Hour), "web-1"))
	require.Equal(t, "edge.example:7443", id.EdgeAddress())
	require.Equal(t, "web-1", h.store.nodes[id.NodeID()].name)
	require.Equal(t, map[string]string{"zone": "a"}, h.store.nodes[id.NodeID()].labels)
	config, err := id.TLS()
	require.NoError(t, err)
	leaf := config.Certificates[0].Leaf
	_, err = leaf.Verify(x509.VerifyOptions{Roots: h.ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	named, err := ca.NodeOf(leaf)
	require.NoError(t, err)
	require.Equal(t, ca.Node{
		ID: id.NodeID(), OrgID: "org_1", KeyFingerprint: jointoken.Fingerprint(leaf.RawSubjectPublicKeyInfo),
	}, named)

	for _, file := range []string{"key.pem", "node.json"} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
	again, err := identity.Open(identity.Config{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, id.NodeID(), again.NodeID())
}

func TestJoinTokenRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(h *hub, id *identity.Identity) (token string)
		kind    fault.Kind
		message string
	}{
		"an expired token is refused": {
			func(h *hub, _ *identity.Identity) string { return h.store.add(h.ca, -time.Second) },
			fault.Denied, "the join token has expired",
		},
		"a token used by another key is refused": {
			func(h *hub, _ *identity.Identity) string {
				token := h.store.add(h.ca, time.Hour)
				other, _ := machine(h.t)
				require.NoError(h.t, h.enrol(other, token, "other"))
				return token
			}, fault.Denied, "used by another machine",
		},
		"a token that nobody made is refused": {
			func(h *hub, _ *identity.Identity) string { return jointoken.New(h.ca.Fingerprint()).Reveal() },
			fault.Denied, "is not known",
		},
		"a token of another hub is refused": {
			func(h *hub, _ *identity.Identity) string { return jointoken.New(jointoken.Fingerprint(nil)).Reveal() },
			fault.Denied, "made by another hub",
		},
		"a token that is none is refused before the hub is asked": {
			func(h *hub, _ *identity.Identity) string {
				h.api.Close()
				return "hunter2"
			}, fault.Invalid, "join token is malformed",
		},
		"a name that another machine has is refused": {
			func(h *hub, _ *identity.Identity) string {
				other, _ := machine(h.t)
				require.NoError(h.t, h.enrol(other, h.store.add(h.ca, time.Hour), "web-1"))
				return h.store.add(h.ca, time.Hour)
			}, fault.Exists, "--name",
		},
		"a revoked machine is refused with another token too": {
			func(h *hub, id *identity.Identity) string {
				require.NoError(h.t, h.enrol(id, h.store.add(h.ca, time.Hour), "web-1"))
				h.store.nodes[id.NodeID()].revoked = true
				return h.store.add(h.ca, time.Hour)
			}, fault.Denied, "was revoked",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			id, _ := machine(t)
			err := h.enrol(id, c.prepare(h, id), "web-1")
			require.True(t, fault.Is(err, c.kind), "%v", err)
			require.ErrorContains(t, err, c.message)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestEnrolmentIsRepeatedByTheSameKeyWithoutHarm(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id, dir := machine(t)
	token := h.store.add(h.ca, time.Hour)
	// The hub's answer is lost after it has spent the token; then the machine
	// crashes, and starts again after the token's end.
	h.store.crashes = 1
	require.ErrorContains(t, h.enrol(id, token, "web-1"), "died")
	require.False(t, id.Enrolled())
	for _, row := range h.store.tokens {
		row.expires = time.Now().Add(-time.Hour)
	}
	id, err := identity.Open(identity.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, h.enrol(id, token, "web-1"))
	first := id.NodeID()
	require.NoError(t, h.enrol(id, token, "web-1"))
	require.NoError(t, h.enrol(id, h.store.add(h.ca, time.Hour), "web-2"))
	require.Equal(t, first, id.NodeID())
	require.Len(t, h.store.nodes, 1)
	require.Equal(t, "web-2", h.store.nodes[first].name)
}

func TestAnEnrolledMachineDoesNotMoveToAnotherHubByItself(t *testing.T) {
	t.Parallel()
	h, other := newHub(t), newHub(t)
	id, _ := machine(t)
	require.NoError(t, h.enrol(id, h.store.add(h.ca, time.Hour), "web-1"))
	err := other.enrol(id, other.store.add(other.ca, time.Hour), "web-1")
	require.True(t, fault.Is(err, fault.Precondition))
	require.ErrorContains(t, err, "enrolled with another hub")
}

// impostor is a hub that says yes to everything, with an authority of its own.
type impostor struct {
	enrollmentv1connect.UnimplementedEnrollmentServiceHandler

	ca *ca.CA
}

func (i impostor) EnrollNode(_ context.Context, req *enrollmentv1.EnrollNodeRequest) (*enrollmentv1.EnrollNodeResponse, error) {
	request, err := ca.ParseRequest(req.GetCsr())
	if err != nil {
		return nil, err
	}
	text, err := i.ca.IssueNode("node_1", "org_1", request)
	return &enrollmentv1.EnrollNodeResponse{
		NodeId: "node_1", CertificatePem: text, CaPem: i.ca.PEM(), EdgeAddress: "127.0.0.1:1",
	}, err
}

func TestAHubWhoseAuthorityTheTokenDoesNotNameIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	stranger, err := ca.Open(t.Context(), ca.Config{Store: newMemory()})
	require.NoError(t, err)
	server := serve(t, impostor{ca: stranger})
	id, dir := machine(t)
	err = id.Enrol(t.Context(), identity.Enrolment{
		HubURL: server.URL, JoinToken: h.store.add(h.ca, time.Hour), Name: "web-1", Client: server.Client(),
	})
	require.True(t, fault.Is(err, fault.Denied))
	require.ErrorContains(t, err, "its CA does not match")
	require.False(t, id.Enrolled())
	require.NoFileExists(t, filepath.Join(dir, "node.json"))
}

func TestHubsThatCannotBeReachedAreNamed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	token := h.store.add(h.ca, time.Hour)
	nobody, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		url, message string
		kind         fault.Kind
	}{
		"nobody listens":                 {"http://" + nobody.Addr().String(), "connection refused", fault.Unavailable},
		"something else listens":         {page.URL, "is not a Deckhand hub", fault.Unavailable},
		"its certificate is not trusted": {secure.URL, "does not trust", fault.Unavailable},
		"the address has no scheme":      {"hub.example:8080", "hub-url", fault.Invalid},
		"the address is of another kind": {"ftp://hub.example", "hub-url", fault.Invalid},
		"the address is not there":       {"", "hub-url", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, _ := machine(t)
			err := id.Enrol(t.Context(), identity.Enrolment{HubURL: c.url, JoinToken: token, Name: "web-1", Client: &http.Client{Transport: &http.Transport{}}})
			require.True(t, fault.Is(err, c.kind), "%v", err)
			require.ErrorContains(t, err, c.message)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestRequestsThatAreNoRequestsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	client := enrollmentv1connect.NewEnrollmentServiceClient(h.api.Client(), h.api.URL)
	_, err := client.EnrollNode(t.Context(), &enrollmentv1.EnrollNodeRequest{
		JoinToken: h.store.add(h.ca, time.Hour), Csr: []byte("no"), Name: "web-1",
	})
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.ErrorContains(t, err, "csr")

	id, _ := machine(t)
	require.NoError(t, h.enrol(id, h.store.add(h.ca, time.Hour), "web-1"))
	other, _ := machine(t)
	config, err := id.TLS()
	require.NoError(t, err)
	csr, err := other.Request()
	require.NoError(t, err)
	_, err = client.RenewCertificate(t.Context(), &enrollmentv1.RenewCertificateRequest{
		CertificatePem: encode(config.Certificates[0]), Csr: csr,
	})
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err))
	require.ErrorContains(t, err, "another key")
}

func encode(certificate tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
}
