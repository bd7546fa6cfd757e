package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

var patience = waittest.Limit(30 * time.Second)

func (r *rig) pause(id string, next bool) *deckhandv1.Task {
	r.t.Helper()
	res, err := r.user.Tasks.PauseTask(r.t.Context(), &deckhandv1.PauseTaskRequest{TaskId: id, Reason: "lunch", OnNextTool: next})
	require.NoError(r.t, err)
	return res.GetTask()
}

func (r *rig) resume(id string) *deckhandv1.Task {
	r.t.Helper()
	res, err := r.user.Tasks.ResumeTask(r.t.Context(), &deckhandv1.ResumeTaskRequest{TaskId: id})
	require.NoError(r.t, err)
	return res.GetTask()
}

func (r *rig) say(id, text, key string) (*deckhandv1.TellTaskResponse, error) {
	res, err := r.user.Tasks.TellTask(r.t.Context(), &deckhandv1.TellTaskRequest{TaskId: id, Text: text, IdempotencyKey: key})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (r *rig) checkpoint(lease *deckhandv1.Lease, iteration int32) []*deckhandv1.TaskMessage {
	r.t.Helper()
	state, err := structpb.NewStruct(map[string]any{"iteration": iteration, "opening": "go on"})
	require.NoError(r.t, err)
	res, err := r.workers.Workers.SaveCheckpoint(r.t.Context(), &deckhandv1.SaveCheckpointRequest{
		Lease: lease, Progress: 0.5, Checkpoint: &deckhandv1.Checkpoint{Iteration: iteration, State: state},
	})
	require.NoError(r.t, err)
	return res.GetMessages()
}

func (r *rig) kill(scope deckhandv1.KillScope, id string) *deckhandv1.KillResponse {
	r.t.Helper()
	res, err := r.user.Control.Kill(r.t.Context(), &deckhandv1.KillRequest{Scope: scope, ObjectId: id, Reason: "a test"})
	require.NoError(r.t, err)
	return res
}

func (r *rig) audited(action string) []*deckhandv1.AuditEntry {
	r.t.Helper()
	res, err := r.user.Audit.ListAuditEntries(r.t.Context(), &deckhandv1.ListAuditEntriesRequest{Action: action})
	require.NoError(r.t, err)
	return res.GetEntries()
}

// A paused task's command stands still and is neither lost nor run twice.
func TestPauseKeepsARunningCommandAndResumeFindsItAgain(t *testing.T) {
	t.Parallel()
	started, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, hubtest.Shared(t), func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
		close(started)
		<-goOn
		return "done\n", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	task, first, step := r.sleeping()
	<-started
	jail := "jail_" + strings.TrimPrefix(r.agent("walker").GetId(), "agent_")

	paused := r.pause(task.GetId(), false)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, paused.GetState())
	require.Contains(t, paused.GetReason(), "paused by admin: lunch")
	require.Contains(t, paused.GetReason(), "task resume")
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, r.pause(task.GetId(), false).GetState(), "pausing twice is harmless")
	require.Eventually(t, func() bool { return len(r.node.FrozenBy(jail)) == 1 }, patience, 5*time.Millisecond, "its jail to be frozen")
	_, err := r.propose(first, 1, 1, "shell_exec", `{"command":"true"}`)
	require.True(t, fault.Is(err, fault.Precondition), "the lease has ended: %v", err)

	other := r.submit("walker")
	require.Eventually(t, func() bool { return strings.Contains(r.task(other.GetId()).GetReason(), task.GetId()) }, patience, 10*time.Millisecond,
		"another task of the agent names the one that keeps the workspace")

	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, r.resume(task.GetId()).GetState())
	require.Eventually(t, func() bool { return len(r.node.FrozenBy(jail)) == 0 }, patience, 5*time.Millisecond, "its jail to be thawed")
	claimed := r.claim(task.GetId(), 2)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_STARTED, claimed.GetSteps()[0].GetState(), "what was started stays started")
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	close(goOn)
	done, err := r.execute(claimed.GetLease(), step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	require.Equal(t, 1, r.node.Runs(), "it ran once")

	entry := r.audited("task.paused")[0]
	require.Equal(t, "admin", entry.GetActorId())
	require.Equal(t, task.GetId(), entry.GetObjectId())
	require.NotEmpty(t, entry.GetAddress())
	require.Contains(t, entry.GetUserAgent(), "deckhand-sdk")
	require.Len(t, r.audited("task.queued"), 1)
}

