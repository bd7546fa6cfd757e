package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// Every expression of the dashboard and of the recording rules has a value, and none of
// the rules fails, when a real Prometheus scrapes a hub, a worker and a node that have
// done something.
func TestEveryPanelHasData(t *testing.T) {
	t.Parallel()
	if os.Getenv(jailtest.EnvSoak) == "" {
		t.Skip("it takes minutes: set " + jailtest.EnvSoak + "=1")
	}
	call := func(id, tool, arguments string) anthropictest.Answer {
		return anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: tool, ID: id, Input: arguments}}}
	}
	// A task runs two commands, for each of which it needs a person's approval, and is done.
	provider := anthropictest.New(t, func(req anthropictest.Request) anthropictest.Answer {
		switch req.Number % 3 {
		case 1:
			return call(fmt.Sprintf("toolu_%d", req.Number), "shell_exec", `{"command":"seq 100"}`)
		case 2:
			return call(fmt.Sprintf("toolu_%d", req.Number), "shell_exec", `{"command":"rm -rf ./build"}`)
		default:
			return call(fmt.Sprintf("toolu_%d", req.Number), "complete_task", `{"summary":"done"}`)
		}
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/", provider)
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	f := harness.NewOn(t, "--metrics-listen", "127.0.0.1:0")
	node := f.StartNodeIn(f.NodeDir, "--metrics-listen", "127.0.0.1:0")
	worker := f.StartWorker("--metrics-listen", "127.0.0.1:0")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	f.CLI(0, "provider", "connect", "anthropic", "--base-url", front.URL, "--key-file", write("key", "sk-ant-test-0123456789abcdef0123\n"))
	f.CLI(0, "agent", "apply", "-f", write("tidier.md", `---
name: tidier
description: For tests.
provider: anthropic
model: claude-sonnet-4-5
mode: supervised
tools: [shell_exec, complete_task]
---
Tidy up.
`))

	targets := func(job string, p *harness.Process) string {
		return fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, metricsAddress(t, p))
	}
	rulesDir, err := filepath.Abs(folder)
	require.NoError(t, err)
	config := write("prometheus.yml", "global: {scrape_interval: 1s, evaluation_interval: 1s}\nscrape_configs:\n"+
		targets("deckhand-hub", f.Hub)+targets("deckhand-worker", worker)+targets("deckhand-node", node)+
		fmt.Sprintf("rule_files: [%q, %q]\n", filepath.Join(rulesDir, "alerts.yaml"), filepath.Join(rulesDir, "recording.yaml")))
	prometheus := startPrometheus(t, config)

	for range 3 {
		id := f.Submit("tidier")
		last := ""
		for range 2 {
			last = f.Item(id, last)
			f.CLI(0, "inbox", "approve", last)
		}
		f.Ended(id)
		require.Equal(t, "TASK_STATE_SUCCEEDED", f.Task(id).State)
		time.Sleep(5 * time.Second) // rates need figures that differ between scrapes
	}
	for _, expr := range expressions(t) {
		waittest.Until(t, 90*time.Second, expr+" to have a value", func() bool { return prometheus.query(expr) > 0 })
	}
	var groups struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	prometheus.get("/api/v1/rules", nil, &groups)
	count := 0
	for _, g := range groups.Data.Groups {
		for _, r := range g.Rules {
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
			count++
		}
	}
	require.Equal(t, len(rules(t, "alerts.yaml"))+len(rules(t, "recording.yaml")), count)
}

// expressions returns those of all panels and recording rules.
func expressions(t *testing.T) (out []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile(filepath.Join(folder, "grafana.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &board))
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out = append(out, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	for _, r := range rules(t, "recording.yaml") {
		out = append(out, r.Record)
	}
	require.Greater(t, len(out), 40)
	return out
}

// metricsAddress returns where a process serves its metrics.
func metricsAddress(t *testing.T, p *harness.Process) (address string) {
	t.Helper()
	waittest.Until(t, 30*time.Second, "a process to serve metrics", func() bool {
		_, after, _ := strings.Cut(p.Output.String(), `"@message":"serving metrics"`)
		_, after, _ = strings.Cut(after, `"address":"`)
		address, _, _ = strings.Cut(after, `"`)
		return address != ""
	})
	return address
}

type server struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, config string) server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // its port is used again at once
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	cmd := exec.Command(filepath.Join(tools(t), "prometheus"), "--config.file", config, //nolint:noctx // ended below
		"--storage.tsdb.path", t.TempDir(), "--web.listen-address", address)
	output := &harness.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
	s := server{t, "http://" + address}
	waittest.Until(t, 30*time.Second, "Prometheus to be ready", func() bool {
		res, err := http.Get(s.url + "/-/ready") //nolint:noctx // of the test's own server
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return s
}

func (s server) get(path string, values url.Values, into any) {
	s.t.Helper()
	res, err := http.Get(s.url + path + "?" + values.Encode()) //nolint:noctx // of the test's own server
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode, "%s", data)
	require.NoError(s.t, json.Unmarshal(data, into))
}

// query returns how many series an expression has now.
func (s server) query(expr string) int {
	s.t.Helper()
	var out struct {
		Data struct{ Result []json.RawMessage }
	}
	s.get("/api/v1/query", url.Values{"query": {expr}}, &out)
	return len(out.Data.Result)
}
