package ca

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// ReplicaCertificate returns the certificate with which this hub process calls
// other replicas and is called by them; see EdgeCertificate.
func (c *CA) ReplicaCertificate(replica string) (*tls.Certificate, error) {
	return c.own(&x509.Certificate{
		Subject:     pkix.Name{CommonName: replica},
		DNSNames:    []string{nodelink.ReplicaServerName(replica)},
		URIs:        []*url.URL{{Scheme: nodelink.NodeURIScheme, Host: nodelink.ReplicaURIHost, Path: "/" + replica}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// ReplicaOf returns the hub replica that a verified certificate names.
func ReplicaOf(cert *x509.Certificate) (string, error) {
	if len(cert.URIs) == 1 {
		uri := cert.URIs[0]
		id, ok := strings.CutPrefix(uri.Path, "/")
		if ok && id != "" && uri.Scheme == nodelink.NodeURIScheme && uri.Host == nodelink.ReplicaURIHost {
			return id, nil
		}
	}
	return "", fault.New(fault.Denied, "the certificate names no hub replica")
}
