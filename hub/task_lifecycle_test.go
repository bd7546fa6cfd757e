package hub_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// rig is a hub with one simulated node, one agent, and a worker that the test
// plays by hand.
type rig struct {
	*hubtest.Hub

	t       *testing.T
	node    *nodetest.Node
	user    *sdk.Client
	workers *sdk.Client
	worker  string
}

// newRig returns a rig of the organisation that the tokens of h belong to.
func newRig(t *testing.T, h *hubtest.Hub, run func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec)) *rig {
	t.Helper()
	return newRigOn(t, h, nodetest.Config{Run: run})
}

// newRigOn is newRig with a node of the test's own making.
func newRigOn(t *testing.T, h *hubtest.Hub, node nodetest.Config) *rig {
	t.Helper()
	join := do(t, h.Client(t, h.AdminToken).Nodes.CreateJoinToken, &deckhandv1.CreateJoinTokenRequest{})
	return joinedAs(t, h, node, h.AdminToken, h.WorkerToken, join.GetToken())
}

// joinedAs is a rig of the organisation that tokens are of.
func joinedAs(t *testing.T, h *hubtest.Hub, node nodetest.Config, admin, worker, join string) *rig {
	t.Helper()
	r := &rig{t: t, Hub: h}
	r.user, r.workers = r.Client(t, admin), r.Client(t, worker)
	var err error
	node.Dir, node.HubURL, node.JoinToken, node.Name, node.Log = t.TempDir(), r.URL(), join, "sim", hubtest.Log(t)
	r.node, err = nodetest.New(t.Context(), node)
	require.NoError(t, err)
	require.NoError(t, r.node.Start(t.Context()))
	t.Cleanup(r.node.Stop)
	require.Eventually(t, func() bool {
		_, err := r.user.Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
			Workspace: &deckhandv1.ListFilesRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: "sim", JailId: "none"}},
		})
		return err == nil
	}, waittest.Limit(20*time.Second), 10*time.Millisecond, "the node to be connected")
	r.apply("walker", scripted("walker"))
	res, err := r.workers.Workers.RegisterWorker(t.Context(), &deckhandv1.RegisterWorkerRequest{Name: "by hand", Slots: 100})
	require.NoError(t, err)
	r.worker = res.GetWorkerId()
	return r
}

func (r *rig) apply(name, markdown string) {
	r.t.Helper()
	script := ""
	if strings.Contains(markdown, "\nscript:") {
		script = "turns: []\n"
	}
	_, err := r.user.Agents.ApplyAgent(r.t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: name + ".md", Markdown: markdown, Script: script,
	})
	require.NoError(r.t, err)
}

func (r *rig) submit(agent string) *deckhandv1.Task {
	r.t.Helper()
	res, err := r.user.Tasks.SubmitTask(r.t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: agent, Goal: "go on"})
	require.NoError(r.t, err)
	return res.GetTask()
}

func (r *rig) task(id string) *deckhandv1.Task {
	r.t.Helper()
	res, err := r.user.Tasks.GetTask(r.t.Context(), &deckhandv1.GetTaskRequest{TaskId: id})
	require.NoError(r.t, err)
	return res.GetTask()
}

// claim claims a task as soon as it is admitted.
func (r *rig) claim(id string, attempt int32) *deckhandv1.ClaimTaskResponse {
	r.t.Helper()
	var out *deckhandv1.ClaimTaskResponse
	require.Eventually(r.t, func() bool {
		res, err := r.workers.Workers.ClaimTask(r.t.Context(), &deckhandv1.ClaimTaskRequest{
			WorkerId: r.worker, TaskId: id, Attempt: attempt,
		})
		require.NoError(r.t, err)
		out = res
		return out.GetClaimed()
	}, waittest.Limit(20*time.Second), 20*time.Millisecond, "the task to be admitted")
	return out
}

// begin claims a task and starts it.
func (r *rig) begin(id string, attempt int32) *deckhandv1.Lease {
	r.t.Helper()
	lease := r.claim(id, attempt).GetLease()
	_, err := r.workers.Workers.StartTask(r.t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
	require.NoError(r.t, err)
	return lease
}

func (r *rig) turn(lease *deckhandv1.Lease, n int32) {
	r.t.Helper()
	_, err := r.workers.Workers.RecordTurn(r.t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{
			Turn: n, Provider: "script", Model: "scripted", StopReason: "tool_use", Usage: &deckhandv1.Usage{InputTokens: 10, OutputTokens: 5},
			Blocks: []*deckhandv1.Block{{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: "on it"}}}},
		},
	})
	require.NoError(r.t, err)
}

