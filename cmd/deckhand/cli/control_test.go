package cli_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// control is what the test hub answers about control.
type control struct {
	killed  []*deckhandv1.KilledTask
	hold    *deckhandv1.Hold
	entries []*deckhandv1.AuditEntry
}

func (h *testHub) steered(id string, state deckhandv1.TaskState) (*deckhandv1.Task, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.task(id)
	if err != nil {
		return nil, err
	}
	task.State = state
	return proto.CloneOf(task), nil
}

func (h *testHub) PauseTask(_ context.Context, req *deckhandv1.PauseTaskRequest) (*deckhandv1.PauseTaskResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_PAUSED)
	return &deckhandv1.PauseTaskResponse{Task: task}, err
}

func (h *testHub) ResumeTask(_ context.Context, req *deckhandv1.ResumeTaskRequest) (*deckhandv1.ResumeTaskResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_QUEUED)
	return &deckhandv1.ResumeTaskResponse{Task: task}, err
}

func (h *testHub) TellTask(_ context.Context, req *deckhandv1.TellTaskRequest) (*deckhandv1.TellTaskResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_RUNNING)
	return &deckhandv1.TellTaskResponse{Task: task}, err
}

func (h *testHub) WithdrawMessage(_ context.Context, req *deckhandv1.WithdrawMessageRequest) (*deckhandv1.WithdrawMessageResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_RUNNING)
	return &deckhandv1.WithdrawMessageResponse{Task: task}, err
}

func (h *testHub) RetryTask(_ context.Context, req *deckhandv1.RetryTaskRequest) (*deckhandv1.RetryTaskResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_QUEUED)
	return &deckhandv1.RetryTaskResponse{Task: task}, err
}

func (h *testHub) ResumeTaskFrom(_ context.Context, req *deckhandv1.ResumeTaskFromRequest) (*deckhandv1.ResumeTaskFromResponse, error) {
	task, err := h.steered(req.GetTaskId(), deckhandv1.TaskState_TASK_STATE_QUEUED)
	return &deckhandv1.ResumeTaskFromResponse{Task: task}, err
}

func (h *testHub) ListCheckpoints(context.Context, *deckhandv1.ListCheckpointsRequest) (*deckhandv1.ListCheckpointsResponse, error) {
	at := time.Now()
	return &deckhandv1.ListCheckpointsResponse{Checkpoints: []*deckhandv1.TaskCheckpoint{
		{Iteration: 4, Reason: "auto", CreatedAt: timestamppb.New(at.Add(-3 * time.Hour)), ExpiresAt: timestamppb.New(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))},
	}}, nil
}

func (h *testHub) TellAgent(_ context.Context, req *deckhandv1.TellAgentRequest) (*deckhandv1.TellAgentResponse, error) {
	return &deckhandv1.TellAgentResponse{
		Task: &deckhandv1.Task{Id: "task_new", AgentName: req.GetAgentId(), Goal: req.GetText()}, Created: true,
	}, nil
}

func (h *testHub) Kill(context.Context, *deckhandv1.KillRequest) (*deckhandv1.KillResponse, error) {
	return &deckhandv1.KillResponse{Tasks: h.control.killed, Hold: h.control.hold}, nil
}

func (h *testHub) ListHolds(context.Context, *deckhandv1.ListHoldsRequest) (*deckhandv1.ListHoldsResponse, error) {
	res := &deckhandv1.ListHoldsResponse{}
	if h.control.hold != nil {
		res.Holds = append(res.Holds, h.control.hold)
	}
	return res, nil
}

func (h *testHub) ReleaseHold(context.Context, *deckhandv1.ReleaseHoldRequest) (*deckhandv1.ReleaseHoldResponse, error) {
	return &deckhandv1.ReleaseHoldResponse{Hold: h.control.hold}, nil
}

func (h *testHub) ListAuditEntries(context.Context, *deckhandv1.ListAuditEntriesRequest) (*deckhandv1.ListAuditEntriesResponse, error) {
	return &deckhandv1.ListAuditEntriesResponse{Entries: h.control.entries}, nil
}

// sent returns the newest request of its kind.
func sent[T proto.Message](t *testing.T, h *testHub) T {
	t.Helper()
	var kind T
	h.mu.Lock()
	defer h.mu.Unlock()
	request, ok := h.last[string(kind.ProtoReflect().Descriptor().Name())].(T)
	require.True(t, ok)
	return request
}

