package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// A task that waits for a person holds no slot: another one runs on the only
// slot in the meantime, and the first continues with the same history
// afterwards.
func TestATaskThatWaitsForAPersonHoldsNoSlot(t *testing.T) {
	t.Parallel()
	const asks = `
turns:
  - calls: [{tool: shell_exec, arguments: {command: ask}}]
  - calls: [{tool: complete_task, arguments: {summary: finished}}]
`
	hub := hubtest.New(t, hubtest.Config{Waits: func(c hubtest.Call) bool { return c.Arguments["command"] == "ask" }})
	start(t, hub, func(c *worker.Config) { c.Slots = 1 })
	submit(t, hub, "task_1", asks)
	hub.Wake(t, "task_1")
	parked := hub.WaitState(t, "task_1", deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL)
	require.Empty(t, parked.Runs)
	require.Len(t, parked.Turns, 1)

	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_2")
	hub.WaitState(t, "task_2", succeeded)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, hub.Task("task_1").Task.GetState())

	hub.Approve("task_1")
	hub.Wake(t, "task_1")
	task := hub.WaitState(t, "task_1", succeeded)
	require.EqualValues(t, 2, task.Task.GetAttempt())
	require.Equal(t, map[string]int{"step_task_1_1": 1, "step_task_1_2": 1}, task.Runs)
	require.Equal(t, parked.Turns[0].GetBlocks()[0].String(), task.Turns[0].GetBlocks()[0].String())
	require.Len(t, task.Turns, 2, "no turn is taken twice")
	require.Equal(t, 1, hub.Calls("YieldTask"))
	require.Zero(t, task.Released)
}
