package egress

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
)

const (
	// leafLife is how long a certificate is valid, and leafMargin how long it is still valid
	// when it is replaced. Clocks in a jail are the machine's own.
	leafLife   = 7 * 24 * time.Hour
	leafMargin = 24 * time.Hour
	clockSkew  = time.Hour
)

// authority is one by which the proxy proves to a jail that it is a host whose TLS it
// terminates. Its certificate is part of the jail's rules; its key is asked of the hub when
// it is first needed, and kept in memory.
type authority struct {
	text string
	cert *x509.Certificate
}

// authorityOf reads a certificate as it travels.
func authorityOf(text string) (*authority, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("an authority is no certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("an authority's certificate: %w", err)
	}
	if !cert.IsCA || !cert.PermittedDNSDomainsCritical || len(cert.PermittedDNSDomains)+len(cert.PermittedIPRanges) == 0 {
		return nil, errors.New("an authority is not limited to the names of its hosts")
	}
	return &authority{text: text, cert: cert}, nil
}

// permits reports whether it may prove to be a host.
func (a *authority) permits(t allowlist.Target) bool {
	if t.Addr.IsValid() {
		for _, n := range a.cert.PermittedIPRanges {
			if n.Contains(net.IP(t.Addr.AsSlice())) {
				return true
			}
		}
		return false
	}
	for _, name := range a.cert.PermittedDNSDomains {
		if name == t.Host {
			return true
		}
	}
	return false
}

// signers are the keys of a jail's authorities and the certificates that were made with
// them.
type signers struct {
	jail string
	hub  Hub

	mu     sync.Mutex
	keys   map[string]crypto.Signer    // by the authority's certificate; guarded by mu
	leaves map[string]*tls.Certificate // by host; guarded by mu
	// own is the key of the leaves. It never leaves the process.
	own *ecdsa.PrivateKey // guarded by mu
}

func newSigners(jail string, hub Hub) *signers {
	return &signers{jail: jail, hub: hub, keys: map[string]crypto.Signer{}, leaves: map[string]*tls.Certificate{}}
}

// leaf returns the certificate for a host.
func (s *signers) leaf(ctx context.Context, a *authority, t allowlist.Target) (*tls.Certificate, error) {
	s.mu.Lock()
	have := s.leaves[a.text+t.Host]
	s.mu.Unlock()
	if have != nil && time.Until(have.Leaf.NotAfter) > leafMargin {
		return have, nil
	}
	key, err := s.key(ctx, a)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		if s.own, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	made, err := sign(a, key, s.own, t)
	if err != nil {
		return nil, err
	}
	s.leaves[a.text+t.Host] = made
	return made, nil
}

// key returns an authority's key, from the hub if need be.
func (s *signers) key(ctx context.Context, a *authority) (crypto.Signer, error) {
	s.mu.Lock()
	have := s.keys[a.text]
	s.mu.Unlock()
	if have != nil {
		return have, nil
	}
	got, err := s.hub.Authority(ctx, egresslink.AuthorityRequest{JailID: s.jail, Certificate: a.text})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(got.Key))
	if block == nil {
		return nil, errors.New("the hub's key of the jail's authority is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the hub's key of the jail's authority cannot be read")
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the hub's key of the jail's authority cannot sign")
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(a.cert.PublicKey) {
		return nil, errors.New("the hub's key is of another authority")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[a.text] = key
	return key, nil
}

// sign creates a certificate for exactly one host.
func sign(a *authority, key crypto.Signer, own *ecdsa.PrivateKey, t allowlist.Target) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Deckhand egress proxy"}},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if a.cert.NotAfter.Before(template.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if a.cert.NotBefore.After(template.NotBefore) {
		template.NotBefore = a.cert.NotBefore
	}
	if t.Addr.IsValid() {
		template.IPAddresses = []net.IP{t.Addr.AsSlice()}
	} else {
		template.DNSNames = []string{t.Host}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate for %s: %w", t.Host, err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{raw, a.cert.Raw}, PrivateKey: own, Leaf: leaf}, nil
}
