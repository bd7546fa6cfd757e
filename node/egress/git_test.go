package egress_test

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const basicSecret = "x-access-token:" + secret

// gitHost is git http-backend behind basic authentication, with Git LFS, and a jail with a
// credential for it.
type gitHost struct {
	*bound
	bare string
	home string // of the command in the jail

	mu     sync.Mutex
	pushes int               // that arrived
	bodies int64             // bytes of them
	lfs    map[string]string // objects
}

// lfsSecret is what the LFS server issues.
const lfsSecret = "RemoteAuth lfs-0123456789/+="

func newGitHost(t *testing.T, held bool, pushes ...string) *gitHost {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	g := &gitHost{home: t.TempDir(), lfs: map[string]string{}}
	root := t.TempDir()
	g.bare = filepath.Join(root, "app.git")
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + g.home, "GIT_CONFIG_NOSYSTEM=1"},
	}
	g.bound = newBound(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/lfs-objects/") {
			g.object(w, r)
			return
		}
		user, password, _ := r.BasicAuth()
		if user+":"+password != basicSecret {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/objects/batch") {
			g.batch(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			g.mu.Lock()
			g.pushes++
			g.mu.Unlock()
			r.Body = &countedBody{r.Body, g}
		}
		backend.ServeHTTP(w, r)
	}, func(e *nodev1.Egress) {
		e.Bindings[0].Pushes, e.Bindings[0].Held = pushes, held
	})
	g.hub.set("github", egresslink.Token{
		Headers:    map[string]string{"Authorization": "Bearer " + secret},
		GitHeaders: map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(basicSecret))},
		Secrets:    []string{secret},
	})
	if held {
		g.hub.held = g.insertingHub()
	}
	require.NoError(t, os.WriteFile(filepath.Join(g.home, "ca.pem"), []byte(g.hub.pem), 0o600))
	g.git(root, "init", "--quiet", "--bare", "--initial-branch=main", g.bare)
	g.git(g.bare, "config", "http.receivepack", "true")
	g.git(g.bare, "config", "uploadpack.allowFilter", "true")
	seed := filepath.Join(root, "seed")
	g.git(root, "init", "--quiet", "--initial-branch=main", seed)
	for i := range 3 {
		require.NoError(t, os.WriteFile(filepath.Join(seed, "file"), []byte(strconv.Itoa(i)), 0o600))
		g.git(seed, "add", "file")
		g.git(seed, "commit", "--quiet", "-m", "commit "+strconv.Itoa(i))
	}
	g.git(seed, "push", "--quiet", g.bare, "main")
	g.forward()
	g.proxy.Begin(jailID, "exec_1")
	return g
}

// insertingHub is a hub that inserts the credential and sends requests on by itself.
func (g *gitHost) insertingHub() http.RoundTripper {
	roots := x509.NewCertPool()
	require.True(g.t, roots.AppendCertsFromPEM([]byte(g.roots)))
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "git.test"}, DisableCompression: true, ForceAttemptHTTP2: true,
	}
	g.t.Cleanup(tr.CloseIdleConnections)
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		out := r.Clone(r.Context())
		assert.Equal(g.t, jailID, out.Header.Get(egresslink.HeaderJail))
		assert.Equal(g.t, "github", out.Header.Get(egresslink.HeaderCredential))
		for _, name := range []string{egresslink.HeaderJail, egresslink.HeaderExec, egresslink.HeaderCredential, egresslink.HeaderTarget} {
			out.Header.Del(name)
		}
		out.URL.Scheme, out.URL.Host = "https", "127.0.0.1:"+strconv.Itoa(int(g.port))
		out.SetBasicAuth("x-access-token", secret)
		return tr.RoundTrip(out)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type countedBody struct {
	io.ReadCloser
	g *gitHost
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.g.bodies += int64(n)
	return n, err
}

// forward tells git how to reach the proxy.
func (g *gitHost) forward() {
	at := g.listen()
	g.git(g.home, "config", "--global", "http.proxy", "http://exec_1:x@"+at)
	g.git(g.home, "config", "--global", "http.sslCAInfo", filepath.Join(g.home, "ca.pem"))
}

// run runs git as a command in the jail does.
func (g *gitHost) run(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...) //nolint:gosec // of this test
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + g.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x",
	}
	out, err := cmd.CombinedOutput()
	assert.NotContains(g.t, string(out), secret)
	assert.NotContains(g.t, string(out), lfsSecret)
	return string(out), err
}

func (g *gitHost) git(dir string, args ...string) string {
	g.t.Helper()
	out, err := g.run(dir, args...)
	require.NoError(g.t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(out)
}

// remote is the repository's address, with what a command has instead of the secret.
func (g *gitHost) remote() string {
	return strings.Replace(g.url("/app.git"), "https://", "https://x:placeholder@", 1)
}

func (g *gitHost) clone(options ...string) string {
	g.t.Helper()
	work := filepath.Join(g.t.TempDir(), "work")
	g.git(g.home, append(append([]string{"clone", "--quiet"}, options...), g.remote(), work)...)
	return work
}

func (g *gitHost) commit(work, name, content string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(work, name), []byte(content), 0o600))
	g.git(work, "add", name)
	g.git(work, "commit", "--quiet", "-m", "change "+name)
}

// arrived returns how many pushes came to the server.
func (g *gitHost) arrived() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pushes
}