// A task that is just starting, or waits in the queue, can be paused too.
func TestPauseOfATaskThatHasNotBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	r.claim(task.GetId(), 1)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, r.pause(task.GetId(), false).GetState())
	r.resume(task.GetId())
	r.finish(r.begin(task.GetId(), 2))
	_, err := r.user.Tasks.PauseTask(t.Context(), &deckhandv1.PauseTaskRequest{TaskId: task.GetId()})
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
}

// "pause on next tool call" freezes the agent after it has chosen a tool and
// before that tool runs.
func TestPauseOnTheNextToolCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("x"))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, r.pause(task.GetId(), true).GetState())
	require.Contains(t, r.task(task.GetId()).GetPauseNext(), "admin: lunch")
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_GRANTED, step.GetState())
	_, err = r.execute(lease, step.GetId())
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	now := r.task(task.GetId())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, now.GetState())
	require.Contains(t, now.GetReason(), step.GetId())
	require.Zero(t, r.node.Runs())

	r.resume(task.GetId())
	lease = r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	_, err = r.propose(lease, 1, 1, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, r.task(task.GetId()).GetState(), "it pauses once")

	r.pause(task.GetId(), true)
	r.resume(task.GetId())
	require.Empty(t, r.task(task.GetId()).GetPauseNext(), "the pause was withdrawn")
}

func texts(messages []*deckhandv1.TaskMessage) []string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%d %s", m.GetAfterTurn(), m.GetText()))
	}
	return out
}

// A message is bound to the turn after which the model gets it, whichever
// attempt asks.
func TestMessagesAreBoundToTheirTurn(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.LeaseTTL = waittest.Limit(2 * time.Second)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	task := r.submit("walker")
	_, err := r.say(task.GetId(), "first", "k")
	require.NoError(t, err)
	again, err := r.say(task.GetId(), "first", "k")
	require.NoError(t, err)
	require.EqualValues(t, 1, again.GetTask().GetMessagesWaiting(), "said once")

	claimed := r.claim(task.GetId(), 1)
	require.Equal(t, []string{"0 first"}, texts(claimed.GetMessages()))
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	r.turn(claimed.GetLease(), 1)
	_, err = r.say(task.GetId(), "second", "")
	require.NoError(t, err)
	require.Equal(t, []string{"1 second"}, texts(r.checkpoint(claimed.GetLease(), 1)))
	require.Equal(t, []string{"1 second"}, texts(r.checkpoint(claimed.GetLease(), 1)), "the answer may have been lost")
	_, err = r.say(task.GetId(), "third", "")
	require.NoError(t, err)

	// The worker dies; the next one asks the model the same.
	next := r.claim(task.GetId(), 2)
	require.Equal(t, []string{"0 first", "1 second", "1 third"}, texts(next.GetMessages()))
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: next.GetLease()})
	require.NoError(t, err)

	// Said as the agent ends: it is heard before the task is over.
	_, err = r.say(task.GetId(), "fourth", "")
	require.NoError(t, err)
	r.finish(next.GetLease())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, r.task(task.GetId()).GetState())
	last := r.claim(task.GetId(), 3)
	require.Equal(t, []string{"0 first", "1 second", "1 third", "1 fourth"}, texts(last.GetMessages()))

	// Paused: it wakes the agent.
	r.pause(task.GetId(), false)
	told, err := r.say(task.GetId(), "fifth", "")
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, told.GetTask().GetState())

	r.finish(r.begin(task.GetId(), 4))
	_, err = r.say(task.GetId(), "too late", "")
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "resume-from")

	// Idle: a new task.
	res, err := r.user.Agents.TellAgent(t.Context(), &deckhandv1.TellAgentRequest{AgentId: "walker", Text: "walk again"})
	require.NoError(t, err)
	require.True(t, res.GetCreated())
	require.Equal(t, "walk again", res.GetTask().GetGoal())
	r.begin(res.GetTask().GetId(), 1)
	res, err = r.user.Agents.TellAgent(t.Context(), &deckhandv1.TellAgentRequest{AgentId: "walker", Text: "faster"})
	require.NoError(t, err)
	require.False(t, res.GetCreated())
	require.EqualValues(t, 1, res.GetTask().GetMessagesWaiting())
}