func (r *rig) propose(lease *deckhandv1.Lease, turn, index int32, tool, arguments string) (*deckhandv1.Step, error) {
	res, err := r.workers.Workers.ProposeStep(r.t.Context(), &deckhandv1.ProposeStepRequest{
		Lease: lease, Turn: turn, CallIndex: index, CallId: "c", Tool: tool, ArgumentsJson: arguments,
	})
	if err != nil {
		return nil, err
	}
	return res.GetStep(), nil
}

func (r *rig) execute(lease *deckhandv1.Lease, stepID string) (*deckhandv1.Step, error) {
	res, err := r.workers.Workers.ExecuteStep(r.t.Context(), &deckhandv1.ExecuteStepRequest{Lease: lease, StepId: stepID})
	if err != nil {
		return nil, err
	}
	return res.GetStep(), nil
}

func (r *rig) finish(lease *deckhandv1.Lease) {
	r.t.Helper()
	_, err := r.workers.Workers.FinishTask(r.t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: lease, State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Summary: "done",
	})
	require.NoError(r.t, err)
}

func (r *rig) events(id string, follow bool) []*deckhandv1.Event {
	r.t.Helper()
	stream, err := r.user.Events.Watch(r.t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: follow})
	require.NoError(r.t, err)
	defer stream.Close()
	var out []*deckhandv1.Event
	for stream.Receive() {
		if e := stream.Msg().GetEvent(); e != nil {
			out = append(out, e)
		}
	}
	require.NoError(r.t, stream.Err())
	return out
}

func output(text string) func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
	return func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return text, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	}
}

// The whole thread through the hub; events are numbered without gaps
// and watched to the end.
func TestATaskFromSubmissionToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("hello\n"))
	task := r.submit("walker")
	require.NotEmpty(t, task.GetReason())
	lease := r.begin(task.GetId(), 1)
	require.Equal(t, "active", strings.ToLower(strings.TrimPrefix(r.agent("walker").GetStatus().String(), "AGENT_STATUS_")))

	watched := make(chan []*deckhandv1.Event, 1)
	go func() { watched <- r.events(task.GetId(), true) }()

	r.turn(lease, 1)
	r.turn(lease, 1) // harmless
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo hello"}`)
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_GRANTED, step.GetState())
	again, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo hello"}`)
	require.NoError(t, err)
	require.Equal(t, step.GetId(), again.GetId(), "the same call is the same step")
	_, err = r.propose(lease, 1, 0, "shell_exec", `{"command":"echo other"}`)
	require.True(t, fault.Is(err, fault.Exists), "%v", err)

	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	require.Equal(t, "exit status 0\nhello\n", done.GetObservation())
	done, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	require.Equal(t, 1, r.node.Runs(), "it ran once")

	_, err = r.workers.Workers.SaveCheckpoint(t.Context(), &deckhandv1.SaveCheckpointRequest{
		Lease: lease, Progress: 0.5, Checkpoint: &deckhandv1.Checkpoint{Iteration: 1, State: &structpb.Struct{}},
		Events: []*deckhandv1.EventDraft{{Type: "iteration_complete"}},
	})
	require.NoError(t, err)
	r.finish(lease)

	end := r.task(task.GetId())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, end.GetState())
	require.EqualValues(t, 10, end.GetUsage().GetInputTokens(), "a repeated turn is counted once")
	events := <-watched
	for i, e := range events {
		require.EqualValues(t, i+1, e.GetSeq())
		require.Equal(t, task.GetCorrelationId(), e.GetCorrelationId())
	}
	require.EqualValues(t, end.GetEventSeq(), len(events))
	require.Equal(t, "state_changed", events[len(events)-1].GetType())
	require.Len(t, r.events(task.GetId(), false), len(events), "the same again from the store")
}

