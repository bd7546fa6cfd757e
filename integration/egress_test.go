package integration

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// H8: what a persona says of egress holds in its jail; what is refused is told to
// the agent with the rule, and is in the step, the history and the audit. A
// persona that is applied anew is in force with the next task, in the same jail.
func TestEgressIsWhatThePersonaSays(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "answer to "+r.URL.Path)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	// The jail's own loopback is reached without the proxy, unless one is asked to.
	fetch := func(url string) string {
		return `      - {tool: shell_exec, arguments: {command: "no_proxy= NO_PROXY= /usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"` +
			url + `\", timeout=60).read().decode())'"}}` + "\n"
	}
	script := `
turns:
  - text: I fetch.
    calls:
` + fetch("http://127.0.0.1:"+port+"/first") + fetch("http://files.example.com/x") + `  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "fetched"}}
`
	type step struct {
		ID, Observation string
		Outcome         struct {
			Egress struct {
				Hosts   []map[string]any
				Refused []map[string]any
			}
		}
	}
	run := func(egress string) (id string, steps []step) {
		f.persona("fetcher", script, "mode: autonomous", egress)
		id = f.submit("fetcher")
		eventually(t, 90*time.Second, "the task to end", func() bool { return f.task(id).State == "TASK_STATE_SUCCEEDED" })
		f.json(&steps, "task", "steps", id)
		require.Len(t, steps, 3)
		return id, steps
	}

	_, steps := run("egress: {presets: [git]}")
	require.Contains(t, steps[0].Observation, "error AGENT_016: connections out of the jail were refused:\n- GET: no rule allows 127.0.0.1:"+port)
	require.Contains(t, steps[1].Observation, `the persona would have to say egress: {allow: ["files.example.com"]}`)

	id, steps := run(`egress: {allow: ["127.0.0.1:` + port + `"]}`)
	require.Contains(t, steps[0].Observation, "answer to /first")
	require.Equal(t, "127.0.0.1:"+port, steps[0].Outcome.Egress.Hosts[0]["host"])
	require.Greater(t, steps[0].Outcome.Egress.Hosts[0]["received_bytes"], 100.0)
	require.Empty(t, steps[0].Outcome.Egress.Refused)
	require.Contains(t, steps[1].Observation, "HTTP Error 403")
	require.Equal(t, "files.example.com:80", steps[1].Outcome.Egress.Refused[0]["host"])
	require.Contains(t, f.cli(0, "task", "steps", id, "-o", "wide").out, "files.example.com:80")
	require.Contains(t, f.cli(0, "task", "watch", id).out, "no rule allows files.example.com:80; the persona would have to say egress:")
	var entries []struct{ Action, ObjectID, Reason string }
	f.json(&entries, "audit", "list")
	found := 0
	for _, e := range entries {
		if e.Action == "egress.refused" && strings.HasPrefix(e.ObjectID, "step_") {
			found++
		}
	}
	require.Equal(t, 3, found)
}
