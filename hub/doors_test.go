package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// outcome is what a door answers: "" or a code of ErrorInfo, the correlation id, and after
// how many seconds to try again.
type outcome struct{ code, correlation, again string }

// through are the doors by which a task is read and watched, and the procedure that each one
// calls. A door sends the headers, and reads until it knows that it is admitted.
var through = map[string]struct {
	procedure string
	call      func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome
}{
	"RPC": {deckhandv1connect.TaskServiceGetTaskProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		res, body := restCall(t, http.MethodPost, h.URL()+deckhandv1connect.TaskServiceGetTaskProcedure, "", map[string]any{"taskId": task}, header)
		var failed struct {
			Code    string
			Details []struct {
				Debug struct{ Code string }
			}
		}
		_ = json.Unmarshal(body, &failed)
		out := outcome{code: failed.Code, correlation: res.Header.Get(logging.CorrelationHeader), again: res.Header.Get("Retry-After")}
		for _, d := range failed.Details {
			if d.Debug.Code != "" {
				out.code = d.Debug.Code
			}
		}
		return out
	}},
	"REST": {deckhandv1connect.TaskServiceGetTaskProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		return ofProblem(restCall(t, http.MethodGet, h.URL()+"/v1/tasks/"+task, "", nil, header))
	}},
	"MCP": {deckhandv1connect.TaskServiceGetTaskProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		status, body := rawMCP(t, h.URL(), header, "tools/call", map[string]any{"name": "task_get", "arguments": map[string]any{"task_id": task}})
		var said struct {
			Result struct {
				IsError bool
				Meta    map[string]struct{ Code string } `json:"_meta"`
			}
		}
		for line := range strings.Lines(body) { // of a stream, or the only one
			_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &said)
		}
		out := outcome{code: said.Result.Meta["deckhand.sh/error"].Code}
		if said.Result.IsError && out.code == "" {
			out.code = "an error without a code of its own"
		}
		if status >= http.StatusBadRequest {
			out.code = http.StatusText(status)
		}
		return out
	}},
	"Watch": {deckhandv1connect.EventServiceWatchProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(20*time.Second))
		defer cancel()
		ctx, info := connect.NewClientContext(ctx)
		for name, values := range header {
			info.RequestHeader()[name] = values
		}
		stream, err := h.Client(t, "").Events.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{task}})
		if err == nil {
			for stream.Receive() {
			}
			err = stream.Err()
			_ = stream.Close()
		}
		var failed *connect.Error
		if !errors.As(err, &failed) {
			require.NoError(t, err)
			return outcome{}
		}
		return outcome{code: codeOf(err), again: failed.Meta().Get("Retry-After")}
	}},
	"server-sent events": {deckhandv1connect.EventServiceWatchProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		return ofProblem(restCall(t, http.MethodGet, h.URL()+"/v1/events?follow=false&task="+task, "", nil, header))
	}},
	"WebSocket": {deckhandv1connect.EventServiceWatchProcedure, func(t *testing.T, h *hubtest.Hub, task string, header http.Header) outcome {
		t.Helper()
		conn, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.URL(), "http")+"/v1/tasks/"+task+"/updates?follow=false", &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			body, _ := io.ReadAll(res.Body)
			return ofProblem(res, body)
		}
		defer conn.CloseNow()
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}
		require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), "%v", err)
		return outcome{correlation: res.Header.Get(logging.CorrelationHeader)}
	}},
}

// ofProblem returns the outcome of a response of REST.
func ofProblem(res *http.Response, body []byte) outcome {
	var p struct{ Code string }
	if res.StatusCode >= http.StatusBadRequest {
		_ = json.Unmarshal(body, &p)
	}
	return outcome{code: p.Code, correlation: res.Header.Get(logging.CorrelationHeader), again: res.Header.Get("Retry-After")}
}

// codeOf returns the code of an error as ErrorInfo has it.
func codeOf(err error) string {
	if e := fault.As(fault.FromConnect(err)); e != nil && e.Code != "" {
		return string(e.Code)
	}
	return connect.CodeOf(err).String()
}

