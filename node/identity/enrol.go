package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/version"
	enrollmentv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
)

// callTimeout bounds a call to the hub's API.
const callTimeout = 30 * time.Second

// Enrolment is what a machine enrols with.
type Enrolment struct {
	// HubURL is the hub's API, http or https.
	HubURL string
	// JoinToken is what `deckhand node token` printed.
	JoinToken string
	// Name is the node's, unique in its organisation.
	Name   string
	Labels map[string]string
	// Client makes the calls; nil for http.DefaultClient.
	Client *http.Client
}

// Enrol registers this machine's key with the hub and stores the hub's
// response. It may be repeated: the same key is the same node. If the
// certificate authority is not the one that the token names, it is not trusted
// and nothing is stored.
func (i *Identity) Enrol(ctx context.Context, e Enrolment) error {
	token, err := jointoken.Parse(e.JoinToken)
	if err != nil {
		return err
	}
	if err := i.CheckToken(token); err != nil {
		return err
	}
	request, err := i.Request()
	if err != nil {
		return err
	}
	client, err := enrollmentClient(e.HubURL, e.Client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := client.EnrollNode(ctx, &enrollmentv1.EnrollNodeRequest{
		JoinToken: token.Reveal(), Csr: request, Name: e.Name, Labels: e.Labels, Version: version.Version,
	})
	if err != nil {
		return explain(e.HubURL, err)
	}
	r := record{
		NodeID:         answer.GetNodeId(),
		HubURL:         e.HubURL,
		EdgeAddress:    answer.GetEdgeAddress(),
		CertificatePEM: answer.GetCertificatePem(),
		CAPEM:          answer.GetCaPem(),
	}
	ca, err := parseCertificate(r.CAPEM)
	if err != nil {
		return fmt.Errorf("the CA in the response of %s: %w", e.HubURL, err)
	}
	if !token.Names(jointoken.Fingerprint(ca.RawSubjectPublicKeyInfo)) {
		return fault.New(fault.Denied, "the hub at %s is not the one that made the join token: its CA does not match", e.HubURL).
			WithFix("check --hub-url, and that no proxy intercepts the connection to the hub")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.store(r); err != nil {
		return fmt.Errorf("the response of %s: %w", e.HubURL, err)
	}
	return nil
}

// Renew requests a new certificate from the hub's API after the current one has
// expired and the edge refuses it. The hub allows that for 30 days. An empty
// hubURL means the hub of the enrolment.
func (i *Identity) Renew(ctx context.Context, hubURL string, httpClient *http.Client) error {
	i.mu.RLock()
	r := i.node
	i.mu.RUnlock()
	if hubURL == "" {
		hubURL = r.HubURL
	}
	r.HubURL = hubURL
	request, err := i.Request()
	if err != nil {
		return err
	}
	client, err := enrollmentClient(hubURL, httpClient)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := client.RenewCertificate(ctx, &enrollmentv1.RenewCertificateRequest{
		CertificatePem: r.CertificatePEM, Csr: request,
	})
	if err != nil {
		return explain(hubURL, err)
	}
	r.CertificatePEM, r.EdgeAddress = answer.GetCertificatePem(), answer.GetEdgeAddress()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.store(r); err != nil {
		return fmt.Errorf("the response of %s: %w", hubURL, err)
	}
	return nil
}

func enrollmentClient(hubURL string, client *http.Client) (enrollmentv1connect.EnrollmentServiceClient, error) {
	parsed, err := url.Parse(hubURL)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fault.New(fault.Invalid, "hub-url %q is not an address", hubURL).
			WithFix("give it as https://host:port")
	}
	if client == nil {
		client = http.DefaultClient
	}
	return enrollmentv1connect.NewEnrollmentServiceClient(client, hubURL), nil
}

// explain turns a call's error into one for a person. The hub's own message is
// kept; if no server responded, or one that is not a hub, the error says so.
func explain(hubURL string, err error) error {
	said := fault.FromConnect(err)
	var ce *connect.Error
	if errors.As(err, &ce) && len(ce.Details()) > 0 {
		return said
	}
	var untrusted x509.UnknownAuthorityError
	switch code := connect.CodeOf(err); {
	case errors.As(err, &untrusted):
		return fault.New(fault.Unavailable, "the hub at %s has a certificate that this machine does not trust", hubURL).
			WithFix("add its authority to the system's certificates").WithCause(err)
	case code == connect.CodeUnavailable, code == connect.CodeDeadlineExceeded:
		return fault.New(fault.Unavailable, "cannot reach the hub at %s (%s)", hubURL, reason(err)).
			WithFix("check --hub-url and that the hub runs").WithCause(err)
	case code == connect.CodeUnimplemented, code == connect.CodeUnknown:
		return fault.New(fault.Unavailable, "the server at %s is not a Deckhand hub", hubURL).
			WithFix("check --hub-url: it is the hub's API, not its edge").WithCause(err)
	}
	return said
}

// reason is the innermost cause: the system's words, without the layers that
// carried them.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