// A finished task is retried as a new one of its lineage; an escalated
// one goes back into the queue.
func TestRetry(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.LeaseTTL, cfg.AnthropicKey = waittest.Limit(time.Second), "the-provider-key"
	r := newRig(t, hubtest.Start(t, cfg), nil)
	origin := r.submit("walker")
	r.finish(r.begin(origin.GetId(), 1))
	retry := func(id, key string, o *deckhandv1.TaskOverride) (*deckhandv1.Task, error) {
		res, err := r.user.Tasks.RetryTask(t.Context(), &deckhandv1.RetryTaskRequest{TaskId: id, IdempotencyKey: key, Override: o})
		if err != nil {
			return nil, err
		}
		return res.GetTask(), nil
	}
	second, err := retry(origin.GetId(), "again", &deckhandv1.TaskOverride{MemoryBytes: 8 << 30, NodeId: "sim"})
	require.NoError(t, err)
	require.NotEqual(t, origin.GetId(), second.GetId())
	require.Equal(t, origin.GetId(), second.GetOriginId())
	require.Equal(t, origin.GetId(), second.GetLineageId())
	require.EqualValues(t, 8<<30, second.GetOverride().GetMemoryBytes())
	require.Equal(t, r.node.ID(), second.GetOverride().GetNodeId())
	same, err := retry(origin.GetId(), "again", nil)
	require.NoError(t, err)
	require.Equal(t, second.GetId(), same.GetId(), "retried once")
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, r.task(origin.GetId()).GetState())
	_, err = retry(origin.GetId(), "", &deckhandv1.TaskOverride{Provider: "anthropic"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	for attempt := int32(1); attempt <= 5; attempt++ {
		r.claim(second.GetId(), attempt)
	}
	require.Eventually(t, func() bool {
		return r.task(second.GetId()).GetState() == deckhandv1.TaskState_TASK_STATE_ESCALATED
	}, patience, 20*time.Millisecond)
	_, err = retry(second.GetId(), "", &deckhandv1.TaskOverride{Provider: "mistral", Model: "mistral-small-latest"})
	require.ErrorContains(t, err, "agent walker cannot run: provider mistral is not connected")
	back, err := retry(second.GetId(), "", &deckhandv1.TaskOverride{Provider: "anthropic", Model: "claude-sonnet-4-5"})
	require.NoError(t, err)
	require.Equal(t, second.GetId(), back.GetId())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, back.GetState())
	require.Equal(t, "claude-sonnet-4-5", back.GetModel())
	claimed := r.claim(second.GetId(), 6)
	require.Equal(t, "anthropic", claimed.GetTask().GetProvider())
	require.EqualValues(t, 8<<30, claimed.GetTask().GetOverride().GetMemoryBytes(), "what was overridden before stays")
}

// A new task goes on from an older checkpoint, with the turns and
// steps up to there as its past.
// points describes checkpoints.
func points(list *deckhandv1.ListCheckpointsResponse) (out []string) {
	for _, c := range list.GetCheckpoints() {
		out = append(out, fmt.Sprintf("%d %s %s %s", c.GetIteration(), c.GetPhase(), c.GetReason(), c.GetName()))
	}
	return out
}

