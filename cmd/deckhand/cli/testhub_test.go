package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// testToken is the only one that the test hub accepts.
const testToken = "dhu_testtesttesttesttest"

// TestMain gives the tests a home of their own, so that nothing on the machine
// is read or changed.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "deckhand-cli-test")
	if err != nil {
		panic(err)
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "DECKHAND_") || strings.HasPrefix(name, "XDG_") || strings.Contains(name, "COLOR") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("HOME", home)
	time.Local = time.UTC
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// testHub is a hub for one test: the real wire, real validation and real errors,
// with objects that the test puts there. Tasks end when the test says so.
type testHub struct {
	deckhandv1connect.UnimplementedAgentServiceHandler
	deckhandv1connect.UnimplementedTaskServiceHandler
	deckhandv1connect.UnimplementedEventServiceHandler
	deckhandv1connect.UnimplementedNodeServiceHandler
	deckhandv1connect.UnimplementedNodeExecServiceHandler
	deckhandv1connect.UnimplementedTerminalServiceHandler
	deckhandv1connect.UnimplementedNodeTelemetryServiceHandler
	deckhandv1connect.UnimplementedInboxServiceHandler
	deckhandv1connect.UnimplementedControlServiceHandler
	deckhandv1connect.UnimplementedAuditServiceHandler
	deckhandv1connect.UnimplementedTriggerServiceHandler
	deckhandv1connect.UnimplementedCredentialServiceHandler
	deckhandv1connect.UnimplementedDestinationServiceHandler
	deckhandv1connect.UnimplementedTokenServiceHandler
	deckhandv1connect.UnimplementedUserServiceHandler

	url string
	// watched is closed when the first Watch has sent all that is stored.
	watched     chan struct{}
	watchedOnce sync.Once

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at every change
	agents  []*deckhandv1.Agent
	applied []*deckhandv1.ApplyAgentRequest
	tasks   []*deckhandv1.Task
	events  map[string][]*deckhandv1.Event
	steps   map[string][]*deckhandv1.Step
	logs    map[string][]byte
	nodes   []*deckhandv1.Node
	inbox   []*deckhandv1.InboxItem
	// definition is the whole of what a decision has the beginning of.
	definition string
	execs      execs
	limits     *deckhandv1.TokenLimits
	control    control
	// last is the newest request of each kind.
	last map[string]proto.Message
	// cutLogs makes ReadLog break off after so many bytes, once.
	cutLogs int
	// script runs in the background when a task is submitted.
	script func(h *testHub, taskID string)
	// wrongTools makes ApplyAgent refuse, as the hub does with unknown tools.
	wrongTools bool
}

func newHub(t *testing.T) *testHub {
	t.Helper()
	h := &testHub{
		watched: make(chan struct{}), changed: make(chan struct{}), events: map[string][]*deckhandv1.Event{},
		steps: map[string][]*deckhandv1.Step{}, logs: map[string][]byte{}, last: map[string]proto.Message{},
	}
	options := connect.WithInterceptors(&guard{h}, validate.NewInterceptor())
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewAgentServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewTaskServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewEventServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewNodeServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewNodeExecServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewTerminalServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewNodeTelemetryServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewInboxServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewControlServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewAuditServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewTriggerServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewCredentialServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewDestinationServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewTokenServiceHandler(h, options))
	mux.Handle(deckhandv1connect.NewUserServiceHandler(h, options))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true) // for streams both ways
	server.Start()
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// guard is the hub's door: tokens in, faults out.
type guard struct{ h *testHub }

func check(header http.Header) error {
	if header.Get("Authorization") != "Bearer "+testToken {
		return fault.New(fault.Unauthenticated, "the token is unknown, expired or revoked")
	}
	return nil
}

func (g *guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := check(req.Header()); err != nil {
			return nil, fault.ToConnect(err)
		}
		if message, ok := req.Any().(proto.Message); ok {
			g.h.mu.Lock()
			g.h.last[string(message.ProtoReflect().Descriptor().Name())] = proto.Clone(message)
			g.h.mu.Unlock()
		}
		res, err := next(ctx, req)
		return res, fault.ToConnect(err)
	}
}

func (g *guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (g *guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := check(conn.RequestHeader()); err != nil {
			return fault.ToConnect(err)
		}
		return fault.ToConnect(next(ctx, conn))
	}
}

