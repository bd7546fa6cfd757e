package trace

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// canaryKey is the key of a provider, of no shape that anybody would know, and
// with characters that encodings change.
const canaryKey = `canary/of+the"vault&8c1f07e2b6`

// canaryForms are what it is looked for as. Each is in none of the places where
// it was not put.
func canaryForms(t *testing.T) map[string]string {
	t.Helper()
	inJSON, err := json.Marshal(canaryKey)
	require.NoError(t, err)
	return map[string]string{
		"as it is": canaryKey, "JSON": strings.Trim(string(inJSON), `"`), "JSON of others": strings.ReplaceAll(canaryKey, `"`, `\"`),
		"a query": url.QueryEscape(canaryKey), "a path": url.PathEscape(canaryKey), "hex": hex.EncodeToString([]byte(canaryKey)),
		"base64": base64.StdEncoding.EncodeToString([]byte(canaryKey)), "base64 of URLs": base64.RawURLEncoding.EncodeToString([]byte(canaryKey)),
		// Of what an encoding leaves as it is.
		"a part of it": "8c1f07e2b6",
	}
}

// A canary key that is stored encrypted comes back in the environment of a jail, in a
// file that an agent reads, in a model's text and reasoning, in a tool's output, in
// errors, encoded, and split over the pieces of a stream. It is found in no table, log,
// stream, metric, trace or export, and in no prompt, except for the vault's encrypted
// values and the node's own disk.
func TestACanaryIsFoundNowhere(t *testing.T) {
	t.Parallel()
	collector, spans := newCollector(t)
	forms := canaryForms(t)
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	call := func(id, tool string, arguments map[string]any) anthropictest.Block {
		data, err := json.Marshal(arguments)
		require.NoError(t, err)
		return anthropictest.Block{Tool: tool, ID: id, Input: string(data)}
	}
	// What a model that knows the key does with it.
	all := "printf '%s\\n'"
	for what, form := range forms {
		if what != "a part of it" {
			all += " " + quote(form)
		}
	}
	split := fmt.Sprintf("printf %%s %s; sleep 0.3; printf %%s %s; sleep 0.3; printf '%%s\\n' %s", quote(canaryKey[:7]), quote(canaryKey[7:25]), quote(canaryKey[25:]))
	turns := []anthropictest.Answer{
		{Blocks: []anthropictest.Block{
			{Thinking: "The key is " + canaryKey + ", or " + forms["base64"] + ".", Signature: "sig"},
			{Text: "I have seen " + canaryKey + " and " + forms["hex"] + "."},
			call("toolu_1", "shell_exec", map[string]any{"command": "export KEY=" + quote(canaryKey) + "; env; " + all + "; " + all + " >&2"}),
			call("toolu_2", "shell_exec", map[string]any{"command": split + "; " + split + " >&2; echo " + quote(canaryKey) + " > dump; exit 3"}),
		}, Piece: 3},
		{Blocks: []anthropictest.Block{
			call("toolu_3", "file_write", map[string]any{"path": "notes.txt", "content": strings.Repeat("x", 100) + canaryKey + "\n" + forms["base64"]}),
			call("toolu_4", "file_read", map[string]any{"path": "notes.txt"}),
			call("toolu_5", "file_read", map[string]any{"path": "no-such-" + forms["hex"]}),
			call("toolu_6", "tool_"+forms["hex"], map[string]any{"k": canaryKey}),
			call("toolu_7", "file_search", map[string]any{"pattern": "x", "path": "."}),
			call("toolu_8", "manage_scratchpad", map[string]any{"action": "append", "text": "remember " + canaryKey}),
			call("toolu_9", "update_plan", map[string]any{"items": []any{map[string]any{"id": "1", "title": "use " + canaryKey}}}),
		}, Piece: 5},
		{Status: http.StatusServiceUnavailable, ErrorType: "overloaded_error", ErrorMessage: "key " + canaryKey + " of " + forms["a query"] + " is throttled", Header: map[string]string{"Retry-After": "0"}},
		{Blocks: []anthropictest.Block{call("toolu_10", "complete_task", map[string]any{"summary": "The key is " + canaryKey + ", " + forms["base64 of URLs"]})}, Piece: 4},
		{Status: http.StatusBadRequest, ErrorType: "invalid_request_error", ErrorMessage: "no such key: " + canaryKey + " (" + forms["hex"] + ")"},
	}
	watched := make(chan struct{})
	provider := anthropictest.New(t, func(req anthropictest.Request) anthropictest.Answer {
		<-watched
		a := anthropictest.Answer{Status: http.StatusBadRequest, ErrorType: "invalid_request_error", ErrorMessage: "no such key: " + canaryKey}
		if req.Number <= len(turns) {
			a = turns[req.Number-1]
		}
		if a.Header == nil {
			a.Header = map[string]string{}
		}
		a.Header["X-Echo"] = req.Header.Get("X-Api-Key")
		return a
	})
	// The provider's list of models, by which a key is tested.
	front := newModelsFront(t, provider)
	urls, heard := tapped(t)
	f := harness.NewWith(t, append(urls, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_BSP_SCHEDULE_DELAY=200"),
		"--metrics-listen", "127.0.0.1:0", "--log-level", "debug")
	node := f.StartNode()
	worker := f.StartWorker("--log-level", "debug")
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte(canaryKey+"\n"), 0o600))
	outputs := map[string]string{}
	said := func(name string, r harness.Result) {
		outputs[name+": output"], outputs[name+": errors"] = r.Out, r.Err
	}
	f.CLI(0, "destination", "create", "bus", "--nats")
	said("connect", f.CLI(0, "provider", "connect", "anthropic", "--base-url", front, "--key-file", key))
	rules := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("dangerous: {credentials: allow}\n"), 0o600))
	f.CLI(0, "policy", "apply", rules)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leaker.md"), []byte(`---
