package tool

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// A persona's egress rules apply in its jail; a refused connection is reported to the
// agent with the rule, and is in the step, the history and the audit log. A persona that
// is applied again is in force with the next task, in the same jail.
func TestEgressIsWhatThePersonaSays(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
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
		f.Persona("fetcher", script, "mode: autonomous", egress)
		id = f.Submit("fetcher")
		f.Ended(id)
		f.JSON(&steps, "task", "steps", id)
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
	require.Contains(t, f.CLI(0, "task", "steps", id, "-o", "wide").Out, "files.example.com:80")
	require.Contains(t, f.CLI(0, "task", "watch", id).Out, "no rule allows files.example.com:80; the persona would have to say egress:")
	var entries []struct{ Action, ObjectID, Reason string }
	f.JSON(&entries, "audit", "list")
	found := 0
	for _, e := range entries {
		if e.Action == "egress.refused" && strings.HasPrefix(e.ObjectID, "step_") {
			found++
		}
	}
	require.Equal(t, 3, found)
}

// listenAt listens on an address that is the machine's for the time of the test:
// programs never ask a proxy for a loopback address.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	ip := func(verb string) {
		out, err := exec.Command("ip", "addr", verb, address+"/32", "dev", "lo").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	ip("add")
	t.Cleanup(func() { ip("del") })
	l, err := net.Listen("tcp", address+":0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Requests by tool, from the jail and by the node's egress, with caps on
// what comes back.
func TestRequestsOfAgentsLeaveByTheNode(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	l := listenAt(t, "10.213.78.1")
	server := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/large" {
			body = []byte(strings.Repeat("large ", 100_000))
		}
		_, _ = io.WriteString(w, r.Method+" with "+string(body))
	})}}
	server.Start()
	defer server.Close()
	to := "http://" + l.Addr().String()
	f.Persona("caller", `
turns:
  - text: I ask.
    calls:
      - {tool: http_get, arguments: {url: "`+to+`/large", max_bytes: 1000}}
      - {tool: http_post, arguments: {url: "`+to+`/", body: "{\"n\":1}"}}
      - {tool: http_put, arguments: {url: "`+to+`/", body: "two"}}
      - {tool: http_download, arguments: {url: "`+to+`/large", path: "got/large.txt"}}
      - {tool: http_download, arguments: {url: "`+to+`/large", path: "got/other.txt", max_file_bytes: 1000}}
      - {tool: http_get, arguments: {url: "http://files.example.com/"}}
      - {tool: shell_exec, arguments: {command: "wc -c got/*"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "asked"}}
`, "mode: autonomous", `egress: {allow: ["`+l.Addr().String()+`"]}`)
	id := f.Submit("caller")
	f.Ended(id)
	var steps []struct {
		State, Observation string
		Outcome            map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	require.Contains(t, steps[0].Observation, "HTTP 200 OK")
	require.Contains(t, steps[0].Observation, "have all of it with http_download")
	require.Less(t, len(steps[0].Observation), 1200)
	require.Contains(t, steps[1].Observation, `POST with {"n":1}`)
	require.Contains(t, steps[2].Observation, "PUT with two")
	require.Contains(t, steps[3].Observation, "saved got/large.txt: 600009 bytes")
	require.EqualValues(t, 2, steps[3].Outcome["files_changed"], "the file and its folder")
	require.Equal(t, "STEP_STATE_FAILED", steps[4].State)
	require.Contains(t, steps[4].Observation, "raise max_file_bytes")
	require.Contains(t, steps[5].Observation, "error AGENT_016: connections out of the jail were refused:\n- GET: no rule allows files.example.com:80")
	require.Contains(t, steps[6].Observation, "600009 got/large.txt\n")
	require.NotContains(t, steps[6].Observation, "other")
}

// An MCP server elsewhere is spoken with from the jail and by the node's
// egress, which the persona must allow.
func TestAnMCPServerElsewhere(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	far := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	type saying struct {
		Text string `json:"text"`
	}
	mcp.AddTool(far, &mcp.Tool{Name: "echo", Description: "Says it again"}, func(_ context.Context, _ *mcp.CallToolRequest, in saying) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "far away: " + in.Text}}}, nil, nil
	})
	l := listenAt(t, "10.213.78.2")
	server := &httptest.Server{Listener: l, Config: &http.Server{
		ReadHeaderTimeout: time.Minute, Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return far }, nil),
	}}
	server.Start()
	defer func() {
		server.CloseClientConnections()
		server.Close()
	}()
	f.Persona("distant", `
turns:
  - text: I ask.
    calls:
      - {tool: mcp__far__echo, arguments: {text: hello}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "asked"}}
`, "mode: autonomous", `egress: {allow: ["`+l.Addr().String()+`"]}`, `mcp: [{name: far, url: "http://`+l.Addr().String()+`/mcp"}]`)
	id := f.Submit("distant")
	succeeds(f, id)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Equal(t, "mcp__far__echo", steps[0].Tool)
	require.Equal(t, "far away: hello", steps[0].Observation)
}