// change changes the hub's objects and wakes up watchers.
func (h *testHub) change(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *testHub) task(id string) (*deckhandv1.Task, error) {
	for _, task := range h.tasks {
		if strings.HasPrefix(task.GetId(), id) {
			return task, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no task %s", id).WithFix("see `deckhand task list`")
}

// emit appends an event to a task.
func (h *testHub) emit(taskID, kind string, payload map[string]any) {
	h.change(func() { h.append(taskID, kind, payload) })
}

func (h *testHub) append(taskID, kind string, payload map[string]any) {
	fields, err := structpb.NewStruct(payload)
	if err != nil {
		panic(err)
	}
	h.events[taskID] = append(h.events[taskID], &deckhandv1.Event{
		Seq: int64(len(h.events[taskID]) + 1), TaskId: taskID, Type: kind, Payload: fields,
		Time: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	})
}

// end moves a task to its last state.
func (h *testHub) end(taskID string, state deckhandv1.TaskState, with func(*deckhandv1.Task)) {
	h.change(func() {
		task, err := h.task(taskID)
		if err != nil {
			panic(err)
		}
		task.State = state
		task.FinishedAt = timestamppb.New(task.GetCreatedAt().AsTime().Add(34 * time.Second))
		if with != nil {
			with(task)
		}
		h.append(taskID, "state_changed", map[string]any{"to": strings.ToLower(strings.TrimPrefix(state.String(), "TASK_STATE_"))})
	})
}

func (h *testHub) ApplyAgent(_ context.Context, req *deckhandv1.ApplyAgentRequest) (*deckhandv1.ApplyAgentResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrongTools {
		return nil, fault.New(fault.Invalid, "%[1]s:5: unknown tool \"shel\"\n%[1]s:6: unknown tool \"fly\"", req.GetFilename())
	}
	if !req.GetDryRun() {
		h.applied = append(h.applied, req)
	}
	_, rest, _ := strings.Cut(req.GetMarkdown(), "name: ")
	name, _, _ := strings.Cut(rest, "\n")
	res := &deckhandv1.ApplyAgentResponse{
		Agent: &deckhandv1.Agent{Name: name, Version: 1, Provider: "anthropic", Model: "claude-test"}, Change: "created",
	}
	if strings.Contains(rest, "webhook: token") {
		res.Triggers = []*deckhandv1.AppliedTrigger{{
			Name: "hook", Change: "created", Kind: "webhook", Path: "/webhooks/trig_1", Verify: "token", Secret: "dhk_secret",
		}}
	}
	return res, nil
}

func (h *testHub) GetAgent(_ context.Context, req *deckhandv1.GetAgentRequest) (*deckhandv1.GetAgentResponse, error) {
	for _, agent := range h.agents {
		if agent.GetName() == req.GetAgentId() {
			return &deckhandv1.GetAgentResponse{Agent: agent, Version: &deckhandv1.AgentVersion{
				Version: max(req.GetVersion(), 1), Markdown: "---\nname: " + agent.GetName() + "\n---\nLook.\x1b]0;pwned\x07\n",
			}}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no agent %q", req.GetAgentId()).WithFix("see `deckhand agent list`")
}

func (h *testHub) ListAgents(context.Context, *deckhandv1.ListAgentsRequest) (*deckhandv1.ListAgentsResponse, error) {
	return &deckhandv1.ListAgentsResponse{Agents: h.agents}, nil
}

func (h *testHub) SubmitTask(_ context.Context, req *deckhandv1.SubmitTaskRequest) (*deckhandv1.SubmitTaskResponse, error) {
	if req.GetAgentId() == "nobody" {
		return nil, fault.New(fault.NotFound, "there is no agent \"nobody\"").WithFix("see `deckhand agent list`")
	}
	now := timestamppb.Now()
	task := &deckhandv1.Task{
		Id: "task_0123456789abcdefghjk", AgentName: req.GetAgentId(), Goal: req.GetGoal(), Title: req.GetTitle(),
		State: deckhandv1.TaskState_TASK_STATE_QUEUED, Provider: "script", Model: "scripted",
		CreatedAt: now, StartedAt: now,
	}
	h.change(func() {
		h.tasks = append(h.tasks, task)
		h.append(task.GetId(), "task.submitted", map[string]any{"agent": req.GetAgentId()})
	})
	if h.script != nil {
		go h.script(h, task.GetId())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return &deckhandv1.SubmitTaskResponse{Task: proto.CloneOf(task), QueuePosition: 1}, nil
}

func (h *testHub) GetTask(_ context.Context, req *deckhandv1.GetTaskRequest) (*deckhandv1.GetTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetTaskResponse{Task: proto.CloneOf(task)}, nil
}

func (h *testHub) ListTasks(_ context.Context, req *deckhandv1.ListTasksRequest) (*deckhandv1.ListTasksResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begin, _ := strconv.Atoi(req.GetPageToken())
	end := min(len(h.tasks), begin+int(req.GetPageSize()))
	res := &deckhandv1.ListTasksResponse{Tasks: h.tasks[begin:end]}
	if end < len(h.tasks) {
		res.NextPageToken = strconv.Itoa(end)
	}
	return res, nil
}

func (h *testHub) CancelTask(_ context.Context, req *deckhandv1.CancelTaskRequest) (*deckhandv1.CancelTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	task.State = deckhandv1.TaskState_TASK_STATE_CANCELLED
	return &deckhandv1.CancelTaskResponse{Task: task}, nil
}

func (h *testHub) ListSteps(_ context.Context, req *deckhandv1.ListStepsRequest) (*deckhandv1.ListStepsResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	steps := h.steps[task.GetId()]
	if id := req.GetStepId(); id != "" {
		steps = slices.DeleteFunc(slices.Clone(steps), func(s *deckhandv1.Step) bool { return s.GetId() != id })
	}
	begin, _ := strconv.Atoi(req.GetPageToken())
	const page = 2 // a list of more is followed
	res := &deckhandv1.ListStepsResponse{Steps: steps[begin:min(len(steps), begin+page)]}
	if begin+page < len(steps) {
		res.NextPageToken = strconv.Itoa(begin + page)
	}
	return res, nil
}

func (h *testHub) ReadLog(_ context.Context, req *deckhandv1.ReadLogRequest, out *connect.ServerStream[deckhandv1.ReadLogResponse]) error {
	h.mu.Lock()
	data, cut := h.logs[req.GetStepId()], h.cutLogs
	h.cutLogs = 0
	h.mu.Unlock()
	const piece = 7 // cuts characters and sequences in the middle
	for offset := int(req.GetOffset()); offset < len(data); offset += piece {
		if cut > 0 && offset >= cut {
			return connect.NewError(connect.CodeUnavailable, nil)
		}
		if err := out.Send(&deckhandv1.ReadLogResponse{
			Offset: int64(offset), Stream: "stdout", Data: data[offset:min(len(data), offset+piece)],
		}); err != nil {
			return err
		}
	}
	return nil
}

func (h *testHub) Watch(ctx context.Context, req *deckhandv1.WatchRequest, out *connect.ServerStream[deckhandv1.WatchResponse]) error {
	sent := map[string]int{}
	for {
		h.mu.Lock()
		changed, done := h.changed, true
		var pending []*deckhandv1.Event
		for _, id := range req.GetTaskIds() {
			task, err := h.task(id)
			if err != nil {
				h.mu.Unlock()
				return err
			}
			done = done && task.GetState() >= deckhandv1.TaskState_TASK_STATE_SUCCEEDED
			pending = append(pending, h.events[id][sent[id]:]...)
			sent[id] = len(h.events[id])
		}
		h.mu.Unlock()
		for _, event := range pending {
			if err := out.Send(&deckhandv1.WatchResponse{Cursor: "c", Item: &deckhandv1.WatchResponse_Event{Event: event}}); err != nil {
				return err
			}
		}
		if done || !req.GetFollow() {
			return nil
		}
		h.watchedOnce.Do(func() { close(h.watched) })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (h *testHub) ListNodes(_ context.Context, req *deckhandv1.ListNodesRequest) (*deckhandv1.ListNodesResponse, error) {
	begin, _ := strconv.Atoi(req.GetPageToken())
	const page = 2 // a list of more is followed
	res := &deckhandv1.ListNodesResponse{Nodes: h.nodes[begin:min(len(h.nodes), begin+page)]}
	if begin+page < len(h.nodes) {
		res.NextPageToken = strconv.Itoa(begin + page)
	}
	return res, nil
}

func (h *testHub) GetNode(_ context.Context, req *deckhandv1.GetNodeRequest) (*deckhandv1.GetNodeResponse, error) {
	for _, node := range h.nodes {
		if node.GetName() == req.GetNodeId() {
			return &deckhandv1.GetNodeResponse{Node: node}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no node %q", req.GetNodeId())
}

func (h *testHub) CreateJoinToken(context.Context, *deckhandv1.CreateJoinTokenRequest) (*deckhandv1.CreateJoinTokenResponse, error) {
	return &deckhandv1.CreateJoinTokenResponse{
		Token: "dhj_secret.ca", ExpiresAt: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}, nil
}

func (h *testHub) RevokeNode(_ context.Context, req *deckhandv1.RevokeNodeRequest) (*deckhandv1.RevokeNodeResponse, error) {
	return nil, fault.New(fault.Denied, "only admins may revoke node %s", req.GetNodeId()).
		WithCode(fault.PermissionDenied).WithFix("ask an admin")
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// errorLine returns the one line that says what went wrong.
func (r result) errorLine(t *testing.T) string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	require.True(t, strings.HasPrefix(last, "error: "), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "error: "), r.stderr)
	return last
}

// run runs a command against the hub.
func (h *testHub) run(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t.Context(), append(args, "--hub", h.url, "--token", testToken)...)
}

func execute(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := cli.Execute(ctx, args, strings.NewReader("from stdin\n"), &stdout, &stderr)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}
