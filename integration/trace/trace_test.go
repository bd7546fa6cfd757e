package trace

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// collected are the spans that a collector got, each with its service's name.
type collected struct {
	mu    sync.Mutex
	spans []span
}

type span struct {
	*trace.Span

	service string
}

func (s span) id() string     { return hex.EncodeToString(s.GetSpanId()) }
func (s span) parent() string { return hex.EncodeToString(s.GetParentSpanId()) }
func (s span) trace() string  { return hex.EncodeToString(s.GetTraceId()) }

// attribute returns an attribute as text; "" if it is missing.
func (s span) attribute(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		if n, ok := a.GetValue().GetValue().(*common.AnyValue_IntValue); ok {
			return strconv.FormatInt(n.IntValue, 10)
		}
		return a.GetValue().GetStringValue()
	}
	return ""
}

// newCollector starts an OpenTelemetry collector that accepts OTLP/HTTP.
func newCollector(t *testing.T) (url string, got *collected) {
	t.Helper()
	got = &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		data, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &req) != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		got.add(&req)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func (c *collected) add(req *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		service := ""
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span{s, service})
			}
		}
	}
}

// all returns the spans of a name.
func (c *collected) all(name string) (out []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			out = append(out, s)
		}
	}
	return out
}

// named returns the spans of a trace by name.
func (c *collected) named(traceID, name string) []span {
	return slices.DeleteFunc(c.all(name), func(s span) bool { return s.trace() != traceID })
}

const tracedScript = `turns:
  - text: I look.
    calls:
      - tool: shell_exec
        arguments: {command: "echo parent=$TRACEPARENT"}
  - text: Done.
    calls:
      - {tool: complete_task, arguments: {summary: done}}
`

// One trace leads from the call that submits a task, over the worker that claims it, to
// the command in its jail, which gets its id; the node logs the id.
func TestOneTraceAcrossHubWorkerAndNode(t *testing.T) {
	t.Parallel()
	url, got := newCollector(t)
	f := harness.NewWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=200"})
	node := f.StartNode()
	f.StartWorker()
	f.Persona("traced", tracedScript)
	id := f.Submit("traced")
	f.Ended(id)
	log := f.CLI(0, "task", "logs", id).Out
	parent := regexp.MustCompile(`parent=00-([0-9a-f]{32})-([0-9a-f]{16})-01`).FindStringSubmatch(log)
	require.NotNil(t, parent, log)
	traceID, execID := parent[1], parent[2]

	spans := map[string]span{}
	for _, name := range []string{
		"deckhand.v1.TaskService/SubmitTask", "invoke_agent traced", "execute_tool shell_exec", "exec",
	} {
		waittest.Until(t, time.Minute, "the span "+name, func() bool { return len(got.named(traceID, name)) > 0 })
		require.Len(t, got.named(traceID, name), 1, name)
		spans[name] = got.named(traceID, name)[0]
	}
	submit, run, tool, exec := spans["deckhand.v1.TaskService/SubmitTask"], spans["invoke_agent traced"], spans["execute_tool shell_exec"], spans["exec"]
	require.Equal(t, "deckhand-hub", submit.service)
	require.Equal(t, "deckhand-worker", run.service)
	require.Equal(t, submit.id(), run.parent(), "the worker goes on with the submitter's trace")
	require.Equal(t, execID, exec.id(), "the command was told its own span")
	require.Equal(t, tool.id(), exec.parent())
	calls := got.named(traceID, "deckhand.v1.WorkerService/ExecuteStep")
	require.Len(t, calls, 2, "the worker's end and the hub's")
	require.True(t, slices.ContainsFunc(calls, func(s span) bool { return s.service == "deckhand-hub" && s.id() == tool.parent() }))
	require.Len(t, got.named(traceID, "chat scripted"), 2, "each turn")
	require.LessOrEqual(t, exec.GetStartTimeUnixNano(), exec.GetEndTimeUnixNano())
	require.GreaterOrEqual(t, exec.GetStartTimeUnixNano(), tool.GetStartTimeUnixNano())
	require.Contains(t, node.Output.String(), `"trace_id":"`+traceID+`"`, "the node's log")
	require.NotContains(t, strings.ToLower(node.Output.String()), "otlp")
}

// A model call is a span of the task's trace at the worker and, below it, in the hub's
// relay, with its cost; the provider does not get the trace.
func TestTheTraceOfAModelCall(t *testing.T) {
	t.Parallel()
	url, got := newCollector(t)
	provider := anthropictest.New(t, anthropictest.List(
		anthropictest.Answer{Status: http.StatusInternalServerError, ErrorType: "api_error", ErrorMessage: "oops"},
		anthropictest.Answer{
			Blocks: []anthropictest.Block{{Tool: "complete_task", ID: "toolu_1", Input: `{"summary":"done"}`}},
			Usage:  anthropictest.Usage{Input: 1000, Output: 100},
		}))
	f := harness.NewWith(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=200",
		"DECKHAND_ANTHROPIC_BASE_URL=" + provider.URL, "DECKHAND_ANTHROPIC_API_KEY=sk-ant-test",
	})
	f.StartNode()
	f.StartWorker()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "asker.md"), []byte(`---
name: asker
description: For tests.
provider: anthropic
model: claude-sonnet-5-5
limits: {iterations: 5}
tools: [complete_task]
---
Do it.
`), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
	id := f.Submit("asker")
	f.Ended(id)
	var relayed []span
	waittest.Until(t, time.Minute, "the relay's spans", func() bool {
		relayed = got.all("relay anthropic")
		return len(relayed) == 2
	})
	traceID := relayed[0].trace()
	require.Len(t, got.named(traceID, "deckhand.v1.TaskService/SubmitTask"), 1, "of the task's own trace")
	var chats []span
	waittest.Until(t, time.Minute, "the worker's spans", func() bool {
		chats = got.named(traceID, "chat claude-sonnet-5-5")
		return len(chats) == 2
	})
	for i, status := range []string{"500", "200"} {
		at := slices.IndexFunc(relayed, func(s span) bool { return s.attribute("http.response.status_code") == status })
		require.GreaterOrEqual(t, at, 0, "try %d, which is answered with %s", i+1, status)
		s := relayed[at]
		require.Equal(t, "deckhand-hub", s.service)
		require.Equal(t, traceID, s.trace())
		require.True(t, slices.ContainsFunc(chats, func(c span) bool { return c.service == "deckhand-worker" && c.id() == s.parent() }))
		require.Equal(t, "claude-sonnet-5-5", s.attribute("gen_ai.request.model"))
		require.Equal(t, status != "200", s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR)
		if status == "200" {
			require.Equal(t, "1000", s.attribute("gen_ai.usage.input_tokens"))
			require.Equal(t, "100", s.attribute("gen_ai.usage.output_tokens"))
		}
	}
	for _, req := range provider.Requests() {
		require.Empty(t, req.Header.Get("Traceparent"))
	}
}

// Without a collector, commands get no trace.
func TestNoTraceUnlessSomebodyCollects(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("traced", tracedScript)
	id := f.Submit("traced")
	f.Ended(id)
	require.Contains(t, f.CLI(0, "task", "logs", id).Out, "parent=\n")
}