func (r *rig) agent(name string) *deckhandv1.Agent {
	r.t.Helper()
	res, err := r.user.Agents.GetAgent(r.t.Context(), &deckhandv1.GetAgentRequest{AgentId: name})
	require.NoError(r.t, err)
	return res.GetAgent()
}

// A watch that begins in the middle goes on without a gap or a repeat.
func TestAWatchGoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	for range 30 {
		_, err := r.workers.Workers.RecordEvents(t.Context(), &deckhandv1.RecordEventsRequest{
			Lease: lease, Events: []*deckhandv1.EventDraft{{Type: "progress_update"}},
		})
		require.NoError(t, err)
	}
	r.finish(lease)
	var seqs []int64
	for cursor := ""; ; {
		stream, err := r.user.Events.Watch(t.Context(), &deckhandv1.WatchRequest{
			TaskIds: []string{task.GetId()[:12]}, Cursor: cursor, Follow: true,
		})
		require.NoError(t, err)
		got := 0
		for got < 7 && stream.Receive() {
			cursor = stream.Msg().GetCursor()
			if e := stream.Msg().GetEvent(); e != nil {
				seqs = append(seqs, e.GetSeq())
				got++
			}
		}
		require.NoError(t, stream.Err())
		require.NoError(t, stream.Close())
		if got < 7 {
			break
		}
	}
	require.EqualValues(t, r.task(task.GetId()).GetEventSeq(), len(seqs))
	for i, seq := range seqs {
		require.EqualValues(t, i+1, seq)
	}
}

// A lease that is not renewed ends; the next worker gets what the first
// left, and the first one's writes are refused.
func TestALostLeaseGoesToTheNextWorker(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.LeaseTTL = waittest.Limit(3 * time.Second)
	r := newRig(t, hubtest.Start(t, cfg), output("x"))
	task := r.submit("walker")
	first := r.begin(task.GetId(), 1)
	r.turn(first, 1)
	step, err := r.propose(first, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	_, err = r.execute(first, step.GetId())
	require.NoError(t, err)

	claimed := r.claim(task.GetId(), 2)
	require.EqualValues(t, 2, claimed.GetTask().GetAttempt())
	require.Len(t, claimed.GetTurns(), 1)
	require.Len(t, claimed.GetSteps(), 1)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, claimed.GetSteps()[0].GetState())

	for what, call := range map[string]func() error{
		"propose": func() error { _, err := r.propose(first, 1, 1, "shell_exec", `{"command":"true"}`); return err },
		"execute": func() error { _, err := r.execute(first, "step_none"); return err },
		"finish": func() error {
			_, err := r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
				Lease: first, State: deckhandv1.TaskState_TASK_STATE_FAILED,
			})
			return err
		},
		"start": func() error {
			_, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: first})
			return err
		},
	} {
		err := call()
		require.True(t, fault.Is(err, fault.Precondition) || fault.Is(err, fault.NotFound), "%s: %v", what, err)
	}
	renewed, err := r.workers.Workers.RenewLeases(t.Context(), &deckhandv1.RenewLeasesRequest{
		WorkerId: r.worker, Leases: []*deckhandv1.Lease{first, claimed.GetLease()},
	})
	require.NoError(t, err)
	require.False(t, renewed.GetRenewals()[0].GetHeld())
	require.Equal(t, "lost", renewed.GetRenewals()[0].GetReason())
	require.True(t, renewed.GetRenewals()[1].GetHeld())
}

// Two workers that hear the same wake-up: one claims.
func TestOneOfManyClaimsWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	require.Eventually(t, func() bool { return strings.HasPrefix(r.task(task.GetId()).GetReason(), "admitted") }, waittest.Limit(10*time.Second), 10*time.Millisecond)
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			res, err := r.workers.Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{
				WorkerId: r.worker, TaskId: task.GetId(), Attempt: 1,
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if res.GetClaimed() {
				won++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, won)
}