func TestGitClonesFetchesAndPushes(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"with a token on the node": false, "with a secret that stays in the hub": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGitHost(t, held)
			work := g.clone()
			g.git(work, "fetch", "--quiet")
			g.git(work, "checkout", "--quiet", "-b", "deckhand/fix")
			g.commit(work, "new", "1")
			g.git(work, "push", "--quiet", "origin", "deckhand/fix")
			g.commit(work, "new", "2")
			g.git(work, "push", "--quiet", "origin", "deckhand/fix") // proven to be a fast-forward
			assert.Equal(t, g.git(work, "rev-parse", "HEAD"), g.git(g.bare, "rev-parse", "refs/heads/deckhand/fix"))

			before, main := g.arrived(), g.git(g.bare, "rev-parse", "refs/heads/main")
			out, err := g.run(work, "push", "origin", "HEAD:refs/heads/main", "HEAD:refs/heads/deckhand/other", "HEAD:refs/tags/v1")
			require.Error(t, err)
			assert.Contains(t, out, "main (updating this reference is not allowed")
			assert.Contains(t, out, "v1 (creating this reference is not allowed")
			assert.Contains(t, out, "deckhand/other (not pushed, since another reference was refused)")
			g.git(work, "commit", "--quiet", "--amend", "-m", "another")
			out, err = g.run(work, "push", "--force", "origin", "HEAD:refs/heads/deckhand/fix")
			require.Error(t, err)
			assert.Contains(t, out, "not proven to be a fast-forward")
			out, err = g.run(work, "push", "origin", ":refs/heads/deckhand/fix")
			require.Error(t, err)
			assert.Contains(t, out, "deleting this reference is not allowed")
			assert.Equal(t, before, g.arrived(), "nothing of what is refused is sent")
			assert.Equal(t, main, g.git(g.bare, "rev-parse", "refs/heads/main"))

			shallow := g.clone("--depth", "1")
			assert.Equal(t, "1", g.git(shallow, "rev-list", "--count", "HEAD"))
			g.git(shallow, "checkout", "--quiet", "-b", "deckhand/shallow")
			g.commit(shallow, "new", "3")
			g.git(shallow, "push", "--quiet", "origin", "deckhand/shallow")
			g.git(shallow, "fetch", "--quiet", "--unshallow")

			var refused []egresslink.Record
			g.hub.mu.Lock()
			defer g.hub.mu.Unlock()
			for _, rec := range g.hub.ends {
				assert.Equal(t, "exec_1", rec.ExecID)
				if rec.Problem != "" {
					refused = append(refused, rec)
				}
			}
			require.Len(t, refused, 3)
			assert.Zero(t, refused[0].Status)
			assert.Contains(t, refused[0].Problem, "the push is refused: refs/heads/main: updating this reference is not allowed")
		})
	}
}

func TestALargePushPasses(t *testing.T) {
	t.Parallel()
	g := newGitHost(t, false, "refs/heads/* create,update")
	work := g.clone()
	large := make([]byte, 16<<20)
	_, _ = rand.Read(large)
	g.commit(work, "large", string(large))
	g.git(work, "push", "--quiet", "origin", "main") // chunked, after a probe
	assert.Equal(t, g.git(work, "rev-parse", "HEAD"), g.git(g.bare, "rev-parse", "refs/heads/main"))
	g.mu.Lock()
	defer g.mu.Unlock()
	assert.Greater(t, g.bodies, int64(len(large)))
	left, err := os.ReadDir(g.spool)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// batch is the Batch API of Git LFS.
func (g *gitHost) batch(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Operation string `json:"operation"`
		Objects   []struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		} `json:"objects"`
	}
	if !assert.NoError(g.t, json.NewDecoder(r.Body).Decode(&asked)) {
		return
	}
	host := g.url("")
	if asked.Objects[0].Size == 9 { // see the test
		host = "https://storage.test"
	}
	var objects []any
	for _, o := range asked.Objects {
		objects = append(objects, map[string]any{"oid": o.OID, "size": o.Size, "authenticated": true, "actions": map[string]any{
			asked.Operation: map[string]any{"href": host + "/lfs-objects/" + o.OID, "header": map[string]string{"Authorization": lfsSecret}, "expires_in": 300},
		}})
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": objects})
}

// object stores or returns an object of LFS.
func (g *gitHost) object(w http.ResponseWriter, r *http.Request) {
	assert.Equal(g.t, []string{lfsSecret}, r.Header.Values("Authorization"))
	g.mu.Lock()
	defer g.mu.Unlock()
	oid := filepath.Base(r.URL.Path)
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, g.lfs[oid])
		return
	}
	body, err := io.ReadAll(r.Body)
	assert.NoError(g.t, err)
	sum := sha256.Sum256(body)
	assert.Equal(g.t, oid, hex.EncodeToString(sum[:]))
	g.lfs[oid] = string(body)
}

func TestLFSPassesWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is not installed: scripts/setup installs it")
	}
	for name, held := range map[string]bool{"with a token on the node": false, "with a secret that stays in the hub": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGitHost(t, held, "refs/heads/* create,update")
			g.git(g.home, "lfs", "install", "--skip-repo")
			g.git(g.home, "config", "--global", "lfs."+g.url("/app.git")+"/info/lfs.locksverify", "false")
			work := g.clone()
			g.git(work, "lfs", "track", "*.bin")
			g.git(work, "add", ".gitattributes")
			g.commit(work, "a.bin", "some content")
			g.git(work, "push", "--quiet", "origin", "main")
			g.mu.Lock()
			assert.Len(t, g.lfs, 1)
			g.mu.Unlock()
			again := g.clone()
			content, err := os.ReadFile(filepath.Join(again, "a.bin"))
			require.NoError(t, err)
			assert.Equal(t, "some content", string(content))

			g.commit(work, "b.bin", "elsewhere")
			out, err := g.run(work, "push", "origin", "main")
			require.Error(t, err)
			assert.Contains(t, out, "requests to it are not inspected: add the host to the credential")
		})
	}
}
