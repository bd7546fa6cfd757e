package hub_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// AGENT_017: where nobody knows the outcome a person decides; a
// retry runs under another name, since the first is spent.
func TestAnUnknownOutcomeWaitsForAPerson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		end   nodev1.EndReason
		req   *deckhandv1.AnswerInboxItemRequest
		state deckhandv1.StepState
		runs  int
		says  string
	}{
		{"retry", nodev1.EndReason_END_REASON_UNKNOWN, &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Retry_{}}, stepSucceeded, 2, "did it"},
		{"skip", nodev1.EndReason_END_REASON_JAIL_LOST, &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Skip_{}}, stepSkipped, 1, "Nobody knows whether it took effect"},
		{"it succeeded", nodev1.EndReason_END_REASON_UNKNOWN, &deckhandv1.AnswerInboxItemRequest{
			Reason: "the rocket is gone", Answer: &deckhandv1.AnswerInboxItemRequest_Resolve_{Resolve: &deckhandv1.AnswerInboxItemRequest_Resolve{Succeeded: true}},
		}, stepSucceeded, 1, "the rocket is gone"},
		{"it failed", nodev1.EndReason_END_REASON_UNKNOWN, &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Resolve_{}}, stepFailed, 1, "says that this call failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			node := ran{end: []nodev1.EndReason{c.end}}
			r := newRig(t, hubtest.Shared(t), node.run)
			task := r.submit("walker")
			lease := r.begin(task.GetId(), 1)
			r.turn(lease, 1)
			step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"launch"}`)
			require.NoError(t, err)
			done, err := r.execute(lease, step.GetId())
			require.NoError(t, err)
			require.Equal(t, stepUnknown, done.GetState())
			require.Equal(t, string(fault.OutcomeUnknown), done.GetErrorCode())
			require.True(t, fault.Is(r.yield(lease), fault.Precondition), "it holds no slot any more")
			parked := r.task(task.GetId())
			require.Equal(t, taskAwaiting, parked.GetState())
			require.Contains(t, parked.GetReason(), step.GetId())
			item := r.item(task.GetId())
			require.Nil(t, item.GetExpiresAt(), "it waits however long it takes")
			require.Contains(t, item.GetEvidence(), "did it")
			_, err = r.answer(approve(item.GetId(), ""))
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)

			c.req.ItemId = item.GetId()
			_, err = r.answer(c.req)
			require.NoError(t, err)
			lease = r.begin(task.GetId(), 2)
			done, err = r.execute(lease, step.GetId())
			require.NoError(t, err)
			require.Equal(t, c.state, done.GetState())
			require.Contains(t, done.GetObservation(), c.says)
			require.Len(t, node.all(), c.runs)
			require.Equal(t, step.GetId(), node.ids[0])
			if c.runs == 2 {
				require.Equal(t, step.GetId()+"_2", node.ids[1])
				require.Equal(t, node.ids[1], done.GetExecId())
				log, err := nodeLog(t, r.user, &deckhandv1.ReadNodeLogRequest{ExecId: step.GetId()})
				require.NoError(t, err)
				require.Equal(t, "did it as "+node.ids[1]+"\n", log["stdout"], "the log of a step is that of its last run")
			}
			r.finish(lease)
		})
	}
}

// What was recorded and never started is safe to run, and runs.
func TestACommandThatWasNeverStartedRuns(t *testing.T) {
	t.Parallel()
	node := ran{end: []nodev1.EndReason{nodev1.EndReason_END_REASON_NOT_STARTED}}
	r := newRig(t, hubtest.Shared(t), node.run)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, []string{step.GetId(), step.GetId() + "_2"}, node.ids)
}

// Anything bound that changes between grant and use asks again.
func TestAChangedCallIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"true"}`)
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	// The task moves to a newer version of its persona, with another jail.
	r.apply("asker", strings.Replace(asking("asker", "tools: [shell_exec]"), "limits:", "jail: {memory: 1GiB}\nlimits:", 1))
	r.sql("UPDATE tasks SET agent_version = 2 WHERE id = $1 RETURNING id", task.GetId())
	lease := r.begin(task.GetId(), 2)
	again, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepWaiting, again.GetState())
	require.Empty(t, node.all())
	second := r.item(task.GetId())
	require.NotEqual(t, item.GetId(), second.GetId())
	require.Contains(t, second.GetWhy(), "has changed since: jail, persona")
	require.NoError(t, r.yield(lease))
	_, err = r.answer(approve(second.GetId(), ""))
	require.NoError(t, err)
	lease = r.begin(task.GetId(), 3)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Len(t, node.all(), 1)
}
