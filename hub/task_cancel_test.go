package hub_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A filter cancels tasks: one's own, or as an administrator all; only those that a dry run
// has shown, at most as many as asked for, and on record.
func TestAFilterCancelsTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("other", scripted("other"))
	ann := r.as("ann", "basic")
	var mine []string
	for range 4 {
		mine = append(mine, r.submit("walker").GetId())
	}
	theirs := do(t, ann.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "go on"}).GetTask().GetId()
	elsewhere := r.submit("other").GetId()
	of := func(id string) deckhandv1.TaskState { return r.task(id).GetState() }

	shown := do(t, r.user.Tasks.CancelTasks, &deckhandv1.CancelTasksRequest{AgentId: "walker", DryRun: true, Limit: 3})
	require.Equal(t, []string{theirs, mine[3], mine[2]}, ids(shown.GetTasks()), "the newest first")
	require.EqualValues(t, 2, shown.GetLeft().GetCount())
	require.False(t, shown.GetLeft().GetAtLeast())
	for _, id := range append(mine, theirs) {
		require.NotEqual(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, of(id), "a dry run changes nothing")
	}
	require.Empty(t, r.audited("tasks.cancelled"))

	// A user's filter picks their own tasks only.
	done := do(t, ann.Tasks.CancelTasks, &deckhandv1.CancelTasksRequest{AgentId: "walker", Reason: "enough"})
	require.Equal(t, []string{theirs}, ids(done.GetTasks()))
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, done.GetTasks()[0].GetState())
	require.Contains(t, done.GetTasks()[0].GetReason(), "enough")
	require.Zero(t, done.GetLeft().GetCount())

	// A repetition with the same key cancels nothing more.
	keyed := sdk.WithIdempotencyKey(t.Context(), "bulk-1")
	request := &deckhandv1.CancelTasksRequest{AgentId: "walker", Limit: 3, Reason: "a test"}
	first, err := r.user.Tasks.CancelTasks(keyed, request)
	require.NoError(t, err)
	require.Equal(t, []string{mine[3], mine[2], mine[1]}, ids(first.GetTasks()))
	require.EqualValues(t, 1, first.GetLeft().GetCount())
	again, err := r.user.Tasks.CancelTasks(keyed, request)
	require.NoError(t, err)
	require.Equal(t, ids(first.GetTasks()), ids(again.GetTasks()))
	require.NotEqual(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, of(mine[0]))
	require.NotEqual(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, of(elsewhere))
	audited := r.audited("tasks.cancelled")
	require.Len(t, audited, 2)
	require.Equal(t, "a test", audited[0].GetReason())
	require.Len(t, audited[0].GetAfter().GetFields()["tasks"].GetListValue().GetValues(), 3)
	filter := audited[0].GetAfter().GetFields()["filter"].GetStructValue().GetFields()
	require.Equal(t, "walker", filter["agent_id"].GetStringValue())
	require.EqualValues(t, 3, filter["limit"].GetNumberValue())
	require.NotEmpty(t, r.audited("task.cancelled"), "and each by itself")

	for _, bad := range []*deckhandv1.CancelTasksRequest{
		{}, {Query: "  "}, {Reason: "all of them"}, {AgentId: "walker", States: []deckhandv1.TaskState{deckhandv1.TaskState_TASK_STATE_SUCCEEDED}}, {AgentId: "walker", Limit: 501},
	} {
		_, err := r.user.Tasks.CancelTasks(t.Context(), bad)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%v: %v", bad, err)
	}
	res, body := restCall(t, http.MethodPost, r.URL()+"/v1/tasks:cancel", r.AdminToken, map[string]any{"agentId": "walker", "dryRun": true}, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Contains(t, string(body), mine[0])
}

// A task says what it does at the moment.
func TestATaskHasItsCurrentStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, _ := r.park("asker", "shell_exec", `{"command":"rm -rf build"}`)
	now := r.task(task.GetId()).GetCurrentStep()
	require.Equal(t, step.GetId(), now.GetId())
	require.EqualValues(t, 1, now.GetNumber())
	require.Equal(t, "shell_exec", now.GetTool())
	require.Equal(t, "shell_exec rm -rf build", now.GetTitle())
	require.Equal(t, deckhandv1.StepState_STEP_STATE_WAITING, now.GetState())
	require.WithinDuration(t, step.GetProposedAt().AsTime(), now.GetSince().AsTime(), 0)
	r.cancel(task.GetId())
	require.Nil(t, r.task(task.GetId()).GetCurrentStep(), "it has ended")
}
