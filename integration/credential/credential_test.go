// Package credential tests that credentials reach servers and nothing else: with a real hub,
// worker, node, jails, git and servers with TLS.
package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// origin is a server with TLS at an address that is the machine's for the time of the test:
// programs never ask a proxy for a loopback address.
type origin struct {
	host, port string
	// roots is the file with its certificate.
	roots string

	mu       sync.Mutex
	requests []*http.Request
}

func (o *origin) url() string { return "https://" + net.JoinHostPort(o.host, o.port) }

func (o *origin) seen() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*http.Request(nil), o.requests...)
}

func newOrigin(t *testing.T, address string, serve http.HandlerFunc) *origin {
	t.Helper()
	ip := func(verb string) {
		out, err := exec.Command("ip", "addr", verb, address+"/32", "dev", "lo").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	ip("add")
	t.Cleanup(func() { ip("del") })
	l, err := net.Listen("tcp", address+":0")
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "origin"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	o := &origin{host: address, roots: filepath.Join(t.TempDir(), "roots.pem")}
	require.NoError(t, os.WriteFile(o.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.requests = append(o.requests, r.Clone(r.Context()))
		o.mu.Unlock()
		serve(w, r)
	}))
	_ = s.Listener.Close()
	s.Listener, s.EnableHTTP2 = l, true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, o.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return o
}

// trusting returns the environment of a node whose machine trusts the certificates of origins
// besides those that it has.
func trusting(t *testing.T, origins ...*origin) []string {
	t.Helper()
	all, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	require.NoError(t, err)
	for _, o := range origins {
		own, err := os.ReadFile(o.roots)
		require.NoError(t, err)
		all = append(all, own...)
	}
	dir, err := os.MkdirTemp("", "trusted") // the proxy's user reads it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // there are certificates in it
	file := filepath.Join(dir, "trusted.pem")
	require.NoError(t, os.WriteFile(file, all, 0o644)) //nolint:gosec // certificates, which the proxy's user reads
	return []string{"SSL_CERT_FILE=" + file}
}

// The secrets of the tests.
const (
	bearer   = "held-bearer-5f1c9d7a33e84b60"
	clientID = "robot-7"
	client   = "oauth-client-secret-c1d5a9e7b8"
	access   = "access-token-9b21e6f04c7d"
)

// A credential that stays in the hub and a token that is at the node are inserted into the
// requests of a command, which sees neither.
func TestCommandsUseCredentialsAndSeeNone(t *testing.T) {
	t.Parallel()
	held := newOrigin(t, "10.98.7.1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+bearer {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "private data; you sent "+r.Header.Get("Authorization"))
	})
	tokens := newOrigin(t, "10.98.7.2", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/oauth/token":
			if user, password, _ := r.BasicAuth(); user != clientID || password != client {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, access)
		case r.Header.Get("Authorization") == "Bearer "+access:
			_, _ = io.WriteString(w, "robot data")
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	f := harness.NewOn(t, "--provider-allow", "10.98.0.0/16,127.0.0.0/8")
	f.StartNode()
	f.StartWorker()
	create := func(secret string, args ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
		f.CLI(0, append(append([]string{"credential", "create"}, args...), "--agent", "caller", "--private", "--value-file", file)...)
	}
	create(bearer, "api", "--kind", "bearer", "--host", held.host, "--port", held.port, "--roots", held.roots, "--path", "/v1/**", "--variable", "API_TOKEN")
	create(client, "robot", "--kind", "oauth2_client", "--host", tokens.host, "--port", tokens.port, "--roots", tokens.roots,
		"--token-url", tokens.url()+"/oauth/token", "--client-id", clientID)
	f.Persona("caller", `
turns:
  - text: I call.
    calls:
      - {tool: shell_exec, arguments: {command: "curl -sS -H 'Authorization: Bearer '$API_TOKEN `+held.url()+`/v1/data"}}
      - {tool: shell_exec, arguments: {command: "curl -sS `+tokens.url()+`/data"}}
      - {tool: shell_exec, arguments: {command: "curl -sS `+held.url()+`/v2/other"}}
      - {tool: shell_exec, arguments: {command: "env; ls /deckhand/trust"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "called"}}
`, "mode: autonomous", "credentials: [api, robot]")
	id := f.Submit("caller")
	f.Ended(id)
	var steps []struct{ ID, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 5)
	assert.Contains(t, steps[0].Observation, "private data; you sent Bearer ****")
	assert.Contains(t, steps[1].Observation, "robot data")
	assert.Contains(t, steps[2].Observation, "no rule allows")
	assert.Contains(t, steps[3].Observation, "API_TOKEN=")
	assert.Contains(t, steps[3].Observation, "authorities.pem")
	for _, s := range steps {
		for _, secret := range []string{bearer, client, access} {
			assert.NotContains(t, s.Observation, secret)
		}
	}
	for _, r := range held.seen() {
		assert.Equal(t, "/v1/data", r.URL.Path)
		assert.Equal(t, []string{"Bearer " + bearer}, r.Header.Values("Authorization"))
		for name := range r.Header {
			assert.False(t, strings.HasPrefix(name, "Deckhand-"), name)
		}
	}
	// What was done with them is on record.
	var used []struct {
		Credential, Method, Host, Path string
		Status                         int
		StepID                         string `json:"step_id"`
	}
	raw := f.CLI(0, "credential", "usage", "-o", "json").Out
	require.NoError(t, json.Unmarshal([]byte(raw), &used), raw)
	require.Len(t, used, 2, raw)
	f.CLI(0, "task", "watch", id)
}
