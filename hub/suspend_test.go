package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) end(lease *deckhandv1.Lease, state deckhandv1.TaskState, code fault.Code, limit string) {
	r.t.Helper()
	_, err := r.workers.Workers.FinishTask(r.t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: lease, State: state, Reason: "so it ended", ErrorCode: string(code), ErrorMessage: "it ended", Limit: limit,
	})
	require.NoError(r.t, err)
}

func (r *rig) acknowledge(name string) {
	r.t.Helper()
	_, err := r.user.Agents.ResumeAgent(r.t.Context(), &deckhandv1.ResumeAgentRequest{AgentId: name})
	require.NoError(r.t, err)
	require.Equal(r.t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent(name).GetStatus())
}

// Tasks that failed in a row for reasons of the agent's own suspend it, never one alone: it
// runs nothing until a person acknowledges it, and says which it was, since when, and what
// to do. Resuming the task that it came of lifts it.
func TestWhatSuspendsAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	failed, paused := deckhandv1.TaskState_TASK_STATE_FAILED, deckhandv1.TaskState_TASK_STATE_PAUSED
	for _, c := range []struct {
		state deckhandv1.TaskState
		code  fault.Code
		limit string
		why   string
	}{
		{failed, fault.MaxIterations, "iterations", ": it reached the limit of its iterations"},
		{paused, fault.MaxIterations, "iterations", ": it reached the limit of its iterations"},
		{failed, fault.BudgetLimit, "cost_usd", ": it reached the limit of its cost"},
		{paused, fault.Stuck, "", ": it went round in circles"},
		{failed, fault.GivenUp, "", ""},
	} {
		for range 2 {
			r.end(r.begin(r.submit("walker").GetId(), 1), failed, fault.ToolFailed, "")
			require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
		}
		task := r.submit("walker")
		begun := time.Now()
		r.end(r.begin(task.GetId(), 1), c.state, c.code, c.limit)
		a := r.agent("walker")
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_ERROR_SUSPENDED, a.GetStatus())
		require.Equal(t, "task "+task.GetId()+" was the last of 3 in a row that failed"+c.why+" (deckhand task show "+task.GetId()+")", a.GetStatusReason())
		require.WithinRange(t, a.GetStatusSince().AsTime(), begun.Add(-time.Minute), time.Now().Add(time.Minute))
		events := r.events(task.GetId(), false)
		var told []string
		for _, e := range events {
			if e.GetType() == "agent.suspended" {
				told = append(told, e.GetPayload().GetFields()["fix"].GetStringValue())
			}
		}
		require.Equal(t, []string{"deckhand agent resume walker"}, told)
		waits := r.submit("walker")
		require.Eventually(t, func() bool {
			reason := r.task(waits.GetId()).GetReason()
			return strings.HasPrefix(reason, "agent walker is error_suspended: task "+task.GetId()) && strings.HasSuffix(reason, "go on with: deckhand agent resume walker")
		}, patience, 10*time.Millisecond)
		if c.state == paused {
			_, err := r.user.Tasks.ResumeTask(t.Context(), &deckhandv1.ResumeTaskRequest{TaskId: task.GetId()})
			require.NoError(t, err)
			require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
			// Its workspace is free again.
			_, err = r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: task.GetId()})
			require.NoError(t, err)
		} else {
			r.acknowledge("walker")
		}
		r.finish(r.begin(waits.GetId(), 1))
	}
	require.Len(t, r.audited("agent.suspended"), 5)
}

// One task counts once, however often it reaches its limit and is let have more; and what
// is the fault of a provider, a node or a person does not count.
func TestWhatDoesNotSuspendAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	for _, code := range []fault.Code{fault.ModelUnavailable, fault.CredentialInvalid, fault.NodeUnavailable, fault.InputTimeout} {
		r.end(r.begin(r.submit("walker").GetId(), 1), deckhandv1.TaskState_TASK_STATE_FAILED, code, "")
	}
	task := r.submit("walker")
	for i := range 4 {
		r.end(r.begin(task.GetId(), int32(i+1)), deckhandv1.TaskState_TASK_STATE_PAUSED, fault.MaxIterations, "iterations") //nolint:gosec // few
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
		_, err := r.user.Tasks.ResumeTask(t.Context(), &deckhandv1.ResumeTaskRequest{TaskId: task.GetId()})
		require.NoError(t, err)
	}
}

// A run that its agent ended with a part done is over, keeps its result, and does not
// count against the agent.
func TestAPartlyDoneRunDoesNotSuspend(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	for range 4 {
		task := r.submit("walker")
		_, err := r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
			Lease: r.begin(task.GetId(), 1), State: deckhandv1.TaskState_TASK_STATE_FAILED, Reason: "partly done",
			ErrorCode: string(fault.PartlyDone), ErrorMessage: "a part of it", Summary: "half of it",
		})
		require.NoError(t, err)
		ended := r.task(task.GetId())
		require.Equal(t, deckhandv1.TaskState_TASK_STATE_FAILED, ended.GetState())
		require.Equal(t, "half of it", ended.GetSummary())
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
	}
}

// Three runs that failed in a row suspend it, by default; one that succeeds
// between them, or a person who looks, begins the count anew.
func TestFailuresInARowSuspendAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	fail := func() deckhandv1.AgentStatus {
		r.end(r.begin(r.submit("walker").GetId(), 1), deckhandv1.TaskState_TASK_STATE_FAILED, fault.ToolFailed, "")
		return r.agent("walker").GetStatus()
	}
	const idle, suspended = deckhandv1.AgentStatus_AGENT_STATUS_IDLE, deckhandv1.AgentStatus_AGENT_STATUS_ERROR_SUSPENDED
	require.Equal(t, idle, fail())
	require.Equal(t, idle, fail())
	r.finish(r.begin(r.submit("walker").GetId(), 1))
	require.Equal(t, idle, fail())
	require.Equal(t, idle, fail())
	require.Equal(t, suspended, fail())
	require.Contains(t, r.agent("walker").GetStatusReason(), "was the last of 3 in a row that failed")
	r.acknowledge("walker")
	require.Equal(t, idle, fail())
}

// An admin lets a run that stands at a limit have more, and nobody else; its
// worker is told, and its budget follows.
func TestAnAdminLetsARunHaveMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	r.end(r.begin(task.GetId(), 1), deckhandv1.TaskState_TASK_STATE_PAUSED, fault.BudgetLimit, "calls")
	require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, r.agent("walker").GetStatus())
	limits := &deckhandv1.TaskLimits{Calls: 2000, CostMicros: 25_000_000}
	ask := &deckhandv1.ResumeTaskRequest{TaskId: task.GetId(), Limits: limits}
	_, err := r.as("ann", "advanced").Tasks.ResumeTask(t.Context(), ask)
	require.True(t, fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound), "%v", err)
	_, err = r.user.Tasks.ResumeTask(t.Context(), &deckhandv1.ResumeTaskRequest{TaskId: task.GetId(), Limits: &deckhandv1.TaskLimits{Iterations: 1001}})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = r.user.Tasks.ResumeTask(t.Context(), ask)
	require.NoError(t, err)
	claimed := r.claim(task.GetId(), 2)
	require.EqualValues(t, 2000, claimed.GetTask().GetOverride().GetLimits().GetCalls())
	list, err := r.user.Budgets.GetBudget(t.Context(), &deckhandv1.GetBudgetRequest{Scope: "task", ObjectId: task.GetId()})
	require.NoError(t, err)
	require.EqualValues(t, 25_000_000, list.GetBudget().GetLimitMicros())
	require.Len(t, r.audited("task.limits_lifted"), 1)
}
