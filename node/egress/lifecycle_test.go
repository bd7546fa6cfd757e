package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// questions returns how often the hub was asked for a credential's token.
func (h *fakeHub) questions(credential string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[credential]
}

func bearer(token string) egresslink.Token {
	return egresslink.Token{Headers: map[string]string{"Authorization": "Bearer " + token}, Secrets: []string{token}}
}

func TestATokenIsAskedForOnceAndAgainWhenItExpires(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	b := newBound(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Authorization"))
	}, nil)
	b.hub.wait = make(chan struct{})
	client := b.browser(true)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			status, text := b.get(client, b.url("/"))
			assert.Equal(t, http.StatusOK, status, text)
		})
	}
	waittest.Until(t, 10*time.Second, "all requests wait for the token", func() bool {
		b.hub.mu.Lock()
		defer b.hub.mu.Unlock()
		return len(b.hub.begun) == 20
	})
	close(b.hub.wait)
	all.Wait()
	assert.Equal(t, 1, b.hub.questions("github"))

	// Expired ones are not used.
	b.hub.mu.Lock()
	b.hub.wait = nil
	b.hub.mu.Unlock()
	expired := bearer("expired-expired-expired")
	expired.ExpiresAt = time.Now().Add(-time.Second)
	b.hub.set("github", expired)
	b.proxy.EndCredential(jailID, "github")
	_, _ = b.get(client, b.url("/"))
	b.hub.set("github", bearer("fresh-fresh-fresh"))
	_, _ = b.get(client, b.url("/"))
	_, _ = b.get(client, b.url("/"))
	assert.Equal(t, 3, b.hub.questions("github"))
	assert.Equal(t, []string{"Bearer fresh-fresh-fresh", "Bearer fresh-fresh-fresh"}, got[len(got)-2:])
}

// What the hub refuses is told to the command and to the agent.
func TestARevokedCredentialIsExplained(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBound(t, got.ServeHTTP, nil)
	b.proxy.Begin(jailID, "exec_1")
	b.hub.mu.Lock()
	delete(b.hub.tokens, "github")
	b.hub.mu.Unlock()
	status, text := b.get(b.browser(true), b.url("/"))
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "the credential github cannot be used: the credential github was revoked; ask an administrator")
	assert.Empty(t, got.take())
	rec := b.hub.ended(t, 1)[0]
	assert.Zero(t, rec.Status)
	assert.Equal(t, "the credential github was revoked", rec.Problem)
	assert.Contains(t, b.proxy.End(jailID, "exec_1").GetRefusals()[0].GetReason(), "was revoked")
}

// slow is a server whose responses go on until the client is gone.
type slow struct{ gone chan string }

func (s slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "begun\n")
	_ = http.NewResponseController(w).Flush()
	if r.URL.Path == "/short" {
		return
	}
	<-r.Context().Done()
	s.gone <- r.URL.Path
}

// begun makes a request and waits for the beginning of its response.
func (b *bound) begun(client *http.Client, path string) *http.Response {
	b.t.Helper()
	res, err := client.Get(b.url(path))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = res.Body.Close() })
	_, err = io.ReadFull(res.Body, make([]byte, 6))
	require.NoError(b.t, err)
	return res
}

