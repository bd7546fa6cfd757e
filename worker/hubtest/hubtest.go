// Package hubtest is a fake hub for tests of workers: the worker service over
// real HTTP, wake-ups over a real embedded NATS server, and a relay to a fake
// model provider. It keeps tasks, turns, steps, events and checkpoints in
// memory and follows the real hub's rules: compare-and-swap claims, leases that
// expire, stale writes refused, and steps that run once.
package hubtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Token is what the hub takes as a worker's token.
const Token = "dhw_0000000000000000000000000000000000000000"

// Config says how the hub behaves.
type Config struct {
	// LeaseTTL is how long leases last; 0 for 30 s, or more on a slow machine. They are
	// renewed every third of it.
	LeaseTTL time.Duration
	// Exec runs a step; nil returns "ok". Its context ends with the call of the
	// step, but its result is kept nevertheless: the step runs once.
	Exec func(call Call) Result
	// Waits says that a call waits for a person until Hub.Approve; nil for none.
	Waits func(call Call) bool
	// Fail, when it returns an error, makes an RPC fail before it does
	// anything. name is the RPC's, n counts its calls from 1.
	Fail func(name string, n int) error
	// Lose is like Fail, but the RPC takes effect and only its response is
	// lost.
	Lose func(name string, n int) error
	// Defer says that a task's lease cannot be renewed now; nil for none.
	Defer func(taskID string) bool
	// Settle says how much of a piece of thinking can be shown; nil for all.
	Settle func(text string) int
	// Left is called with each RPC whose caller went away before the response.
	Left func(name string)
	// Provider serves /relay/anthropic/; nil for none.
	Provider http.Handler
	// Hold is how long ExecuteStep blocks at most; 0 means 20 s.
	Hold time.Duration
	// NoBus leaves NATS out.
	NoBus bool
	// NoBusURL keeps the bus's URL from workers: it is heard in-process only.
	NoBusURL bool
}

// Call is a step that is to run.
type Call struct {
	Tool      string
	Arguments map[string]any
	Turn      int32
	Index     int32
}

// Result is what came of it.
type Result struct {
	Observation string
	Failed      bool
	Code        fault.Code
	// Outcome is nil for none.
	Outcome *structpb.Struct
}

// Task is what the hub keeps of a task. Read it through Hub.Task.
type Task struct {
	Task       *deckhandv1.Task
	Markdown   string
	Script     string
	Tools      []*deckhandv1.Tool
	Scratchpad string
	Turns      []*deckhandv1.Turn
	Steps      []*deckhandv1.Step
	Events     []*deckhandv1.EventDraft
	Thinking   []*deckhandv1.PublishThinkingRequest
	Checkpoint *deckhandv1.Checkpoint
	// Runs counts how often each step's tool ran.
	Runs map[string]int
	// Stale counts writes that were refused.
	Stale int
	// Released counts tasks handed back.
	Released int
	// Batch is the number of the last batch of events that was stored.
	Batch int64

	token   string
	expires time.Time
	ended   map[string]chan struct{} // step id: closed when it ended
}

// Hub is the fake.
type Hub struct {
	URL string

	deckhandv1connect.UnimplementedWorkerServiceHandler

	cfg  Config
	nats *natsserver.Server
	conn *nats.Conn
	js   jetstream.JetStream

	mu       sync.Mutex
	tasks    map[string]*Task
	workers  map[string]bool
	calls    map[string]int
	renewed  int
	heard    int // renewals, with leases or without
	draining bool
	pressure string        // what a worker said last of its machine
	changed  chan struct{} // closed and renewed at every change
	running  sync.WaitGroup
}

