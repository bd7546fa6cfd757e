// Package ca is the hub's certificate authority. CA issues certificates for nodes, for
// the hub's edge and for its bus, and for nothing else.
//
// The authority is created once, on the hub's first start, and stored encrypted in the
// hub's store; every replica opens the same one. Node certificates are valid for a day
// and renewed over the link; there are no revocation lists: the edge asks the store at
// every session.
package ca

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// SecretName is the name under which the store keeps the authority.
const SecretName = "node-ca"

const (
	// lifetime of the authority itself.
	lifetime = 10 * 365 * 24 * time.Hour
	// leafLifetime is how long node and edge certificates live by default.
	leafLifetime = 24 * time.Hour
	// clockSkew is how far the clocks of hub and node may differ.
	clockSkew = 5 * time.Minute
)

// Store keeps secrets sealed.
type Store interface {
	// LoadSecret returns a secret's value; fault.NotFound when there is none.
	LoadSecret(ctx context.Context, name string) ([]byte, error)
	// CreateSecret stores a value unless the name is taken, and returns the stored value:
	// the first writer wins.
	CreateSecret(ctx context.Context, name string, value []byte) (stored []byte, err error)
}

// Config says where the authority is stored.
type Config struct {
	Store Store
	// LeafLifetime is how long the certificates it issues are valid; 0 for 24 h.
	LeafLifetime time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// CA is the opened authority. It is safe for use by many goroutines.
type CA struct {
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	pool     *x509.CertPool
	leafLife time.Duration
	now      func() time.Time

	mu     sync.Mutex                  // guards issued
	issued map[string]*tls.Certificate // to this process itself, by common name
}

// Open loads the authority, or creates it if there is none yet.
func Open(ctx context.Context, cfg Config) (*CA, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.LeafLifetime <= 0 {
		cfg.LeafLifetime = leafLifetime
	}
	value, err := cfg.Store.LoadSecret(ctx, SecretName)
	if fault.Is(err, fault.NotFound) {
		var made []byte
		if made, err = create(cfg.Now()); err != nil {
			return nil, fmt.Errorf("make the certificate authority: %w", err)
		}
		value, err = cfg.Store.CreateSecret(ctx, SecretName, made)
	}
	if err != nil {
		return nil, fmt.Errorf("load the certificate authority: %w", err)
	}
	key, cert, err := decode(value)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &CA{key: key, cert: cert, pool: pool, leafLife: cfg.LeafLifetime, now: cfg.Now, issued: map[string]*tls.Certificate{}}, nil
}

// create returns a new authority as PEM: its key, then its certificate.
func create(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "Deckhand node CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs leaves only
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), nil
}

// decode reads what create wrote. Its errors do not quote the value.
func decode(value []byte) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	pair, err := tls.X509KeyPair(value, value)
	if err != nil {
		return nil, nil, fmt.Errorf("key and certificate: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, fmt.Errorf("the secret %q holds no ECDSA authority", SecretName)
	}
	return key, pair.Leaf, nil
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

// NotAfter returns when the authority's certificate ends.
func (c *CA) NotAfter() time.Time { return c.cert.NotAfter }

// PEM returns the authority's certificate, for nodes to trust.
func (c *CA) PEM() string { return encode(c.cert.Raw) }

// Fingerprint returns the fingerprint of the authority's key, as in join tokens: 64 hex
// digits.
func (c *CA) Fingerprint() string {
	return jointoken.Fingerprint(c.cert.RawSubjectPublicKeyInfo)
}

// Pool returns the pool that trusts this authority alone. It is shared: do not
// change it.
func (c *CA) Pool() *x509.CertPool { return c.pool }

// Now returns the authority's clock, by which its certificates expire.
func (c *CA) Now() time.Time { return c.now() }

// EdgeCertificate returns the edge's server certificate. It makes one with a
// key of its own, which never leaves the process, and another when two thirds
// of its life are over, so call it for each handshake.
func (c *CA) EdgeCertificate() (*tls.Certificate, error) {
	return c.own(&x509.Certificate{
		Subject:     pkix.Name{CommonName: nodelink.ServerName},
		DNSNames:    []string{nodelink.ServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// own returns this process's certificate of that common name, made again when
// less than a third of its life is left.
func (c *CA) own(template *x509.Certificate) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := template.Subject.CommonName
	if kept := c.issued[name]; kept != nil && c.now().Before(kept.Leaf.NotAfter.Add(-c.leafLife/3)) {
		return kept, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a key for %s: %w", name, err)
	}
	leaf, err := c.sign(template, key.Public())
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of %s: %w", name, err)
	}
	c.issued[name] = &tls.Certificate{Certificate: [][]byte{leaf.Raw, c.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return c.issued[name], nil
}

// sign completes a leaf's template and signs it.
func (c *CA) sign(template *x509.Certificate, public any) (*x509.Certificate, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	now := c.now()
	template.SerialNumber = serial
	template.NotBefore = now.Add(-clockSkew)
	template.NotAfter = now.Add(c.leafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, public, c.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	return leaf, nil
}

func encode(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