name: leaker
description: For tests.
provider: anthropic
model: claude-sonnet-4-5
limits: {iterations: 10}
tools: [shell_exec, file_read, file_write, file_search, manage_scratchpad, update_plan, complete_task]
workspace: {scope: agent}
---
Do it.
`), 0o600))
	f.CLI(0, "agent", "apply", "-f", filepath.Join(dir, "leaker.md"))

	id := f.Submit("leaker")
	seen := watchThinking(f, id)
	close(watched)
	waittest.Until(t, 2*time.Minute, "the task to end", func() bool {
		state := f.Task(id).State
		require.NotContains(t, []string{"TASK_STATE_FAILED", "TASK_STATE_PAUSED", "TASK_STATE_ESCALATED", "TASK_STATE_AWAITING_APPROVAL"}, state, f.CLI(0, "task", "steps", id).Out+f.Task(id).Reason)
		return state == "TASK_STATE_SUCCEEDED"
	})
	failed := f.Submit("leaker")
	waittest.Until(t, 2*time.Minute, "the other task to end", func() bool {
		state := f.Task(failed).State
		return state != "TASK_STATE_QUEUED" && state != "TASK_STATE_STARTING" && state != "TASK_STATE_RUNNING" && state != "TASK_STATE_WAITING"
	})
	var nodes []struct{ Name string }
	f.JSON(&nodes, "node", "list")
	nodeName := nodes[0].Name
	// A person's command, whose output is a file of the workspace.
	said("a person's command", f.CLI(0, "node", "exec", nodeName, "--agent", "leaker", "--", "sh", "-c", "cat dump notes.txt; cat notes.txt >&2"))

	cli := func(args ...string) harness.Result {
		return harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, args...)
	} // of a task that failed it fails
	for _, task := range []string{id, failed} {
		for _, format := range []string{"json", "yaml", "wide"} {
			said("task show "+format, cli("task", "show", task, "-o", format))
		}
		said("task steps", cli("task", "steps", task, "-o", "json"))
		said("task watch", cli("task", "watch", task, "-o", "json"))
		said("task logs", cli("task", "logs", task))
	}
	steps := f.Steps(id)
	require.GreaterOrEqual(t, len(steps), 7, "the model did all that it was to do")
	log := f.CLI(0, "task", "logs", steps[1].ID)
	said("the log of what was split", log)
	require.Equal(t, strings.Repeat("⟦secret"+strings.Repeat("*", len(canaryKey)-len("⟦secret⟧"))+"⟧\n", 2), log.Out, "masked, with as many bytes as it has")
	said("a receipt", f.CLI(0, "task", "receipt", id))
	said("a task's export", f.CLI(0, "task", "export", id))
	said("a task's terminal", f.CLI(0, "task", "export", id, "--format", "asciicast"))
	said("provider list", f.CLI(0, "provider", "list", "-o", "json"))
	waittest.Until(t, time.Minute, "the audit to be sealed", func() bool { return strings.Contains(f.CLI(0, "audit", "export").Out, "provider.connected") })
	said("audit export", f.CLI(0, "audit", "export"))
	said("audit list", f.CLI(0, "audit", "list", "-o", "json"))
	outputs["metrics of the hub"] = metricsOf(t, f.Hub)
	outputs["the bus"] = heard()
	outputs["a watch"] = seen()
	outputs["prompts"] = prompts(t, provider)
	require.Contains(t, outputs["prompts"], "⟦secret⟧", "the model saw that something was there")
	for name, p := range map[string]*harness.Process{"hub": f.Hub, "worker": worker, "node": node} {
		p.Stop(t)
		outputs["the log of the "+name] = p.Output.String()
		require.NotEmpty(t, p.Output.String())
	}
	outputs["traces"] = spans.text(t)
	require.NotEmpty(t, outputs["traces"])
	tables := dump(t, f.Database)
	require.NotEmpty(t, tables["credentials"])
	require.Contains(t, tables["steps"], "⟦secret⟧")
	for table, text := range tables {
		outputs["table "+table] = text
	}
	for where, text := range outputs {
		for what, form := range forms {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s has the canary (%s): ...%s...", where, what, text[max(0, i-150):min(len(text), i+100)])
			}
		}
	}
}

// newModelsFront returns the address of a provider that also has a list of models, for
// callers with the key.
func newModelsFront(t *testing.T, provider *anthropictest.Server) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != canaryKey {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.Handle("/", provider)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// dump returns every table row by row as text, bytes in full.
func dump(t *testing.T, database string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `SELECT table_schema || '.' || quote_ident(table_name), table_name FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	names := map[string]string{}
	var full, name string
	_, err = pgx.ForEachRow(rows, []any{&full, &name}, func() error { names[name] = full; return nil })
	require.NoError(t, err)
	require.Greater(t, len(names), 30)
	out := map[string]string{}
	for name, full := range names {
		var text string
		// bytea as latin-1, so that text in it is found too.
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(r::text || coalesce((
			SELECT string_agg(encode(decode(substr(v.value, 3), 'hex'), 'escape'), ' ') FROM jsonb_each_text(to_jsonb(r)) v WHERE v.value LIKE '\\x%'), ''), E'\n'), '')
			FROM `+full+` r`).Scan(&text), name)
		out[name] = text
	}
	return out
}

// tapped returns a bus for hub and workers, and a function that returns its traffic.
func tapped(t *testing.T) (env []string, heard func() string) {
	t.Helper()
	var cfg hub.Config
	hubtest.NewNATS(t).Use(&cfg)
	got := make(chan string, 100_000)
	var conns []*nats.Conn
	for _, url := range []config.Secret{cfg.NATSURL, cfg.NATSEventsURL} {
		conn, err := nats.Connect(url.Reveal())
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		_, err = conn.Subscribe(">", func(m *nats.Msg) { got <- m.Subject + " " + string(m.Data) })
		require.NoError(t, err)
		require.NoError(t, conn.Flush())
		conns = append(conns, conn)
	}
	env = []string{
		"DECKHAND_NATS_URL=" + cfg.NATSURL.Reveal(), "DECKHAND_NATS_EVENTS_URL=" + cfg.NATSEventsURL.Reveal(),
		"DECKHAND_NATS_WORKER_URL=" + cfg.NATSWorkerURL.Reveal(),
	}
	return env, func() string {
		for _, conn := range conns {
			require.NoError(t, conn.Flush())
		}
		var out strings.Builder
		for len(got) > 0 {
			out.WriteString(<-got + "\n")
		}
		for _, subject := range []string{"wake.", "events.", "lifecycle."} {
			require.Contains(t, out.String(), subject)
		}
		return out.String()
	}
}

// watchThinking watches a task with its thoughts, from now on.
func watchThinking(f *harness.Fleet, id string) (seen func() string) {
	f.T.Helper()
	token, err := os.ReadFile(filepath.Join(f.Dir, datadir.AdminTokenFile))
	require.NoError(f.T, err)
	client, err := sdk.New(sdk.Config{URL: f.URL(), Token: strings.TrimSpace(string(token))})
	require.NoError(f.T, err)
	stream, err := client.Events.Watch(f.T.Context(), &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true, Thinking: true})
	require.NoError(f.T, err)
	require.True(f.T, stream.Receive()) // it is live
	done := make(chan string, 1)
	go func() {
		out := stream.Msg().String()
		for stream.Receive() {
			out += stream.Msg().String()
			if stream.Msg().GetEvent().GetType() == "execution_completed" {
				break
			}
		}
		_ = stream.Close()
		done <- out
	}()
	return func() string {
		out := <-done
		require.NotEmpty(f.T, out)
		return out
	}
}

// prompts returns all that the provider was asked, but for its key.
func prompts(t *testing.T, provider *anthropictest.Server) string {
	t.Helper()
	var out strings.Builder
	for _, req := range provider.Requests() {
		require.Equal(t, canaryKey, req.Header.Get("X-Api-Key"), "the key is used")
		data, err := json.Marshal(req.Body)
		require.NoError(t, err)
		out.Write(data)
	}
	return out.String()
}

// text returns all spans as text.
func (c *collected) text(t *testing.T) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, s := range c.spans {
		data, err := protojson.Marshal(s.Span)
		require.NoError(t, err)
		out.Write(data)
	}
	return out.String()
}

// metricsOf returns a process's Prometheus metrics.
func metricsOf(t *testing.T, p *harness.Process) string {
	t.Helper()
	_, after, found := strings.Cut(p.Output.String(), `"@message":"serving metrics"`)
	require.True(t, found)
	_, after, _ = strings.Cut(after, `"address":"`)
	address, _, _ := strings.Cut(after, `"`)
	res, err := http.Get("http://" + address + "/metrics") //nolint:noctx // of the test's own hub
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(data), "deckhand_")
	return string(data)
}