func TestEndingACredentialEndsItsRequests(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		s := slow{make(chan string, 8)}
		b := newBound(t, s.ServeHTTP, func(e *nodev1.Egress) {
			one := proto.Clone(e.GetBindings()[0]).(*nodev1.Egress_Binding) //nolint:forcetypeassert // it is a clone
			e.Bindings[0].Paths, one.Paths = []string{"/github/**", "/short"}, []string{"/other/**"}
			one.Credential = "other"
			e.Bindings = append(e.Bindings, one)
		})
		b.hub.set("other", bearer("other-other-other"))
		client := b.browser(http2)
		ended, kept := b.begun(client, "/github/x"), b.begun(client, "/other/x")
		began := time.Now()
		b.proxy.EndCredential(jailID, "github")
		_, err := io.ReadAll(ended.Body)
		require.Error(t, err)
		assert.Equal(t, "/github/x", <-s.gone)
		assert.Less(t, time.Since(began), waittest.Limit(2*time.Second))
		_ = b.begun(client, "/short")
		assert.Equal(t, 2, b.hub.questions("github"), "the next request asks again")
		assert.Equal(t, 1, b.hub.questions("other"))
		assert.Empty(t, s.gone)
		b.hub.ended(t, 2)
		b.proxy.EndCredential("", "")
		_, err = io.ReadAll(kept.Body)
		require.Error(t, err)
		var problems []string
		for _, rec := range b.hub.ended(t, 3) {
			assert.Equal(t, http.StatusOK, rec.Status)
			problems = append(problems, rec.Problem)
		}
		assert.ElementsMatch(t, []string{"the credential of this request may no longer be used", "", "the credential of this request may no longer be used"}, problems)
	})
}

func TestEndingACredentialEndsItsWebSockets(t *testing.T) {
	t.Parallel()
	b := newBound(t, echoSocket(t), nil)
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(20*time.Second))
	defer cancel()
	c := b.webSocket(ctx)
	began := time.Now()
	b.proxy.EndCredential(jailID, "")
	_, _, err := c.Read(ctx)
	require.Error(t, err)
	assert.Less(t, time.Since(began), waittest.Limit(2*time.Second))
}

// A change of rules ends what they do not allow any more, and nothing else.
func TestAChangeEndsWhatIsNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		s := slow{make(chan string, 8)}
		var rules *nodev1.Egress
		b := newBound(t, s.ServeHTTP, func(e *nodev1.Egress) { rules = e })
		change := func(do func(e *nodev1.Egress)) {
			rules = proto.Clone(rules).(*nodev1.Egress) //nolint:forcetypeassert // it is a clone
			do(rules)
			require.NoError(t, b.proxy.Change(jailID, rules))
		}
		client := b.browser(http2)
		one, two := b.begun(client, "/one"), b.begun(client, "/two")
		change(func(e *nodev1.Egress) { e.Bindings[0].Variable = "TOKEN" })
		assert.Empty(t, s.gone)
		change(func(e *nodev1.Egress) {
			e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "git.test", Ports: []uint32{b.port}, Http: []string{"deny GET /one"}})
		})
		_, err := io.ReadAll(one.Body)
		require.Error(t, err, "its path was not decided by, and is now")
		_, err = io.ReadAll(two.Body)
		require.Error(t, err)
		_, _ = <-s.gone, <-s.gone
		two = b.begun(client, "/two")
		change(func(e *nodev1.Egress) { e.Rules[1].Http = append(e.Rules[1].Http, "deny GET /three") })
		assert.Empty(t, s.gone)
		change(func(e *nodev1.Egress) { e.Bindings[0].Version = "2" })
		_, err = io.ReadAll(two.Body)
		require.Error(t, err)
		assert.Equal(t, "/two", <-s.gone)
		last := b.begun(client, "/two")
		b.proxy.Cut(jailID, "this jail is frozen")
		_, err = io.ReadAll(last.Body)
		require.Error(t, err)
		assert.Equal(t, "/two", <-s.gone)
		res, _, _ := b.connect(strings.TrimPrefix(b.url(""), "https://"))
		assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		b.proxy.Resume(jailID)
		_ = b.begun(client, "/short")
	})
}

// A tunnel that is passed on as it is ends when its requests are to be decided one by one.
func TestAnOpaqueTunnelEndsWhenItsHostIsIntercepted(t *testing.T) {
	t.Parallel()
	s := slow{make(chan string, 1)}
	var rules *nodev1.Egress
	b := newBound(t, s.ServeHTTP, func(e *nodev1.Egress) {
		rules = proto.Clone(e).(*nodev1.Egress) //nolint:forcetypeassert // it is a clone
		e.Bindings = nil
		e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "*", Ports: e.GetRules()[0].GetPorts()})
	})
	client := b.browser(true)
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs = x509.NewCertPool()                //nolint:forcetypeassert // see client
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(b.roots)) //nolint:forcetypeassert // see client
	res := b.begun(client, "/one")
	rules.Rules = append(rules.Rules, &nodev1.Egress_Rule{Host: "*", Ports: rules.GetRules()[0].GetPorts()})
	require.NoError(t, b.proxy.Change(jailID, rules))
	_, err := io.ReadAll(res.Body)
	require.Error(t, err)
	assert.Equal(t, "/one", <-s.gone)
}