// Pause and resume.
func TestTasksArePausedAndResumed(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "pause", "task_a", "--reason", "lunch", "--on-next-tool")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "paused")
	request := sent[*deckhandv1.PauseTaskRequest](t, h)
	require.Equal(t, "lunch", request.GetReason())
	require.True(t, request.GetOnNextTool())
	require.Equal(t, "task_aaa1\ntask_bbb2\n", h.run(t, "task", "resume", "task_a", "task_b", "-o", "name").stdout)
	require.Equal(t, 3, h.run(t, "task", "pause", "task_zzz").code)
}

// An admin lets a run have more.
func TestARunIsLetHaveMore(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "resume", "task_a", "--limit", "iterations=100,active_time=2h", "--limit", "cost_usd=2.5", "--limit", "tokens=7", "--limit", "calls=8")
	require.Equal(t, 0, got.code, got.stderr)
	limits := sent[*deckhandv1.ResumeTaskRequest](t, h).GetLimits()
	require.EqualValues(t, 100, limits.GetIterations())
	require.Equal(t, 2*time.Hour, limits.GetActiveTime().AsDuration())
	require.EqualValues(t, 2_500_000, limits.GetCostMicros())
	require.EqualValues(t, 7, limits.GetTokens())
	require.EqualValues(t, 8, limits.GetCalls())
	for _, wrong := range []string{"iterations=1001", "iterations=0", "iterations=x", "wall=3", "active_time=5", "cost_usd=-1"} {
		require.Equal(t, 2, h.run(t, "task", "resume", "task_a", "--limit", wrong).code, wrong)
	}
	got = h.run(t, "task", "resume-from", "task_a", "--limit", "iterations=9")
	require.Equal(t, 0, got.code, got.stderr)
	require.EqualValues(t, 9, sent[*deckhandv1.ResumeTaskFromRequest](t, h).GetOverride().GetLimits().GetIterations())
}

func TestATaskAndAnAgentAreTold(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "message", "task_a", "leave /etc alone")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "leave /etc alone", sent[*deckhandv1.TellTaskRequest](t, h).GetText())
	require.Equal(t, 2, h.run(t, "task", "message", "task_a").code)
	require.False(t, sent[*deckhandv1.TellTaskRequest](t, h).GetInterrupt())
	require.Equal(t, 0, h.run(t, "task", "message", "task_a", "--interrupt", "stop").code)
	require.True(t, sent[*deckhandv1.TellTaskRequest](t, h).GetInterrupt())
	require.Equal(t, 0, h.run(t, "task", "withdraw", "task_a").code)
	require.Empty(t, sent[*deckhandv1.WithdrawMessageRequest](t, h).GetMessageId())
	require.Equal(t, 0, h.run(t, "task", "withdraw", "task_a", "msg_x").code)
	require.Equal(t, "msg_x", sent[*deckhandv1.WithdrawMessageRequest](t, h).GetMessageId())

	got = h.run(t, "agent", "message", "triage", "look again")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "task_new")
	require.Contains(t, got.stderr, "new task")
}

func TestATaskIsRunOnceMore(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	got := h.run(t, "task", "retry", "task_b", "--memory", "2GiB", "--node", "web-1", "--provider", "anthropic", "--model", "claude-test")
	require.Equal(t, 0, got.code, got.stderr)
	require.True(t, proto.Equal(&deckhandv1.TaskOverride{
		MemoryBytes: 2 << 30, NodeId: "web-1", Provider: "anthropic", Model: "claude-test",
	}, sent[*deckhandv1.RetryTaskRequest](t, h).GetOverride()))
	for flag, value := range map[string]string{"--memory": "lots", "--provider": "anthropic", "--model": "claude-test"} {
		require.Equal(t, 2, h.run(t, "task", "retry", "task_b", flag, value).code, flag)
	}
	require.Contains(t, h.run(t, "task", "retry", "task_b", "--memory", "512").errorLine(t), "--memory")

	got = h.run(t, "task", "resume-from", "task_b", "--iteration", "4", "--message", "without sudo")
	require.Equal(t, 0, got.code, got.stderr)
	request := sent[*deckhandv1.ResumeTaskFromRequest](t, h)
	require.Equal(t, int32(4), request.GetIteration())
	require.Equal(t, "without sudo", request.GetMessage())
	require.Equal(t, 2, h.run(t, "task", "resume-from", "task_b", "--iteration", "-1").code)

	require.Equal(t, `ID  ITERATION  PHASE  NAME  BROWSER  REASON  AGE  EXPIRES
-   4          -      -     -        auto    3h   2027-01-02T03:04:05Z
`, h.run(t, "task", "checkpoints", "task_b").stdout)
}

