package credential

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// GitHub's command line works as it is with a credential: it has a placeholder for a token, and
// the server gets the real one, from REST, from GraphQL and from a request that changes something.
func TestGitHubsCommandLineWorks(t *testing.T) {
	t.Parallel()
	const token = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"
	o := newOrigin(t, "10.98.9.4", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"message":"Bad credentials"}`)
			return
		}
		switch body, _ := io.ReadAll(r.Body); r.Method + " " + r.URL.Path {
		case "GET /api/v3/repos/acme/web":
			_, _ = io.WriteString(w, `{"full_name":"acme/web"}`)
		case "POST /api/v3/repos/acme/web/issues":
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"number":7,"body":%q}`, body)
		case "POST /api/graphql":
			_, _ = io.WriteString(w, `{"data":{"repository":{"description":"the shop"}}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"Not Found"}`)
		}
	})
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	f.CLI(0, "credential", "create", "github", "--kind", "bearer", "--host", o.host, "--port", o.port, "--roots", o.roots, "--private",
		"--path", "/api/**", "--path", "!/api/v3/repos/{owner}/{repo}/keys/**", "--variable", "GH_ENTERPRISE_TOKEN", "--agent", "caller", "--value-file", file)
	call := func(command string) string {
		return "      - tool: shell_exec\n        arguments:\n          command: >-\n            export GH_HOST=" + o.host + ":" + o.port + " GH_CONFIG_DIR=/tmp/gh; " + command + "\n"
	}
	f.Persona("caller", "turns:\n  - text: I call.\n    calls:\n"+
		call("gh api repos/acme/web --jq .full_name")+
		call("gh api repos/acme/web/issues -f title=broken --jq '.number'")+
		call("gh repo view "+o.host+":"+o.port+"/acme/web --json description --jq .description")+
		call("gh api repos/acme/web/keys")+
		call("env | grep GH_; cat /tmp/gh/* 2>/dev/null; true")+
		"  - text: All done.\n    calls:\n      - {tool: complete_task, arguments: {summary: called}}\n",
		"mode: autonomous", "approvals: {categories: []}", "credentials: [github]")
	id := f.Submit("caller")
	f.Ended(id)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 6)
	for i, want := range []string{"acme/web", "7", "the shop", "the credential github may not be used for GET /api/v3/repos/acme/web/keys", "GH_ENTERPRISE_TOKEN="} {
		assert.Contains(t, steps[i].Observation, want, "step %d", i)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.requests {
		assert.Equal(t, []string{"Bearer " + token}, r.Header.Values("Authorization"), "%s %s", r.Method, r.URL.Path)
		assert.NotContains(t, r.URL.Path, "/keys")
	}
	for _, s := range steps {
		assert.False(t, strings.Contains(s.Observation, token))
	}
}
