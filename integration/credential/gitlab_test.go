package credential

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// gitLab is a server with a project of a subgroup, below the path of its instance, and the part
// of GitLab's API that merge requests need. It takes a token as GitLab does: of the API in a
// header of its own, and of Git as a password.
type gitLab struct {
	t       *testing.T
	backend http.Handler

	mu     sync.Mutex
	opened []map[string]any // guarded by mu
	notes  []string         // guarded by mu
}

const (
	gitLabPath  = "/gitlab"
	gitLabToken = "glpat-5a3d81f0c7e9b246d1"
)

func (g *gitLab) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, gitLabPath+"/acme/apps/web.git/") {
		if user, password, _ := r.BasicAuth(); user != "oauth2" || password != gitLabToken {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.StripPrefix(gitLabPath, g.backend).ServeHTTP(w, r)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	if r.Header.Get("Private-Token") != gitLabToken {
		answer(http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
		return
	}
	path, found := strings.CutPrefix(r.URL.EscapedPath(), gitLabPath+"/api/v4/projects/acme%2Fapps%2Fweb")
	var in map[string]any
	if r.Method == http.MethodPost && !assert.NoError(g.t, json.NewDecoder(r.Body).Decode(&in)) {
		return
	}
	switch {
	case !found:
		answer(http.StatusNotFound, map[string]any{"message": "404 Project Not Found"})
	case path == "/merge_requests" && r.Method == http.MethodGet:
		answer(http.StatusOK, append([]map[string]any{}, g.opened...))
	case path == "/merge_requests" && r.Method == http.MethodPost:
		in["iid"], in["state"], in["web_url"] = 1, "opened", "https://gitlab.test/acme/apps/web/-/merge_requests/1"
		g.opened = append(g.opened, in)
		panic(http.ErrAbortHandler) // it is opened, and the hub does not learn of it
	case path == "/merge_requests/1/notes" && r.Method == http.MethodGet:
		answer(http.StatusOK, []any{})
	case path == "/merge_requests/1/notes" && r.Method == http.MethodPost:
		body, _ := in["body"].(string)
		g.notes = append(g.notes, body)
		answer(http.StatusCreated, map[string]any{"id": 31, "body": body, "you_sent": r.Header.Get("Private-Token")})
	default:
		answer(http.StatusNotFound, map[string]any{"message": "404 Not found"})
	}
}

// An agent clones from GitLab, pushes a branch, opens a merge request and comments on it, with
// one token that stays in the hub.
func TestAnAgentOpensAMergeRequestOfGitLab(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	bare := filepath.Join(root, "acme", "apps", "web.git")
	g := &gitLab{t: t, backend: newBackend(t, root, bare)}
	o := newOrigin(t, "10.98.7.4", g.serve)
	f := harness.NewOn(t, "--provider-allow", "10.98.0.0/16,127.0.0.0/8")
	f.StartNode()
	f.StartWorker()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(gitLabToken), 0o600))
	f.CLI(0, "credential", "create", "gitlab", "--kind", "gitlab", "--base-url", o.url()+gitLabPath, "--host", o.host, "--port", o.port,
		"--private", "--roots", o.roots, "--agent", "pusher", "--value-file", file)
	f.Persona("pusher", `
turns:
  - text: I work.
    calls:
      - tool: shell_exec
        arguments:
          command: |
            set -e
            git clone -q `+o.url()+gitLabPath+`/acme/apps/web.git web && cd web
            git config user.name Robot && git config user.email robot@example.com
            git checkout -q -b deckhand/fix && echo fixed > fix.txt && git add . && git commit -q -m "fix the login"
  - text: I open it.
    calls:
      - {tool: git_push, arguments: {ref: deckhand/fix, path: web}}
      - {tool: pull_request_open, arguments: {repository: acme/apps/web, head: deckhand/fix, base: main, title: Fix the login, body: "It was broken.", draft: true}}
      - {tool: pull_request_comment, arguments: {repository: acme/apps/web, number: 1, body: "Please review."}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "pushed"}}
`, "mode: autonomous", "approvals: {categories: []}", "credentials: [{name: gitlab, push: [\"refs/heads/deckhand/* create,update\"]}]")
	id := f.Submit("pusher")
	f.Ended(id)
	var steps []struct{ ID, Tool, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 5)
	pushed, err := exec.Command("git", "-C", bare, "show", "deckhand/fix:fix.txt").CombinedOutput()
	require.NoError(t, err, "%s: %s: %s", pushed, steps[0].Observation, steps[1].Observation)
	assert.Equal(t, "fixed\n", string(pushed))
	assert.Contains(t, steps[2].Observation, "https://gitlab.test/acme/apps/web/-/merge_requests/1")
	assert.Contains(t, steps[3].Observation, "commented on")
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Len(t, g.opened, 1, "it was looked for, and not opened twice")
	assert.Equal(t, "It was broken.\n\n<!-- deckhand:"+steps[2].ID+" -->", g.opened[0]["description"])
	assert.Equal(t, "Draft: Fix the login", g.opened[0]["title"])
	assert.Equal(t, []string{"Please review.\n\n<!-- deckhand:" + steps[3].ID + " -->"}, g.notes)
	for _, s := range steps {
		assert.NotContains(t, s.Observation, gitLabToken)
	}
	for _, r := range o.seen() {
		if strings.Contains(r.URL.Path, "/api/") {
			assert.Empty(t, r.Header.Get("Authorization"), "the API takes it in its own header only")
		}
	}
}