// What stands in front of an RPC stands in front of each door to it: who calls is known, the
// rate and the access rules are those of the RPC, calls have the caller's id and are counted.
func TestEveryDoorHasTheSameGuards(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.Registry, cfg.TrustedProxies = prometheus.NewRegistry(), "127.0.0.1"
	r := newRig(t, hubtest.Start(t, cfg), nil)
	task := r.submit("walker").GetId()
	token := func(name string) string {
		return do(t, r.user.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: name}).GetSecret()
	}
	from := func(token, address string) http.Header {
		return http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {address}, logging.CorrelationHeader: {"corr_of_" + strings.ReplaceAll(address, ".", "_")}}
	}
	good := token("good")
	counted := func(procedure string) (n float64) {
		families, err := cfg.Registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if family.GetName() == "deckhand_hub_api_requests_total" && label.GetName() == "procedure" && strings.HasSuffix(procedure, label.GetValue()) {
						n += m.GetCounter().GetValue()
					}
				}
			}
		}
		return n
	}
	address := 0
	next := func() string { address++; return fmt.Sprintf("10.1.2.%d", address) }
	for name, door := range through {
		before := counted(door.procedure)
		at := next()
		got := door.call(t, r.Hub, task, from(good, at))
		require.Empty(t, got.code, "%s is open", name)
		if got.correlation != "" {
			require.Equal(t, "corr_of_"+strings.ReplaceAll(at, ".", "_"), got.correlation, name)
		}
		require.GreaterOrEqual(t, counted(door.procedure), before+1, "%s is counted as %s", name, door.procedure)
		require.NotEmpty(t, door.call(t, r.Hub, task, from("dhu_made_up", next())).code, "%s with a made-up token", name)
		require.NotEmpty(t, door.call(t, r.Hub, "task_none", from(good, next())).code, "%s to what there is not", name)
	}

	// Access rules of a procedure, and of everything.
	local := r.user
	for _, what := range []string{"TaskService/GetTask", "EventService", "*"} {
		do(t, local.Access.SetAccessRule, &deckhandv1.SetAccessRuleRequest{What: what, Networks: []string{"192.0.2.0/24"}, Force: true})
		for name, door := range through {
			concerned := what == "*" || strings.Contains(door.procedure, what)
			got := door.call(t, r.Hub, task, from(good, next())).code
			require.Equal(t, concerned, got != "", "%s with a rule for %s: %s", name, what, got)
		}
		do(t, local.Access.DeleteAccessRule, &deckhandv1.DeleteAccessRuleRequest{What: what})
	}
}

// The rate of a token is that of all doors together, and each says when to try again.
func TestEveryDoorHasTheRateOfTheToken(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.APIRate, cfg.TrustedProxies = 1, "127.0.0.1"
	h := hubtest.Start(t, cfg)
	admin := via(t, h, h.AdminToken, "10.0.0.200")
	do(t, admin.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Filename: "walker.md", Markdown: scripted("walker"), Script: "turns: []\n"})
	task := do(t, admin.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "go on"}).GetTask().GetId()
	s, i := openStore(t, h), 0
	for name, door := range through {
		i++
		token := userToken(t, s, "org_default", fmt.Sprintf("user-%d", i), "admin")
		header := http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {fmt.Sprintf("10.0.1.%d", i)}}
		// Another door uses it up, and this one is closed as well.
		var got outcome
		for n := 0; n < 100 && got.code == ""; n++ {
			through["REST"].call(t, h, task, header)
			through["REST"].call(t, h, task, header)
			got = door.call(t, h, task, header)
		}
		require.Contains(t, []string{"AGENT_011", http.StatusText(http.StatusTooManyRequests)}, got.code, name)
		if name != "MCP" { // the tool's error says it in its text
			require.Equal(t, "1", got.again, name)
		}
	}
}

// A hub that stops sends the readers of every stream elsewhere, and says so.
func TestEveryStreamIsToldThatTheHubStops(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker").GetId()
	bearer := http.Header{"Authorization": {"Bearer " + r.AdminToken}}
	watch, err := r.user.Events.Watch(t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{task}, Follow: true, FromNow: true})
	require.NoError(t, err)
	require.True(t, watch.Receive())
	sse, res := openSSE(t, r.URL()+"/v1/events?after=now&task="+task, bearer)
	require.Equal(t, http.StatusOK, res.StatusCode)
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.URL(), "http")+"/v1/tasks/"+task+"/updates?after=now", &websocket.DialOptions{HTTPHeader: bearer})
	require.NoError(t, err)
	defer conn.CloseNow()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop()
	}()
	for watch.Receive() {
	}
	require.True(t, fault.Is(fault.FromConnect(watch.Err()), fault.Unavailable), "%v", watch.Err())
	e, ok := sse.next()
	for ok && e.name != "problem" {
		e, ok = sse.next()
	}
	require.True(t, ok, "it is told")
	require.Contains(t, e.data, "the hub is stopping")
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err), "%v", err)
	select {
	case <-stopped:
	case <-time.After(waittest.Limit(30 * time.Second)):
		require.Fail(t, "it does not stop")
	}
}