// New starts a hub that ends with the test.
func New(t testing.TB, cfg Config) *Hub {
	t.Helper()
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = waittest.Limit(30 * time.Second)
	}
	if cfg.Hold == 0 {
		cfg.Hold = 20 * time.Second
	}
	h := &Hub{
		cfg: cfg, tasks: map[string]*Task{}, workers: map[string]bool{}, calls: map[string]int{}, changed: make(chan struct{}),
	}
	if !cfg.NoBus {
		h.startBus(t)
	}
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewWorkerServiceHandler(h, connect.WithInterceptors(h, eventkind.Interceptor())))
	if cfg.Provider != nil {
		mux.Handle("/relay/anthropic/", http.StripPrefix("/relay/anthropic", h.relay(cfg.Provider)))
	}
	srv := httptest.NewServer(mux)
	h.URL = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		h.running.Wait()
	})
	return h
}

func (h *Hub) startBus(t testing.TB) {
	t.Helper()
	ns, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	require.NoError(t, err)
	ns.Start()
	require.True(t, ns.ReadyForConnections(10*time.Second))
	conn, err := nats.Connect(ns.ClientURL())
	require.NoError(t, err)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "WAKEUPS", Subjects: []string{"wake.>"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
	})
	require.NoError(t, err)
	_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "pool-default", FilterSubject: "wake.default", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 15 * time.Second,
	})
	require.NoError(t, err)
	h.nats, h.conn, h.js = ns, conn, js
	t.Cleanup(func() {
		conn.Close()
		ns.Shutdown()
		ns.WaitForShutdown()
	})
}

// Nats is the bus's server.
func (h *Hub) Nats() *natsserver.Server { return h.nats }