func TestWhatCannotBeRecordedIsNotSent(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBound(t, got.ServeHTTP, nil)
	b.hub.mu.Lock()
	b.hub.full = true
	b.hub.mu.Unlock()
	status, text := b.get(b.browser(true), b.url("/"))
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "the disk is full")
	assert.Empty(t, got.take())
	assert.Zero(t, b.hub.questions("github"))
}

// A program that has certificates of its own is told about to the agent.
func TestAProgramThatDoesNotTrustTheAuthorityIsExplained(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b := newBound(t, hello, nil)
		c := b.browser(false)
		c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MaxVersion: version} //nolint:forcetypeassert,gosec // see client
		var use *nodev1.EgressUse
		waittest.Until(t, time.Minute, "it is noted before the exec ends", func() bool {
			b.proxy.Begin(jailID, "exec_1")
			_, err := c.Get(b.url("/")) //nolint:bodyclose // there is none
			require.Error(t, err)
			use = b.proxy.End(jailID, "exec_1")
			return len(use.GetRefusals()) > 0
		})
		assert.Contains(t, use.GetRefusals()[0].GetReason(), "does not trust the certificate")
		assert.Contains(t, use.GetRefusals()[0].GetReason(), "SSL_CERT_FILE")
	}
}

// Whatever the jail's authority signs, programs take it for the hosts of its rules only.
func TestTheAuthorityIsForItsHostsOnly(t *testing.T) {
	t.Parallel()
	b := newBound(t, hello, nil)
	state := b.tunnel("http/1.1").ConnectionState()
	leaf, ca := state.PeerCertificates[0], state.PeerCertificates[1]
	assert.Equal(t, []string{"git.test"}, leaf.DNSNames)
	forged := b.hub.sign(t, ca, "other.test")
	for name, c := range map[string]*x509.Certificate{"git.test": leaf, "other.test": forged} {
		_, err := c.Verify(x509.VerifyOptions{Roots: b.hub.roots, DNSName: name})
		assert.Equal(t, name == "git.test", err == nil, "%v", err)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	write := func(name string, raw []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
		return path
	}
	root := write("ca.pem", ca.Raw)
	for name, c := range map[string]*x509.Certificate{"git.test": leaf, "other.test": forged} {
		out, err := exec.Command("openssl", "verify", "-CAfile", root, "-verify_hostname", name, write(name+".pem", c.Raw)).CombinedOutput() //nolint:gosec // of this test
		assert.Equal(t, name == "git.test", err == nil, string(out))
		if name != "git.test" {
			assert.Contains(t, string(out), "permitted subtree violation")
		}
	}
}

// A server that repeats the credential does not give it to the command.
func TestARepeatedCredentialIsMasked(t *testing.T) {
	t.Parallel()
	encoders := map[string]func(io.Writer) io.WriteCloser{
		"identity": func(w io.Writer) io.WriteCloser { return nopCloser{w} },
		"gzip":     func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"br":       func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			require.NoError(t, err)
			return z
		},
	}
	versions(t, func(t *testing.T, http2 bool) {
		b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
			encoding := r.Header.Get("Accept-Encoding")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			if encoding != "identity" {
				w.Header().Set("Content-Encoding", encoding)
			}
			var body bytes.Buffer
			z := encoders[encoding](&body)
			fmt.Fprintf(z, `{"plain":%q,"base64":%q}`, r.Header.Get("Authorization"), base64.StdEncoding.EncodeToString([]byte("x:"+secret)))
			_ = z.Close()
			_, _ = w.Write(body.Bytes())
		}, nil)
		for encoding := range encoders {
			req, err := http.NewRequest(http.MethodGet, b.url("/"), nil)
			require.NoError(t, err)
			req.Header.Set("Accept-Encoding", encoding+", unknown")
			res, err := b.browser(http2).Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			_ = res.Body.Close()
			assert.Equal(t, http.StatusOK, res.StatusCode, string(body))
			assert.Contains(t, string(body), `"plain":"Bearer ***`, encoding)
			assert.NotContains(t, string(body), "U0VDUkVU"[:7], encoding)
			assert.Equal(t, "Bearer "+strings.Repeat("*", len(secret)), res.Header.Get("X-Echo"))
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// A request for a token of a server's is refused: it could be used elsewhere.
func TestNoTokenIsIssued(t *testing.T) {
	t.Parallel()
	b := newBound(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }, nil)
	client := b.browser(true)
	for method, paths := range map[string][]string{
		http.MethodPost: {"/oauth/token", "/login/oauth/access_token", "/api/v4/projects/1/access_tokens", "/app/installations/7/access_tokens", "/api//v4/projects/1/access_tokens",
			"/api/v4/users/1/impersonation_tokens", "/repos/acme/web/actions/runners/remove-token", "/orgs/acme/actions/runners/generate-jitconfig", "/-/npm/v1/tokens",
			"/v1/projects/-/serviceAccounts/robot@p.example.com:generateAccessToken", "/v1/auth/token/create", "/v1/auth/token/create/web", "/api/v4/projects/1/access_tokens.json",
			"/api/v4/runners/reset_registration_token", "/api/v4/projects/1/runners/reset_registration_token", "/api/v4/runners/7/reset_authentication_token",
			"/api/v4/user/runners", "/api/v4/personal_access_tokens/self/rotate", "/api/v4/projects/1/triggers", "/applications/7/token/scoped", "/api/v1/users/ann/tokens"},
		http.MethodGet: {"/token", "/v2/token", "/api/v1/repos/acme/web/actions/runners/registration-token"},
	} {
		for _, path := range paths {
			req, err := http.NewRequest(method, b.url(path), nil)
			require.NoError(t, err)
			res, err := client.Do(req)
			require.NoError(t, err)
			_ = res.Body.Close()
			assert.Equal(t, http.StatusForbidden, res.StatusCode, path)
		}
	}
	status, _ := b.get(client, b.url("/repos/acme/token"))
	assert.Equal(t, http.StatusOK, status)
	// Repositories may have the names of tokens.
	for _, path := range []string{"/acme/access-token-lib.git/git-upload-pack", "/acme/access-tokens.git/git-receive-pack", "/repos/acme/deploy-token-rotator/pulls", "/repos/acme/remove-token/pulls"} {
		res, err := client.Post(b.url(path), "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		_ = res.Body.Close()
		assert.NotEqual(t, http.StatusForbidden, res.StatusCode, path)
	}
	res, err := client.Post(b.url("/v1/messages/count_tokens"), "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	_ = res.Body.Close()
	assert.Equal(t, http.StatusOK, res.StatusCode, "tokens of another kind")
}

// A credential is inserted into no request to a path that its binding leaves out, also where only a
// lenient server takes the path for one of those.
func TestPathsThatACredentialLeavesOut(t *testing.T) {
	t.Parallel()
	b := newBound(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) }, func(e *nodev1.Egress) {
		e.Bindings[0].Paths = []string{"!/admin/**", "!/keys"}
	})
	client := b.browser(true)
	status, body := b.get(client, b.url("/repos"))
	require.Equal(t, http.StatusOK, status)
	require.NotEmpty(t, body)
	for _, path := range []string{"/admin", "/admin/users", "/ADMIN/users", "/keys", "/keys/", "/%61dmin/x"} {
		status, body := b.get(client, b.url(path))
		require.Equal(t, http.StatusForbidden, status, path)
		require.Contains(t, body, "the credential github may not be used for GET", path)
	}
}
