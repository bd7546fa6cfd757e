package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A subtask in the background does not make its parent wait. The parent gets its result with
// wait, for which it needs no slot, also from the agent to which the work was handed over.
func TestASubtaskRunsInTheBackground(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, "", "")
	step := r.give(lease, 1, 0, "delegate", `{"agent":"hand","goal":"count the lines","background":true}`)
	require.Equal(t, stepSucceeded, step.GetState(), "%v", step)
	child := r.below(boss.GetId())[0].GetId()
	require.Contains(t, step.GetObservation(), fmt.Sprintf(`wait {"seconds": 3600, "task": "%s"}`, child))

	r.turn(lease, 2)
	soon := r.give(lease, 2, 0, "wait", fmt.Sprintf(`{"seconds":1,"task":%q}`, child))
	require.Equal(t, stepSucceeded, soon.GetState())
	require.Equal(t, "waited 1s, but not until "+child+" ends", soon.GetObservation())
	none := r.give(lease, 2, 1, "wait", `{"seconds":3600,"task":"task_none"}`)
	require.Contains(t, none.GetObservation(), `your task has no subtask "task_none": use the id that create_subtask or delegate returned`, "it is not waited for")
	none = r.give(lease, 2, 2, "wait", `{"seconds":3600,"job":"job_none"}`)
	require.Contains(t, none.GetObservation(), `this task has no job "job_none"`)

	r.turn(lease, 3)
	step = r.give(lease, 3, 0, "wait", fmt.Sprintf(`{"seconds":3600,"task":%q}`, child))
	require.Equal(t, stepWaiting, step.GetState(), "%v", step)
	require.NoError(t, r.yield(lease))
	parent := r.task(boss.GetId())
	require.Equal(t, taskWaits, parent.GetState())
	require.Contains(t, parent.GetReason(), "or until "+child+" ends")

	r.finish(r.begin(child, 1))
	r.awaitTask(boss.GetId(), taskQueued)
	lease = r.begin(boss.GetId(), 2)
	waittest.Until(t, time.Minute, "people to see that the subtask has ended", func() bool {
		return slices.Contains(r.types(boss.GetId()), "agent.subtask.ended")
	})
	step = r.give(lease, 3, 0, "wait", fmt.Sprintf(`{"seconds":3600,"task":%q}`, child))
	require.Equal(t, stepSucceeded, step.GetState(), "%v", step)
	require.Regexp(t, `^waited \d+s; `+child+` has ended\ntask `+child+` of agent hand ended as succeeded after 0 iterations, for 0.0000 USD. Its summary:\ndone$`, step.GetObservation())
}

// A subtask that is partly done is no mere failure to its parent: it gets the summary, with
// what is left.
func TestAParentIsToldWhatItsSubtaskHasLeft(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, "", "")
	step := r.give(lease, 1, 0, "delegate", `{"agent":"hand","goal":"count the lines"}`)
	require.Equal(t, stepWaiting, step.GetState(), "%v", step)
	require.NoError(t, r.yield(lease))
	child := r.below(boss.GetId())[0].GetId()
	_, err := r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: r.begin(child, 1), State: taskFailed, ErrorCode: string(fault.PartlyDone), ErrorMessage: "the agent did a part of it: a.txt has 42 lines",
		Reason: "partly done: read what is left in the summary", Summary: "a.txt has 42 lines\n\nLeft over:\n- b.txt",
	})
	require.NoError(t, err)
	r.awaitTask(boss.GetId(), taskQueued)
	step = r.give(r.begin(boss.GetId(), 2), 1, 0, "delegate", `{"agent":"hand","goal":"count the lines"}`)
	require.Equal(t, stepFailed, step.GetState())
	require.Equal(t, "AGENT_029", step.GetErrorCode())
	require.Contains(t, step.GetObservation(), "is partly done after 0 iterations")
	require.Contains(t, step.GetObservation(), "Its files are kept. Its summary, with what is left to do:\na.txt has 42 lines\n\nLeft over:\n- b.txt")
}
