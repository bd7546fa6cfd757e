package credential

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// gitHub is a server with a repository and the part of GitHub's API that an app uses for it.
type gitHub struct {
	t       *testing.T
	bare    string
	backend http.Handler

	mu sync.Mutex
	// tokens are those that were issued, with what they are for.
	tokens   map[string]map[string]any
	opened   []map[string]any
	comments []string
}

const gitHubAPI = "/api/v3"

func newGitHub(t *testing.T) *gitHub {
	t.Helper()
	root := t.TempDir()
	g := &gitHub{t: t, bare: filepath.Join(root, "acme", "web.git"), tokens: map[string]map[string]any{}}
	g.backend = newBackend(t, root, g.bare)
	return g
}

// newBackend makes a bare repository below root with a commit on its branch main, and returns
// Git's own server of what is below root.
func newBackend(t *testing.T, root, bare string) http.Handler {
	t.Helper()
	work := filepath.Join(root, "work")
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"-C", bare, "config", "http.receivepack", "true"},
		{"init", "--quiet", "--initial-branch=main", work},
		{"-C", work, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "--quiet", "--allow-empty", "--message", "first"},
		{"-C", work, "push", "--quiet", bare, "main"},
	} {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	core, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
}

// branch returns where a branch is; "" if it is not there.
func (g *gitHub) branch(name string) string {
	out, err := exec.Command("git", "-C", g.bare, "rev-parse", "--verify", "--quiet", "refs/heads/"+name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (g *gitHub) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/acme/web.git/") {
		user, token, _ := r.BasicAuth()
		if user != "x-access-token" || g.right(token, "contents") != "write" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.backend.ServeHTTP(w, r)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	var in map[string]any
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			answer(http.StatusBadRequest, map[string]any{"message": err.Error()})
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, gitHubAPI)
	if r.Method == http.MethodPost && path == "/app/installations/7/access_tokens" {
		token := fmt.Sprintf("ghs_issued%dto9f31c7d2be", len(g.tokens))
		g.tokens[token] = in
		answer(http.StatusCreated, map[string]any{"token": token, "expires_at": "2099-01-01T00:00:00Z"})
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	of := g.tokens[token]
	if of == nil {
		answer(http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
		return
	}
	permissions, _ := of["permissions"].(map[string]any)
	assert.Equal(g.t, map[string]any{"pull_requests": "write", "contents": "read"}, permissions, "the token has what pull requests need, and no more")
	assert.Equal(g.t, []any{"web"}, of["repositories"])
	switch path {
	case "/repos/acme/web/pulls":
		if r.Method == http.MethodGet {
			answer(http.StatusOK, g.opened)
			return
		}
		in["number"], in["html_url"], in["state"] = len(g.opened)+1, "https://github.test/acme/web/pull/1", "open"
		g.opened = append(g.opened, in)
		if len(g.opened) == 1 {
			panic(http.ErrAbortHandler) // it is opened, and the hub does not learn of it
		}
		answer(http.StatusCreated, in)
	case "/repos/acme/web/pulls/1":
		answer(http.StatusOK, g.opened[0])
	case "/repos/acme/web/issues/1/comments":
		if r.Method == http.MethodGet {
			answer(http.StatusOK, []any{})
			return
		}
		body, _ := in["body"].(string)
		g.comments = append(g.comments, body)
		answer(http.StatusCreated, map[string]any{"id": 55, "html_url": "https://github.test/acme/web/pull/1#issuecomment-55", "body": body, "you_sent": r.Header.Get("Authorization")})
	default:
		answer(http.StatusNotFound, map[string]any{"message": "Not Found"})
	}
}

// right returns what a token may do.
func (g *gitHub) right(token, permission string) any {
	g.mu.Lock()
	defer g.mu.Unlock()
	permissions, _ := g.tokens[token]["permissions"].(map[string]any)
	return permissions[permission]
}

// An agent pushes a branch and opens a pull request. What is pushed is what the person who was
// asked has seen: neither a commit that came later, nor onto what somebody else has pushed.
func TestAnAgentPushesAndOpensAPullRequest(t *testing.T) {
	t.Parallel()
	g := newGitHub(t)
	o := newOrigin(t, "10.98.7.3", g.serve)
	f := harness.NewOn(t, "--provider-allow", "10.98.0.0/16,127.0.0.0/8")
	f.StartNode()
	f.StartWorker()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "app.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	f.CLI(0, "credential", "create", "github", "--kind", "github_app", "--app-id", "42", "--installation-id", "7", "--base-url", o.url()+gitHubAPI,
		"--host", o.host, "--port", o.port, "--private", "--roots", o.roots, "--repository", "acme/*", "--permission", "contents=write,pull_requests=write,issues=write",
		"--agent", "pusher", "--agent", "trusted", "--value-file", file)
	// An agent whose pushes need no approval works beside it.
	const credentials = "credentials: [{name: github, repositories: [acme/web], permissions: {contents: write, pull_requests: write}, push: [\"refs/heads/deckhand/* create,update\"]}]"
	f.Persona("trusted", `
turns:
  - text: I work.
    calls:
      - tool: shell_exec
        arguments:
          command: |
            set -e
            git clone -q `+o.url()+`/acme/web.git web && cd web
            git config user.name Robot && git config user.email robot@example.com
            git checkout -q -b deckhand/trusted && echo trusted > trusted.txt && git add . && git commit -q -m "trusted"
  - text: I push, and push nothing the second time.
    calls:
      - {tool: git_push, arguments: {ref: deckhand/trusted, path: web}}
      - {tool: git_push, arguments: {ref: deckhand/trusted, path: web}}
      - {tool: git_push, arguments: {ref: main, path: web}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "pushed"}}
`, "mode: autonomous", "approvals: {categories: []}", credentials)
	beside := f.Submit("trusted")
	f.Persona("pusher", `
turns:
  - text: I work.
    calls:
      - tool: shell_exec
        arguments:
          command: |
            set -e
            git clone -q `+o.url()+`/acme/web.git web && cd web
            git config user.name Robot && git config user.email robot@example.com
            git checkout -q -b late && git commit -q --allow-empty -m "not seen by anybody" && git rev-parse late > ../late
            git checkout -q -b deckhand/fix main && echo fixed > fix.txt && git add . && git commit -q -m "fix the login" && git branch deckhand/two
  - text: I push.
    calls:
      - {tool: git_push, arguments: {ref: deckhand/none, path: web}}
      - {tool: git_push, arguments: {ref: deckhand/fix, path: web}}
  - text: I push another.
    calls:
      - {tool: git_push, arguments: {ref: deckhand/two, path: web}}
  - text: I open it.
    calls:
      - {tool: pull_request_open, arguments: {repository: acme/web, head: deckhand/fix, base: main, title: Fix the login, body: "It was broken.", draft: true}}
      - {tool: pull_request_comment, arguments: {repository: acme/web, number: 1, body: "Please review."}}
      - {tool: pull_request_open, arguments: {repository: other/web, head: deckhand/fix, base: main, title: x, body: x}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "pushed"}}
`, "mode: autonomous", "approvals: {tools: [git_push]}", credentials)
	id := f.Submit("pusher")

	asked := f.Item(id, "")
	shown := f.CLI(0, "inbox", "show", asked).Out
	assert.Contains(t, shown, o.url()+"/acme/web.git")
	assert.Contains(t, shown, "refs/heads/deckhand/fix: (new) ->")
	assert.Contains(t, shown, "pusher <pusher@agents.deckhand.invalid> fix the login")
	assert.Contains(t, shown, "+fixed")
	assert.Empty(t, g.branch("deckhand/fix"))

	// The branch gets another commit while they think about it.
	late := filepath.Join(t.TempDir(), "fix")
	commit := f.CLI(0, "agent", "files", "cat", "pusher", "late").Out
	require.NoError(t, os.WriteFile(late, []byte(commit), 0o600))
	f.CLI(0, "agent", "files", "put", "pusher", late, "web/.git/refs/heads/deckhand")
	f.CLI(0, "inbox", "approve", asked)

	// Somebody else pushes the next one while they think about it.
	other := f.Item(id, asked)
	fixed := g.branch("deckhand/fix")
	require.NotEmpty(t, fixed)
	assert.NotEqual(t, strings.TrimSpace(commit), fixed, "what they have not seen is not pushed")
	assert.Contains(t, shown, "refs/heads/deckhand/fix: (new) -> "+fixed)
	out, err := exec.Command("git", "-C", g.bare, "update-ref", "refs/heads/deckhand/two", "main").CombinedOutput()
	require.NoError(t, err, "%s", out)
	two := filepath.Join(t.TempDir(), "two")
	require.NoError(t, os.WriteFile(two, []byte(g.branch("main")+"\n"), 0o600))
	f.CLI(0, "agent", "files", "put", "pusher", two, "web/.git/refs/heads/deckhand")
	f.CLI(0, "inbox", "approve", other)
	f.Ended(id)
	assert.Equal(t, fixed, g.branch("deckhand/fix"))
	assert.Equal(t, g.branch("main"), g.branch("deckhand/two"), "somebody else's branch stays")
	f.Ended(beside)
	var unasked []struct{ Observation string }
	f.JSON(&unasked, "task", "steps", beside)
	require.Len(t, unasked, 5)
	assert.Contains(t, unasked[1].Observation, "pushed "+g.branch("deckhand/trusted"))
	assert.NotEmpty(t, g.branch("deckhand/trusted"))
	for _, again := range unasked[2:4] {
		assert.Contains(t, again.Observation, "has all commits of yours already")
	}

	var steps []struct {
		ID, Tool, State, Observation string
	}
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 8)
	assert.Contains(t, steps[1].Observation, "there is no local branch refs/heads/deckhand/none", "nobody is asked about a push that cannot be made")
	assert.Contains(t, steps[2].Observation, "pushed "+fixed)
	assert.Contains(t, steps[3].Observation, "refs/heads/deckhand/two has changed on the remote since")
	assert.Contains(t, steps[4].Observation, "opened pull request 1 of acme/web: https://github.test/acme/web/pull/1")
	assert.Contains(t, steps[5].Observation, "commented on pull request 1 of acme/web: https://github.test/acme/web/pull/1#issuecomment-55")
	assert.Contains(t, steps[6].Observation, "the persona does not list repository other/web")
	require.Len(t, g.opened, 1)
	assert.Equal(t, "It was broken.\n\n<!-- deckhand:"+steps[4].ID+" -->", g.opened[0]["body"])
	assert.Equal(t, "deckhand/fix", g.opened[0]["head"])
	assert.Equal(t, true, g.opened[0]["draft"])
	assert.Equal(t, []string{"Please review.\n\n<!-- deckhand:" + steps[5].ID + " -->"}, g.comments)
	for _, s := range steps {
		for token := range g.tokens {
			assert.NotContains(t, s.Observation, token)
		}
	}

	var used []struct {
		Method, Path string
		Status       int
		StepID       string `json:"stepId"`
	}
	raw := f.CLI(0, "credential", "usage", "-o", "json").Out
	require.NoError(t, json.Unmarshal([]byte(raw), &used), raw)
	paths := map[string]bool{}
	for _, u := range used {
		paths[u.Method+" "+u.Path] = true
		if strings.HasPrefix(u.Path, gitHubAPI) {
			assert.Contains(t, []string{steps[4].ID, steps[5].ID}, u.StepID)
		}
	}
	assert.Contains(t, slices.Collect(maps.Keys(paths)), "POST "+gitHubAPI+"/repos/acme/web/pulls")
	assert.Contains(t, slices.Collect(maps.Keys(paths)), "POST "+gitHubAPI+"/repos/acme/web/issues/1/comments")
}