// A point at which a turn is chosen is a checkpoint: a new task makes the calls of that turn
// itself, with the state of the iteration before; to keep it keeps that state, too. The
// organisation says how long others are kept.
func TestResumeWhereATurnWasChosen(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	r := newRig(t, h, output("x"))
	r.apply("walker", scripted("walker"))
	r.sql("UPDATE organisations SET checkpoint_seconds = 2 * 86400 RETURNING id")
	origin := r.submit("walker")
	lease := r.begin(origin.GetId(), 1)
	for turn := int32(1); turn <= 3; turn++ {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", fmt.Sprintf(`{"command":"echo %d"}`, turn))
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		r.checkpoint(lease, turn)
	}
	r.finish(lease)
	list := do(t, r.user.Tasks.ListCheckpoints, &deckhandv1.ListCheckpointsRequest{TaskId: origin.GetId(), PageSize: 2})
	require.Equal(t, []string{"3 iterate auto ", "2 select_tool phase "}, points(list))
	next := do(t, r.user.Tasks.ListCheckpoints, &deckhandv1.ListCheckpointsRequest{TaskId: origin.GetId(), PageSize: 2, PageToken: list.GetNextPageToken()})
	require.Equal(t, []string{"2 iterate auto ", "1 select_tool phase "}, points(next))
	chosen := list.GetCheckpoints()[1]
	require.InDelta(t, 48, time.Until(chosen.GetExpiresAt().AsTime()).Hours(), 1)

	kept := do(t, r.user.Tasks.KeepCheckpoint, &deckhandv1.KeepCheckpointRequest{TaskId: origin.GetId(), CheckpointId: chosen.GetId()}).GetCheckpoint()
	require.Equal(t, chosen.GetId(), kept.GetId())
	require.Equal(t, "manual", kept.GetReason())
	require.InDelta(t, 7*24, time.Until(kept.GetExpiresAt().AsTime()).Hours(), 1)
	r.exec("UPDATE checkpoints SET expires_at = now() - interval '1 second' WHERE expires_at < now() + interval '3 days'")
	_, err := r.store().ExpireCheckpoints(t.Context())
	require.NoError(t, err)
	left := do(t, r.user.Tasks.ListCheckpoints, &deckhandv1.ListCheckpointsRequest{TaskId: origin.GetId()})
	require.Equal(t, []string{"2 select_tool manual ", "2 iterate manual "}, points(left))

	task := do(t, r.user.Tasks.ResumeTaskFrom, &deckhandv1.ResumeTaskFromRequest{
		TaskId: origin.GetId(), CheckpointId: chosen.GetId(), Workspace: deckhandv1.ResumeWorkspace_RESUME_WORKSPACE_KEEP,
	}).GetTask()
	require.True(t, task.GetResumedTurn())
	claimed := r.claim(task.GetId(), 1)
	require.Len(t, claimed.GetTurns(), 3, "with the turn that was chosen")
	require.Len(t, claimed.GetSteps(), 2, "without its call")
	require.EqualValues(t, 2, claimed.GetCheckpoint().GetIteration())
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	step, err := r.propose(claimed.GetLease(), 3, 0, "shell_exec", `{"command":"echo 3"}`)
	require.NoError(t, err)
	_, err = r.execute(claimed.GetLease(), step.GetId())
	require.NoError(t, err)
	r.checkpoint(claimed.GetLease(), 3)
	r.turn(claimed.GetLease(), 4)
	r.finish(claimed.GetLease())

	_, err = r.user.Tasks.ResumeTaskFrom(t.Context(), &deckhandv1.ResumeTaskFromRequest{TaskId: origin.GetId(), CheckpointId: "checkpoint_none"})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestResumeFromACheckpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("x"))
	r.apply("walker", strings.Replace(scripted("walker"), "[shell_exec,", "[checkpoint, shell_exec,", 1))
	origin := r.submit("walker")
	lease := r.begin(origin.GetId(), 1)
	for turn := int32(1); turn <= 3; turn++ {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", fmt.Sprintf(`{"command":"echo %d"}`, turn))
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		if turn == 2 {
			step, err = r.propose(lease, turn, 1, "checkpoint", `{"name":"half way"}`)
			require.NoError(t, err)
			_, err = r.execute(lease, step.GetId())
			require.NoError(t, err)
		}
		_, err = r.say(origin.GetId(), fmt.Sprintf("after %d", turn), "")
		require.NoError(t, err)
		r.checkpoint(lease, turn)
	}
	r.finish(lease)
	list, err := r.user.Tasks.ListCheckpoints(t.Context(), &deckhandv1.ListCheckpointsRequest{TaskId: origin.GetId()})
	require.NoError(t, err)
	require.Equal(t, []string{"3 iterate auto ", "2 select_tool phase ", "2 iterate agent half way", "1 select_tool phase ", "1 iterate auto "}, points(list))
	require.InDelta(t, 7*24, time.Until(list.GetCheckpoints()[2].GetExpiresAt().AsTime()).Hours(), 1)
	require.InDelta(t, 24, time.Until(list.GetCheckpoints()[3].GetExpiresAt().AsTime()).Hours(), 1)
	kept, err := r.user.Tasks.KeepCheckpoint(t.Context(), &deckhandv1.KeepCheckpointRequest{TaskId: origin.GetId(), Iteration: 2})
	require.NoError(t, err)
	require.Equal(t, "agent", kept.GetCheckpoint().GetReason())
	require.InDelta(t, 7*24, time.Until(kept.GetCheckpoint().GetExpiresAt().AsTime()).Hours(), 1)

	from := func(id string, iteration int32, text string) (*deckhandv1.Task, error) {
		res, err := r.user.Tasks.ResumeTaskFrom(t.Context(), &deckhandv1.ResumeTaskFromRequest{
			TaskId: id, Iteration: iteration, Message: text,
		})
		if err != nil {
			return nil, err
		}
		return res.GetTask(), nil
	}
	_, err = from(origin.GetId(), 9, "")
	require.ErrorContains(t, err, "no checkpoint 9")
	_, err = from(origin.GetId(), 0, "")
	require.ErrorContains(t, err, "--message", "where the agent ended there is nothing to go on with")

	named := &deckhandv1.ResumeTaskFromRequest{TaskId: origin.GetId(), Name: "half", Message: "the other way"}
	_, err = r.user.Tasks.ResumeTaskFrom(t.Context(), named)
	require.ErrorContains(t, err, `no checkpoint named "half"`)
	named.Name = "half way"
	res, err := r.user.Tasks.ResumeTaskFrom(t.Context(), named)
	require.NoError(t, err)
	task := res.GetTask()
	require.Equal(t, origin.GetId(), task.GetLineageId())
	claimed := r.claim(task.GetId(), 1)
	require.Len(t, claimed.GetTurns(), 2)
	require.Len(t, claimed.GetSteps(), 3)
	require.EqualValues(t, 2, claimed.GetCheckpoint().GetIteration())
	require.Equal(t, "go on", claimed.GetCheckpoint().GetState().GetFields()["opening"].GetStringValue())
	require.Equal(t, []string{"1 after 1", "2 the other way"}, texts(claimed.GetMessages()))
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	r.turn(claimed.GetLease(), 3)
	step, err := r.propose(claimed.GetLease(), 3, 0, "shell_exec", `{"command":"echo other"}`)
	require.NoError(t, err)
	_, err = r.execute(claimed.GetLease(), step.GetId())
	require.NoError(t, err)
	r.checkpoint(claimed.GetLease(), 3)
	r.finish(claimed.GetLease())
	require.Equal(t, 4, r.node.Runs(), "nothing of the past ran again")

	// Again from there: the past has two owners now.
	third, err := from(task.GetId(), 3, "and on")
	require.NoError(t, err)
	require.Equal(t, origin.GetId(), third.GetLineageId())
	claimed = r.claim(third.GetId(), 1)
	require.Len(t, claimed.GetTurns(), 3)
	require.Len(t, claimed.GetSteps(), 4)
	require.Equal(t, step.GetId(), claimed.GetSteps()[3].GetId())
}

