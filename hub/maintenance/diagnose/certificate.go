package diagnose

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// serverCertificate looks at the certificate with which the API is served.
func (d *Doctor) serverCertificate(context.Context) ([]Finding, error) {
	const name = "HTTPS certificate"
	if d.cfg.TLSCert == "" {
		return nil, nil // a proxy has it, or nobody
	}
	text, err := os.ReadFile(d.cfg.TLSCert)
	if err != nil {
		return []Finding{{name, Fail, err.Error(), "let the hub's user read the file of tls-cert"}}, nil
	}
	// A key or parameters may come before the first certificate, which is the server's own.
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return []Finding{{name, Fail, d.cfg.TLSCert + " has no certificate in PEM", "put the certificate, and those between it and its authority, into the file of tls-cert"}}, nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return []Finding{{name, Fail, fmt.Sprintf("%s cannot be read: %v", d.cfg.TLSCert, err), "replace the file of tls-cert"}}, nil
	}
	f := Finding{name, OK, "valid until " + cert.NotAfter.UTC().Format(time.RFC3339), ""}
	switch left := time.Until(cert.NotAfter); {
	case left < 0:
		f.State, f.Evidence, f.Fix = Fail, "it expired at "+cert.NotAfter.UTC().Format(time.RFC3339), "replace the files of tls-cert and tls-key"
	case left < soon:
		f.State, f.Fix = Warn, "renew it, and replace the files of tls-cert and tls-key"
	}
	return []Finding{f}, nil
}