// The hub decides, whatever a worker says; the model is told why.
func TestTheHubDeniesWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("reader", strings.Replace(scripted("reader"), "[shell_exec, file_read,", "[file_read,", 1))
	task := r.submit("reader")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	for i, c := range []struct {
		tool, arguments string
		code            fault.Code
	}{
		{"launch_rocket", `{}`, fault.ToolNotFound},
		{"shell_exec", `{"command":"true"}`, fault.PermissionDenied},
		{"file_read", `{"path":7}`, fault.InvalidParameters},
		{"file_read", `{"path":"a"`, fault.InvalidParameters},
		{"file_read", `{"path":"a","mode":"0777"}`, fault.InvalidParameters},
	} {
		step, err := r.propose(lease, 1, int32(i), c.tool, c.arguments) //nolint:gosec // a small index
		require.NoError(t, err)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_DENIED, step.GetState(), c)
		require.Equal(t, string(c.code), step.GetErrorCode(), c)
		require.Contains(t, step.GetObservation(), string(c.code))
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err, "a denied step is answered as it stands")
	}
	require.Zero(t, r.node.Runs())
}

// A secret in arguments and output reaches the command, and no store.
func TestSecretsReachTheCommandAndNoStore(t *testing.T) {
	t.Parallel()
	const canary = "sk-ant-api03-CANARYCANARYCANARY"
	ran := make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		ran <- spec.GetArgv()[2]
		return "printed " + canary, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo `+canary+`"}`)
	require.NoError(t, err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, "echo "+canary, <-ran, "the command got what the model wrote")
	require.NotContains(t, done.String(), canary)
	r.finish(lease)
	data, err := json.Marshal(r.events(task.GetId(), false))
	require.NoError(t, err)
	require.NotContains(t, string(data), canary)
	require.Contains(t, string(data), "⟦secret⟧")
}

// One workspace is used by one task at a time, and the other says why it waits.
func TestTasksOfOneAgentTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	first, second := r.submit("walker"), r.submit("walker")
	lease := r.begin(first.GetId(), 1)
	require.Eventually(t, func() bool { return strings.Contains(r.task(second.GetId()).GetReason(), first.GetId()) },
		10*time.Second, 20*time.Millisecond, "the reason names what it waits for")
	r.finish(lease)
	r.begin(second.GetId(), 1)
}

