package hub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// certificate writes a self-signed certificate for a name into a folder.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// With a certificate browsers get HTTP/2, cookies that stay on TLS, and HSTS; the parts of
// the same process keep their own way in; and a page of the same name without TLS is a
// stranger's.
func TestTheConsoleIsServedOverHTTPS(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.TLSCert, cfg.TLSKey = certificate(t, t.TempDir(), "deck.example.com")
	cfg.LocalHTTP = true
	// The port is known before the hub is, so that the URL has it.
	cfg.PublicURL = "https://deck.example.com"
	h := hubtest.Start(t, cfg)
	require.True(t, strings.HasPrefix(h.URL(), "http://127.0.0.1:"), "for callers on the machine: %s", h.URL())
	require.Equal(t, "https://deck.example.com", h.PublicURL())

	pem, err := os.ReadFile(cfg.TLSCert)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "deck.example.com"}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	send := func(url, host, origin, site string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/deckhand.v1.SessionService/CreateSession", strings.NewReader(`{"token":"`+h.AdminToken+`"}`))
		require.NoError(t, err)
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", origin)
		if site != "" {
			req.Header.Set("Sec-Fetch-Site", site)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	over := send("https://"+h.Listening(), "deck.example.com", "https://deck.example.com", "same-origin")
	require.Equal(t, http.StatusOK, over.StatusCode)
	require.Equal(t, 2, over.ProtoMajor)
	require.Contains(t, over.Header.Get("Set-Cookie"), "; Secure")
	require.Equal(t, "max-age=31536000", over.Header.Get("Strict-Transport-Security"))

	local := send(h.URL(), "", h.URL(), "same-origin")
	require.Equal(t, http.StatusOK, local.StatusCode)
	require.NotContains(t, local.Header.Get("Set-Cookie"), "; Secure")
	require.Empty(t, local.Header.Get("Strict-Transport-Security"))
	proxied := send(h.URL(), "deck.example.com", "https://deck.example.com", "same-origin")
	require.Contains(t, proxied.Header.Get("Set-Cookie"), "; Secure", "a proxy that says nothing, for a name that has no other way")
	renamed := send(h.URL(), "deckhand:7800", "https://deck.example.com", "")
	require.Equal(t, http.StatusOK, renamed.StatusCode, "a proxy that calls the hub by another name")
	for what, origin := range map[string]string{"the name without TLS": "http://deck.example.com", "another site": "https://evil.example.com"} {
		require.Equal(t, http.StatusForbidden, send(h.URL(), "deck.example.com", origin, "").StatusCode, what)
	}
}

func TestWrongSettingsOfHTTPSNameTheirFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "deck.example.com")
	none := filepath.Join(dir, "none.pem")
	for name, c := range map[string]struct {
		change func(*hub.Config)
		says   []string
	}{
		"a key alone":          {func(c *hub.Config) { c.TLSKey = key }, []string{"tls-cert is empty", "--tls-cert FILE"}},
		"a certificate alone":  {func(c *hub.Config) { c.TLSCert = cert }, []string{"tls-key is empty", "--tls-key FILE"}},
		"a file that is not":   {func(c *hub.Config) { c.TLSCert, c.TLSKey = none, key }, []string{"tls-cert " + none, "no such file"}},
		"a key for another":    {func(c *hub.Config) { c.TLSCert, c.TLSKey = cert, cert }, []string{"tls-key " + cert}},
		"another name":         {func(c *hub.Config) { c.TLSCert, c.TLSKey, c.PublicURL = cert, key, "https://other.example.com" }, []string{"public-url", "other.example.com", "deck.example.com"}},
		"http with TLS":        {func(c *hub.Config) { c.TLSCert, c.TLSKey, c.PublicURL = cert, key, "http://deck.example.com" }, []string{"begin --public-url with https://"}},
		"no URL":               {func(c *hub.Config) { c.PublicURL = "deck.example.com" }, []string{"public-url", "--public-url https://hub.example.com"}},
		"a URL with a query":   {func(c *hub.Config) { c.PublicURL = "https://deck.example.com/?a=b" }, []string{"query"}},
		"two different paths":  {func(c *hub.Config) { c.PublicURL, c.BasePath = "https://deck.example.com/a", "/b" }, []string{"leave out --base-path"}},
		"plain HTTP elsewhere": {func(c *hub.Config) { c.Listen = "0.0.0.0:0" }, []string{"--tls-cert and --tls-key", "--insecure-http"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := hub.Config{Listen: "127.0.0.1:0", EdgeListen: "127.0.0.1:0", DataDir: t.TempDir(), DatabaseURL: "postgres://127.0.0.1:1/none", InProcessNATS: true}
			c.change(&cfg)
			err := cfg.Check()
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}
