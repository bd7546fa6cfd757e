package certfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// issue writes a new self-signed certificate of a name.
func issue(t *testing.T, cert, key, name string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	if cert != "" {
		replace(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	replace(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", data, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func TestARenewedCertificateIsServedAndABadOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	issue(t, cert, key, "first")
	var reported []error
	p, err := Load(cert, key, func(err error) { reported = append(reported, err) })
	require.NoError(t, err)
	now := time.Now()
	p.now = func() time.Time { return now }
	p.looked = now
	served := func() string {
		c, err := p.Certificate(nil)
		require.NoError(t, err)
		return c.Leaf.Subject.CommonName
	}
	require.Equal(t, "first", served())

	issue(t, cert, key, "second")
	require.Equal(t, "first", served(), "the files are looked at once a second at most")
	now = now.Add(Every)
	require.Equal(t, "second", served())
	require.Equal(t, []error{nil}, reported)

	issue(t, "", key, "only the key was replaced")
	now = now.Add(Every)
	require.Equal(t, "second", served())
	now = now.Add(Every)
	require.Equal(t, "second", served())
	require.Len(t, reported, 2, "a problem is reported once")
	require.ErrorContains(t, reported[1], "private key does not match")

	require.NoError(t, os.Remove(cert))
	now = now.Add(Every)
	require.Equal(t, "second", served())
	now = now.Add(Every)
	require.Equal(t, "second", served())
	require.Len(t, reported, 3)

	issue(t, cert, key, "third")
	now = now.Add(Every)
	require.Equal(t, "third", served())
	require.NoError(t, reported[3])
	require.Equal(t, "third", p.Leaf().Subject.CommonName)
}
