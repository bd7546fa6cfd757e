// Package enroll admits machines to the fleet: Enroller exchanges a join token for a node
// and a client certificate for the key that the machine generated.
//
// A join token works once. The same key may repeat its enrolment any number of times and
// is always the same node, so a machine that crashed half-way simply tries again; any
// other key is refused.
package enroll

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	enrollmentv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
)

// lapsedGrace is how long after its certificate expired a known key may have
// another.
const lapsedGrace = 30 * 24 * time.Hour

// Redemption is a join token and the machine that presents it.
type Redemption struct {
	// TokenHash is what the store keeps of the token (jointoken.Token.Hash).
	TokenHash []byte
	// KeyFingerprint names the machine's key (jointoken.Fingerprint).
	KeyFingerprint string
	Name           string
	Labels         map[string]string
	Version        string
	From           From
}

// From is where a machine called from, for the audit.
type From struct{ Address, UserAgent string }

// fromOf returns where the call that a handler serves came from.
func fromOf(ctx context.Context) From {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return From{}
	}
	return From{Address: call.Peer().Addr, UserAgent: call.RequestHeader().Get("User-Agent")}
}

// Node is a registered machine.
type Node struct {
	ID    string
	OrgID string
}

// JoinStore keeps join tokens and nodes.
type JoinStore interface {
	// Redeem spends a join token and registers the key as a node of the token's
	// organisation, with the token's labels besides its own, all in one
	// transaction:
	//
	//   - A token that was spent by the same key answers the same node, also
	//     after its expiry, and changes nothing of it.
	//   - Unknown, expired, and spent by another key are each fault.Denied with
	//     a message that says which.
	//   - A key that is a node of that organisation already (it comes with
	//     another token) stays that node: the token is spent and name, labels
	//     and version are updated. If that node was revoked: fault.Denied.
	//   - A name that another key's node has is fault.Exists, and the token is
	//     not spent.
	Redeem(ctx context.Context, r Redemption) (Node, error)
	// CheckNode returns nil for a node that may have a certificate: fault.NotFound if it
	// is not known in that organisation, fault.Denied if it was revoked or has another
	// key.
	CheckNode(ctx context.Context, node ca.Node) error
	// RecordRenewal records that a node gets another certificate although its last one
	// had expired.
	RecordRenewal(ctx context.Context, node ca.Node, from From) error
}

// Config holds the dependencies of an Enroller.
type Config struct {
	CA    *ca.CA
	Store JoinStore
	// EdgeAddress is the host:port at which nodes reach the edge.
	EdgeAddress string
	Log         hclog.Logger
}

// Enroller implements EnrollmentService. Its callers are not authenticated: they prove
// the token, or the key.
type Enroller struct{ cfg Config }

var _ enrollmentv1connect.EnrollmentServiceHandler = (*Enroller)(nil)

// New checks the configuration.
func New(cfg Config) (*Enroller, error) {
	if cfg.CA == nil || cfg.Store == nil || cfg.EdgeAddress == "" {
		return nil, errors.New("enroll: ca, store and edge address are needed")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Enroller{cfg: cfg}, nil
}

// EnrollNode spends a join token.
func (e *Enroller) EnrollNode(ctx context.Context, req *enrollmentv1.EnrollNodeRequest) (*enrollmentv1.EnrollNodeResponse, error) {
	token, err := jointoken.Parse(req.GetJoinToken())
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	if !token.Names(e.cfg.CA.Fingerprint()) {
		return nil, fault.ToConnect(fault.New(fault.Denied, "the join token was made by another hub").
			WithFix("make one on this hub: deckhand node token"))
	}
	request, err := ca.ParseRequest(req.GetCsr())
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	node, err := e.cfg.Store.Redeem(ctx, Redemption{
		TokenHash: token.Hash(), KeyFingerprint: request.KeyFingerprint,
		Name: req.GetName(), Labels: req.GetLabels(), Version: req.GetVersion(), From: fromOf(ctx),
	})
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	certificate, err := e.cfg.CA.IssueNode(node.ID, node.OrgID, request)
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	e.cfg.Log.Info("node enrolled", "node_id", node.ID, "name", req.GetName())
	return &enrollmentv1.EnrollNodeResponse{
		NodeId: node.ID, CertificatePem: certificate, CaPem: e.cfg.CA.PEM(), EdgeAddress: e.cfg.EdgeAddress,
	}, nil
}

// RenewCertificate gives a node that slept through its certificate's end
// another for the same key.
func (e *Enroller) RenewCertificate(ctx context.Context, req *enrollmentv1.RenewCertificateRequest) (*enrollmentv1.RenewCertificateResponse, error) {
	node, err := e.cfg.CA.VerifyLapsed(req.GetCertificatePem(), lapsedGrace)
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	request, err := ca.ParseRequest(req.GetCsr())
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	if request.KeyFingerprint != node.KeyFingerprint {
		return nil, fault.ToConnect(fault.New(fault.Denied, "csr: for another key than the certificate's"))
	}
	if err := e.cfg.Store.CheckNode(ctx, node); err != nil {
		return nil, fault.ToConnect(err)
	}
	if err := e.cfg.Store.RecordRenewal(ctx, node, fromOf(ctx)); err != nil {
		return nil, fault.ToConnect(err)
	}
	certificate, err := e.cfg.CA.IssueNode(node.ID, node.OrgID, request)
	if err != nil {
		return nil, fault.ToConnect(err)
	}
	e.cfg.Log.Info("renewed an expired certificate", "node_id", node.ID)
	return &enrollmentv1.RenewCertificateResponse{
		CertificatePem: certificate, EdgeAddress: e.cfg.EdgeAddress,
	}, nil
}