// relay checks the lease that comes as key, as the hub's relay does.
func (h *Hub) relay(provider http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(r.Header.Get("X-Api-Key"), ":", 3)
		h.mu.Lock()
		task := h.tasks[parts[0]]
		ok := len(parts) == 3 && task != nil && parts[1] == fmt.Sprint(task.Task.GetAttempt()) && parts[2] == task.token && task.token != ""
		h.mu.Unlock()
		if !ok {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"type":"error","error":{"type":"permission_error","message":"the lease has ended"}}`))
			return
		}
		provider.ServeHTTP(w, r)
	})
}

// Submit stores a task that is queued.
func (h *Hub) Submit(task Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task.Task.State = deckhandv1.TaskState_TASK_STATE_QUEUED
	task.Runs = map[string]int{}
	task.ended = map[string]chan struct{}{}
	h.tasks[task.Task.GetId()] = &task
	h.poke()
}

// Wake publishes a wake-up for the next attempt at a task.
func (h *Hub) Wake(t testing.TB, taskID string) {
	t.Helper()
	h.mu.Lock()
	attempt := h.tasks[taskID].Task.GetAttempt() + 1
	h.mu.Unlock()
	h.WakeRaw(t, fmt.Sprintf(`{"task_id":%q,"attempt":%d}`, taskID, attempt))
}

// WakeRaw publishes any wake-up.
func (h *Hub) WakeRaw(t testing.TB, data string) {
	t.Helper()
	_, err := h.js.Publish(t.Context(), "wake.default", []byte(data))
	require.NoError(t, err)
}

// Pending returns how many wake-ups are not acknowledged.
func (h *Hub) Pending(t testing.TB) uint64 {
	t.Helper()
	stream, err := h.js.Stream(t.Context(), "WAKEUPS")
	require.NoError(t, err)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	return info.State.Msgs
}

// Task returns a copy of what is kept of a task.
func (h *Hub) Task(taskID string) Task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.copyTask(taskID)
}

func (h *Hub) copyTask(taskID string) Task {
	kept := h.tasks[taskID]
	out := *kept
	out.Task = proto.CloneOf(kept.Task)
	out.Turns = clones(kept.Turns)
	out.Steps = clones(kept.Steps)
	out.Events = clones(kept.Events)
	out.Thinking = clones(kept.Thinking)
	out.Runs = map[string]int{}
	for id, n := range kept.Runs {
		out.Runs[id] = n
	}
	return out
}

func clones[M proto.Message](in []M) []M {
	out := make([]M, len(in))
	for i, m := range in {
		out[i] = proto.CloneOf(m)
	}
	return out
}

// Calls returns how often an RPC was called.
func (h *Hub) Calls(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[name]
}

// Drain makes the next renewals tell workers to take nothing new, or to take
// new tasks again.
func (h *Hub) Drain(draining bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = draining
}

// Heard counts the calls that show that a worker is alive.
func (h *Hub) Heard() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard
}

// Pressure returns what a worker said last of its machine.
func (h *Hub) Pressure() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pressure
}

// Renewals returns how many single leases were renewed.
func (h *Hub) Renewals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

// WaitFor blocks until cond holds for a task.
func (h *Hub) WaitFor(t testing.TB, taskID string, cond func(Task) bool) Task {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		h.mu.Lock()
		task, changed := h.copyTask(taskID), h.changed
		h.mu.Unlock()
		if cond(task) {
			return task
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(t, "the task did not get there", "state %s: %s %s; events %s",
				task.Task.GetState(), task.Task.GetReason(), task.Task.GetErrorMessage(), EventTypes(task))
		}
	}
}

// WaitState blocks until a task is in a state.
func (h *Hub) WaitState(t testing.TB, taskID string, state deckhandv1.TaskState) Task {
	t.Helper()
	return h.WaitFor(t, taskID, func(task Task) bool { return task.Task.GetState() == state })
}

// EventTypes lists a task's events.
func EventTypes(task Task) []string {
	out := make([]string, len(task.Events))
	for i, e := range task.Events {
		out[i] = e.GetType()
	}
	return out
}

// Steal ends the lease on a task, as a hub does that took the task away.
func (h *Hub) Steal(taskID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLease(h.tasks[taskID], deckhandv1.TaskState_TASK_STATE_QUEUED, "stolen")
}

// Requeue puts a task that is paused into the queue again, as a person does.
func (h *Hub) Requeue(taskID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks[taskID].Task.State = stateQueued
	h.poke()
}

// Approve decides all approvals that a task waits for, and queues the task if
// it is parked.
func (h *Hub) Approve(taskID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task := h.tasks[taskID]
	for _, step := range task.Steps {
		if step.GetState() == deckhandv1.StepState_STEP_STATE_WAITING {
			step.State = deckhandv1.StepState_STEP_STATE_GRANTED
		}
	}
	if task.Task.GetState() == stateWaiting {
		task.Task.State = stateQueued
	}
	h.poke()
}

// Forget makes the hub not know its workers any more.
func (h *Hub) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.workers)
}

func (h *Hub) endLease(task *Task, state deckhandv1.TaskState, reason string) {
	task.token = ""
	task.Task.State, task.Task.Reason = state, reason
	h.poke()
}

// poke wakes everything that waits for a change; the caller must hold h.mu.
func (h *Hub) poke() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// WrapUnary implements connect.Interceptor: it checks the token, counts, and
// injects failures.
func (h *Hub) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Header().Get("Authorization") != "Bearer "+Token {
			return nil, fault.ToConnect(fault.New(fault.Unauthenticated, "the token is not known").WithFix("use a worker token"))
		}
		name := req.Spec().Procedure[strings.LastIndexByte(req.Spec().Procedure, '/')+1:]
		h.mu.Lock()
		h.calls[name]++
		n := h.calls[name]
		h.poke()
		h.mu.Unlock()
		if h.cfg.Fail != nil {
			if err := h.cfg.Fail(name, n); err != nil {
				return nil, fault.ToConnect(err)
			}
		}
		res, err := next(ctx, req)
		if ctx.Err() != nil && h.cfg.Left != nil {
			h.cfg.Left(name)
		}
		if err == nil && h.cfg.Lose != nil {
			err = h.cfg.Lose(name, n)
		}
		return res, fault.ToConnect(err)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (h *Hub) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (h *Hub) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func arguments(text string) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal([]byte(text), &out)
	return out
}
