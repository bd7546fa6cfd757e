package credential

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The user and the token with which the repositories of the tests are reached.
const (
	gitUser  = "deploy"
	gitToken = "git-token-77d0c1e29a4b6f83"
)

// gitHost is a server of repositories over HTTPS, which wants a user and a token unless it is open.
type gitHost struct {
	*origin
	t    *testing.T
	dir  string
	open bool
}

func newGitHost(t *testing.T, address string) *gitHost {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	h := &gitHost{t: t, dir: t.TempDir()}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + h.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=deploy"},
	}
	h.origin = newOrigin(t, address, func(w http.ResponseWriter, r *http.Request) {
		if user, token, _ := r.BasicAuth(); !h.open && (user != gitUser || token != gitToken) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
	return h
}

// git runs git on the host and returns what it printed.
func (h *gitHost) git(dir string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "safe.directory=*"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// create creates a repository with one commit on main, and returns its folder.
func (h *gitHost) create(name string, files map[string]string) string {
	h.t.Helper()
	work, bare := h.t.TempDir(), filepath.Join(h.dir, name+".git")
	h.git(work, "init", "-q", "-b", "main")
	for path, text := range files {
		require.NoError(h.t, os.WriteFile(filepath.Join(work, path), []byte(text), 0o600))
	}
	h.git(work, "add", "-A")
	h.git(work, "commit", "-q", "-m", "first")
	h.git(work, "clone", "-q", "--bare", ".", bare)
	h.git(bare, "config", "http.receivepack", "true")
	return bare
}

// An agent gets its repository before its first turn, commits as itself for the person who
// asked, and pushes where its credential lets it; other references are refused in git's own
// words, and nothing of that push arrives.
func TestAnAgentWorksInItsRepository(t *testing.T) {
	t.Parallel()
	host := newGitHost(t, "10.98.8.1")
	bare := host.create("web", map[string]string{"README.md": "hello\n"})
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(gitUser+":"+gitToken), 0o600))
	f.CLI(0, "credential", "create", "git", "--kind", "basic", "--host", host.host, "--port", host.port, "--roots", host.roots, "--private",
		"--agent", "coder", "--value-file", file)
	f.Persona("coder", `
turns:
  - text: I fix it.
    calls:
      - {tool: shell_exec, arguments: {command: "git status -sb && git log --format=%s && cat README.md"}}
      - {tool: shell_exec, arguments: {command: "git checkout -q -b deckhand/fix && echo fixed >> README.md && git commit -qam 'Fix it' && git log -1 --format='%an <%ae>%n%cn%n%B'"}}
      - {tool: shell_exec, arguments: {command: "git push origin deckhand/fix"}}
      - {tool: shell_exec, arguments: {command: "git push origin deckhand/fix:deckhand/other HEAD:main"}}
      - {tool: shell_exec, arguments: {command: "git remote add ssh git@`+host.host+`:web.git && git ls-remote ssh"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "fixed"}}
`, "mode: autonomous", "approvals: {categories: []}", "credentials: [git]", "workspace: {git: {url: "+host.url()+"/web.git, credential: git, depth: 1}}")
	id := f.Submit("coder")
	f.Ended(id)
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 6)
	assert.Contains(t, steps[0].Observation, "## main...origin/main\nfirst\nhello")
	assert.Contains(t, steps[1].Observation, "coder <coder@agents.deckhand.invalid>\ncoder\nFix it\n\nRequested-by: admin")
	assert.Contains(t, steps[2].Observation, "deckhand/fix -> deckhand/fix", steps[2].Observation)
	assert.Contains(t, steps[3].Observation, "[remote rejected] HEAD -> main", steps[3].Observation)
	assert.Contains(t, steps[3].Observation, "another reference was refused", steps[3].Observation)
	assert.Contains(t, steps[4].Observation, "refs/heads/main", steps[4].Observation)
	for _, s := range steps {
		assert.NotContains(t, s.Observation, gitToken)
	}
	refs := host.git(bare, "for-each-ref", "--format=%(refname) %(subject)")
	assert.Equal(t, "refs/heads/deckhand/fix Fix it\nrefs/heads/main first", refs)
}