// Checkpoints expire, but never the one that a live task goes on from.
func TestCheckpointsExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	for turn := int32(1); turn <= 3; turn++ {
		r.turn(lease, turn)
		r.checkpoint(lease, turn)
	}
	s, err := store.Open(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	r.exec(`UPDATE checkpoints SET expires_at = now() - interval '1 minute' WHERE iteration <> 2`)
	n, err := s.ExpireCheckpoints(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "the end of iteration 1, and where the turn behind it was chosen")
	r.finish(lease)
	n, err = s.ExpireCheckpoints(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	list, err := r.user.Tasks.ListCheckpoints(t.Context(), &deckhandv1.ListCheckpointsRequest{TaskId: task.GetId()})
	require.NoError(t, err)
	require.Equal(t, []string{"2 select_tool phase ", "2 iterate auto "}, points(list))
}

// The session of a browser is kept as long as a checkpoint has it that somebody or the agent
// wants; of others, a trace stays, so that it is not taken for none.
func TestSessionsOfCheckpointsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	task := r.submit("walker").GetId()
	lease := r.begin(task, 1)
	for turn := int32(1); turn <= 3; turn++ {
		r.turn(lease, turn)
		r.checkpoint(lease, turn)
	}
	r.exec(`UPDATE checkpoints SET reason = 'agent' WHERE iteration = 2 AND phase = 'iterate'`)
	r.exec(`INSERT INTO browser_sessions (task_id, number, turn, org_id, sealed, summary, created_at)
		SELECT '` + task + `', n, CASE WHEN n <= 5 THEN 1 WHEN n <= 10 THEN 2 ELSE 3 END, 'org_default', 'x', '{}', now() - interval '8 days' FROM generate_series(1, 60) AS n`)
	kept := func() (out string) {
		return r.sql(`SELECT coalesce(string_agg(number::text, ' ' ORDER BY number), '') FROM browser_sessions WHERE octet_length(sealed) > 0`)
	}
	_, err := r.store().PruneBrowserSessions(t.Context(), db.PruneBrowserSessionsParams{OrgID: "org_default", TaskID: task, Most: 5})
	require.NoError(t, err)
	require.Equal(t, "10 56 57 58 59 60", kept(), "the newest, and the last one before the end of iteration 2")
	row, err := r.store().BrowserSession(t.Context(), db.BrowserSessionParams{OrgID: "org_default", TaskID: task, UpToTurn: 1})
	require.NoError(t, err)
	require.EqualValues(t, 5, row.Number)
	require.Empty(t, row.Sealed)

	_, err = r.store().ExpireBrowserSessions(t.Context(), 7*24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, "10 60", kept(), "checkpoints have them")
	r.finish(lease)
	r.exec(`DELETE FROM checkpoints`)
	r.exec(`UPDATE tasks SET finished_at = now() - interval '8 days'`)
	_, err = r.store().ExpireBrowserSessions(t.Context(), 7*24*time.Hour)
	require.NoError(t, err)
	require.Empty(t, kept())
}
