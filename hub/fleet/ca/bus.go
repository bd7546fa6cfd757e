package ca

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// BusCertificate returns the certificate of the NATS server inside this hub: for workers
// with a fixed name, for other clients with the names and addresses at which they reach
// it; see EdgeCertificate.
func (c *CA) BusCertificate(hosts []string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: nodelink.BusServerName},
		DNSNames:    []string{nodelink.BusServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return c.own(template)
}
