package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/url"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// Node is whom a node certificate names.
type Node struct {
	ID    string
	OrgID string
	// KeyFingerprint names the node's key (jointoken.Fingerprint).
	KeyFingerprint string
}

// Request is a certificate request whose signature holds.
type Request struct {
	public *ecdsa.PublicKey
	// KeyFingerprint names the key that signed it (jointoken.Fingerprint).
	KeyFingerprint string
}

// ParseRequest reads a PKCS #10 request in DER. Only the key counts; whatever
// names the request asks for are ignored.
func ParseRequest(der []byte) (*Request, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fault.New(fault.Invalid, "csr: not a PKCS #10 certificate request in DER").WithCause(err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fault.New(fault.Invalid, "csr: its signature does not match its key").WithCause(err)
	}
	public, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, fault.New(fault.Invalid, "csr: the key is not of the kind the hub accepts").WithFix("use ECDSA on P-256")
	}
	return &Request{public: public, KeyFingerprint: jointoken.Fingerprint(csr.RawSubjectPublicKeyInfo)}, nil
}

// IssueNode returns a client certificate for a node in PEM. The key is the
// request's; the caller has made sure that it is this node's.
func (c *CA) IssueNode(nodeID, orgID string, request *Request) (string, error) {
	leaf, err := c.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: nodeID, Organization: []string{orgID}},
		URIs:        []*url.URL{{Scheme: nodelink.NodeURIScheme, Host: nodelink.NodeURIHost, Path: "/" + nodeID}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, request.public)
	if err != nil {
		return "", err
	}
	return encode(leaf.Raw), nil
}

// NodeOf returns whom a certificate names. The caller has verified it: use it
// on a TLS peer's leaf, or on what VerifyLapsed accepted.
func NodeOf(cert *x509.Certificate) (Node, error) {
	if len(cert.URIs) == 1 && len(cert.Subject.Organization) == 1 {
		uri := cert.URIs[0]
		id, ok := strings.CutPrefix(uri.Path, "/")
		if ok && id != "" && uri.Scheme == nodelink.NodeURIScheme && uri.Host == nodelink.NodeURIHost {
			return Node{
				ID: id, OrgID: cert.Subject.Organization[0],
				KeyFingerprint: jointoken.Fingerprint(cert.RawSubjectPublicKeyInfo),
			}, nil
		}
	}
	return Node{}, fault.New(fault.Denied, "the certificate names no node")
}

// VerifyLapsed reads a node certificate in PEM that this authority issued and
// that is valid or lapsed less than grace ago.
func (c *CA) VerifyLapsed(certPEM string, grace time.Duration) (Node, error) {
	block, _ := pem.Decode([]byte(certPEM))
	if block == nil {
		return Node{}, fault.New(fault.Invalid, "certificate_pem: not a certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Node{}, fault.New(fault.Invalid, "certificate_pem: not an X.509 certificate").WithCause(err)
	}
	// Verified as of its last moment: that it has lapsed is the point.
	if _, err := cert.Verify(x509.VerifyOptions{
		Roots: c.pool, CurrentTime: cert.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return Node{}, fault.New(fault.Denied, "certificate_pem: not issued by this hub").
			WithFix("enrol the node with a join token of this hub").WithCause(err)
	}
	if c.now().After(cert.NotAfter.Add(grace)) {
		return Node{}, fault.New(fault.Denied, "certificate_pem: expired at %s, longer ago than %s",
			cert.NotAfter.UTC().Format(time.RFC3339), grace).
			WithFix("enrol the node again with a new join token")
	}
	return NodeOf(cert)
}
