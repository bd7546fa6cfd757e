package tool

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// An agent searches with the connected engine, over its node's network; the key is in no
// place that the jail, the record or a log has. Before an engine is connected the agent
// gets an error that says so, and its task continues.
func TestAnAgentSearchesTheWeb(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	const key = "searx-key-abcdefgh01234567"
	var asked []string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("q")+" "+r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"results":[{"title":"Leases <b>explained</b>","url":"https://docs.example.com/leases","content":"A lease ends by itself."}]}`)
	}))
	defer engine.Close()
	// The places where a command in the jail could see the key: searching them is known
	// as dangerous.
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("dangerous: {credentials: allow}\n"), 0o600))
	f.CLI(0, "policy", "apply", rules)
	const script = `
turns:
  - text: I search.
    calls:
      - {tool: web_search, arguments: {query: "how do leases end", results: 3}}
      - {tool: shell_exec, arguments: {command: "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; ls -la /tmp /workspace; grep -r searx-key /tmp /workspace; true"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "searched"}}
`
	type step struct {
		ID, Observation, ErrorCode string
		Outcome                    struct {
			Engine string
			Egress struct{ Hosts []map[string]any }
		}
	}
	run := func() (id string, steps []step) {
		f.Persona("seeker", script, "mode: autonomous", "egress: {}")
		id = f.Submit("seeker")
		f.Ended(id)
		f.JSON(&steps, "task", "steps", id)
		require.Len(t, steps, 3)
		return id, steps
	}
	_, steps := run()
	require.Equal(t, "AGENT_025", steps[0].ErrorCode)
	require.Contains(t, steps[0].Observation, "no search engine is connected: deckhand provider connect NAME, with one of searxng, brave, exa, serpapi")
	require.Empty(t, asked)

	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	f.CLI(0, "provider", "connect", "searxng", "--base-url", engine.URL, "--key-file", file)
	require.Equal(t, []string{"deckhand Bearer " + key}, asked, "the key was tried")
	id, steps := run()
	require.Equal(t, "how do leases end Bearer "+key, asked[1])
	require.Contains(t, steps[0].Observation, "found by searxng:\n\n1. Leases explained\n   https://docs.example.com/leases\n   A lease ends by itself.")
	require.Equal(t, "searxng", steps[0].Outcome.Engine)
	require.Equal(t, strings.TrimPrefix(engine.URL, "http://"), steps[0].Outcome.Egress.Hosts[0]["host"])
	require.Greater(t, steps[0].Outcome.Egress.Hosts[0]["received_bytes"], 100.0)
	require.Greater(t, steps[0].Outcome.Egress.Hosts[0]["sent_bytes"], 50.0)
	for what, text := range map[string]string{
		"the steps": fmt.Sprint(steps), "the history": f.CLI(0, "task", "watch", id, "-o", "json").Out,
		"the list": f.CLI(0, "provider", "list", "-o", "json").Out, "the hub's log": f.Hub.Output.String(),
	} {
		require.NotContains(t, text, key, what)
	}

	engine.Close()
	_, steps = run()
	require.Equal(t, "AGENT_004", steps[0].ErrorCode)
	require.Contains(t, steps[0].Observation, "cannot be reached from the node")
}