// The kill switch says of each task what is known, and only full success is 0.
func TestTheKillSwitchSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	h := withTasks(t)
	h.control.killed = []*deckhandv1.KilledTask{{TaskId: "task_a", NodeId: "node_1", Outcome: deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED}}
	got := h.run(t, "kill", "task", "task_a", "--reason", "stop it")
	require.Equal(t, 0, got.code, got.stderr)
	require.Regexp(t, `(?m)^task_a +node_1 +confirmed`, got.stdout)
	request := sent[*deckhandv1.KillRequest](t, h)
	require.Equal(t, deckhandv1.KillScope_KILL_SCOPE_TASK, request.GetScope())
	require.Equal(t, "stop it", request.GetReason())

	h.control.hold = &deckhandv1.Hold{Id: "hold_1", Scope: deckhandv1.KillScope_KILL_SCOPE_AGENT, ObjectId: "agent_1", HeldBy: "admin"}
	h.control.killed = append(h.control.killed,
		&deckhandv1.KilledTask{TaskId: "task_b", NodeId: "node_2", Outcome: deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY,
			StopsBy: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))},
		&deckhandv1.KilledTask{TaskId: "task_c", NodeId: "node_3", Outcome: deckhandv1.KillOutcome_KILL_OUTCOME_PENDING, Detail: "3 processes\x1b[2J"})
	got = h.run(t, "kill", "agent", "triage")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.errorLine(t), "--yes")
	got = h.run(t, "kill", "agent", "triage", "--yes")
	require.Equal(t, 1, got.code)
	require.Regexp(t, `(?m)^task_b +node_2 +stops by 2026-01-02T03:04:05Z`, got.stdout)
	require.Regexp(t, `(?m)^task_c +node_3 +pending +3 processes`, got.stdout)
	require.NotContains(t, got.stdout, "\x1b")
	require.Contains(t, got.stderr, "deckhand hold release hold_1")
	require.Contains(t, got.errorLine(t), "2 of 3 are not confirmed yet")

	h.control.killed = nil
	require.Equal(t, 0, h.run(t, "kill", "org", "--yes").code)
	require.Equal(t, deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, sent[*deckhandv1.KillRequest](t, h).GetScope())
	for _, wrong := range [][]string{{"kill"}, {"kill", "task"}, {"kill", "everything"}, {"kill", "org", "org_1", "--yes"}} {
		require.Equal(t, 2, h.run(t, wrong...).code, wrong)
	}
}

func TestHoldsAreListedAndReleased(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	require.Contains(t, h.run(t, "hold", "list").stderr, "nothing is held")
	h.control.hold = &deckhandv1.Hold{Id: "hold_1", Scope: deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, ObjectId: "org_1", HeldBy: "admin", Reason: "fire"}
	require.Regexp(t, `(?m)^hold_1 +org +org_1 +admin +.*fire$`, h.run(t, "hold", "list", "--all").stdout)
	require.True(t, sent[*deckhandv1.ListHoldsRequest](t, h).GetReleased())
	require.Equal(t, 0, h.run(t, "hold", "release", "hold_1", "--reason", "out").code)
	require.Equal(t, "out", sent[*deckhandv1.ReleaseHoldRequest](t, h).GetReason())
}

func TestTheAuditIsListed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	require.Contains(t, h.run(t, "audit", "list", "--by", "bob").stderr, "nothing of the kind")
	require.Equal(t, "bob", sent[*deckhandv1.ListAuditEntriesRequest](t, h).GetActorId())
	h.control.entries = []*deckhandv1.AuditEntry{{
		Id: 7, Time: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), ActorId: "alice", Action: "task.paused",
		ObjectId: "task_a", Reason: "lunch", Address: "10.0.0.7",
	}}
	require.Regexp(t, `(?m)^2026-01-02T03:04:05Z +alice +task.paused +task_a +lunch$`, h.run(t, "audit", "list").stdout)
	require.Contains(t, h.run(t, "audit", "list", "-o", "wide").stdout, "10.0.0.7")
}