// Cancelling ends the command and the lease.
func TestCancelEndsTheRunningCommand(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	r := newRig(t, hubtest.Shared(t), func(ctx context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		close(started)
		<-ctx.Done()
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"sleep 1000"}`)
	require.NoError(t, err)
	executed := make(chan *deckhandv1.Step, 1)
	go func() {
		s, err := r.execute(lease, step.GetId())
		if err != nil {
			t.Error(err)
		}
		executed <- s
	}()
	<-started
	res, err := r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: task.GetId(), Reason: "enough"})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, res.GetTask().GetState())
	require.Contains(t, res.GetTask().GetReason(), "enough")
	require.Equal(t, deckhandv1.StepState_STEP_STATE_CANCELLED, (<-executed).GetState())
	_, err = r.propose(lease, 1, 1, "shell_exec", `{"command":"true"}`)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	_, err = r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: task.GetId()})
	require.NoError(t, err, "cancelling twice is harmless")
}

// A submission that is repeated with its key is one task; bad ones name the
// field.
func TestSubmissions(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	req := &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "once", IdempotencyKey: "k1"}
	first, err := r.user.Tasks.SubmitTask(t.Context(), req)
	require.NoError(t, err)
	second, err := r.user.Tasks.SubmitTask(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first.GetTask().GetId(), second.GetTask().GetId())

	for what, c := range map[string]struct {
		req  *deckhandv1.SubmitTaskRequest
		kind fault.Kind
		text string
	}{
		"a goal of 11 000 characters": {&deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: strings.Repeat("ä", 11000)}, fault.Invalid, "goal"},
		"an unknown agent":            {&deckhandv1.SubmitTaskRequest{AgentId: "nobody"}, fault.NotFound, `no agent "nobody"`},
		"an input that climbs out": {&deckhandv1.SubmitTaskRequest{AgentId: "walker", Inputs: []*deckhandv1.InputFile{{Path: "../x"}}},
			fault.Invalid, "inputs[0].path"},
		"a priority of 11": {&deckhandv1.SubmitTaskRequest{AgentId: "walker", Priority: 11}, fault.Invalid, "priority"},
	} {
		_, err := r.user.Tasks.SubmitTask(t.Context(), c.req)
		require.True(t, fault.Is(err, c.kind), "%s: %v", what, err)
		require.ErrorContains(t, err, c.text, what)
	}
}

// The relay swaps the lease for the provider's key, for the task's own
// model only.
func TestTheRelayServesLeasesOnly(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "%s %s", req.URL.Path, req.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(provider.Close)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = provider.URL, config.Secret("the-provider-key")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("claude", anthropicPersona("claude"))
	task := r.submit("claude")
	lease := r.begin(task.GetId(), 1)
	good := fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken())
	ask := func(key, path, model string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/relay/anthropic"+path,
			strings.NewReader(`{"model":"`+model+`","max_tokens":9}`))
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(data)
	}
	status, body := ask(good, "/v1/messages", "claude-sonnet-4-5")
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "/v1/messages the-provider-key", body)
	for what, c := range map[string][3]string{
		"another model":      {good, "/v1/messages", "claude-opus-4-1"},
		"a made-up lease":    {lease.GetTaskId() + ":1:dhl_nonsense", "/v1/messages", "claude-sonnet-4-5"},
		"another attempt":    {lease.GetTaskId() + ":2:" + lease.GetToken(), "/v1/messages", "claude-sonnet-4-5"},
		"an admin's token":   {r.AdminToken, "/v1/messages", "claude-sonnet-4-5"},
		"no key":             {"", "/v1/messages", "claude-sonnet-4-5"},
		"another path":       {good, "/v1/files", "claude-sonnet-4-5"},
		"a path that climbs": {good, "/v1/messages/../files", "claude-sonnet-4-5"},
	} {
		status, body := ask(c[0], c[1], c[2])
		require.GreaterOrEqual(t, status, 400, what)
		require.NotContains(t, body, "the-provider-key", what)
	}
	r.finish(lease)
	status, _ = ask(good, "/v1/messages", "claude-sonnet-4-5")
	require.Equal(t, http.StatusUnauthorized, status, "the lease has ended")
}

// What a model streams is masked also where a secret comes in two pieces: the
// beginning of one is held back until what comes next says what it is.
func TestStreamedThinkingHidesASecretInTwoPieces(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.AnthropicKey = config.Secret("canary-of-the-provider")
	r := newRig(t, hubtest.Start(t, cfg), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	watch, err := r.user.Events.Watch(t.Context(), &deckhandv1.WatchRequest{
		TaskIds: []string{task.GetId()}, Follow: true, Thinking: true,
	})
	require.NoError(t, err)
	seen := make(chan string, 100)
	go func() {
		for watch.Receive() {
			if piece := watch.Msg().GetThinking(); piece != nil {
				seen <- fmt.Sprintf("%d %s", piece.GetOffset(), piece.GetText())
			} else if watch.Msg().GetEvent().GetType() == "progress_update" {
				seen <- "there"
			}
		}
	}()
	publish := func(offset int64, text string) int32 {
		res, err := r.workers.Workers.PublishThinking(t.Context(), &deckhandv1.PublishThinkingRequest{
			Lease: lease, Turn: 1, Offset: offset, Text: text,
		})
		require.NoError(t, err)
		return res.GetSettled()
	}
	_, err = r.workers.Workers.RecordEvents(t.Context(), &deckhandv1.RecordEventsRequest{
		Lease: lease, Events: []*deckhandv1.EventDraft{{Type: "progress_update"}},
	})
	require.NoError(t, err)
	require.Equal(t, "there", <-seen) // the watch is live
	require.EqualValues(t, 8, publish(0, "The key canary-of-"))
	require.Equal(t, "0 The key ", <-seen)
	require.EqualValues(t, 0, publish(8, "canary-of-the-"))
	require.EqualValues(t, 26, publish(8, "canary-of-the-provider so."))
	require.Equal(t, "8 ⟦secret**********⟧ so.", <-seen)
	// As it is written in the header of a login, and cut within it.
	encoded := base64.StdEncoding.EncodeToString([]byte("me:canary-of-the-provider"))
	text := "Basic " + encoded
	settled := publish(34, text[:20])
	require.EqualValues(t, len("Basic "+encoded[:4]), settled, "the value begins in its fifth character")
	require.EqualValues(t, len(text)-int(settled), publish(34+int64(settled), text[settled:]))
	for range 2 {
		require.NotContains(t, <-seen, encoded[8:20])
	}
	// A character is not cut.
	require.EqualValues(t, 3, publish(100, "ä "+"cana"))
}
