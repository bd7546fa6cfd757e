package loop_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// An agent that goes round in circles is told so once, and paused within three
// iterations, with what a person can do. When somebody lets it continue it has a
// new chance.
func TestAnAgentInACircleIsNudgedThenPaused(t *testing.T) {
	t.Parallel()
	const text = `
turns:
  - {name: again, next: again, calls: [{tool: shell_exec, arguments: {command: "make all # once more"}}]}
`
	b := newBench(t, hubtest.Config{Exec: func(hubtest.Call) hubtest.Result {
		return hubtest.Result{Observation: "exit status 2\nmake: no rule to make target all", Failed: true, Code: fault.CommandFailed}
	}})
	out := b.run(text)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, out.State)
	require.Equal(t, fault.Stuck, out.Code)
	require.Contains(t, out.Reason, "deckhand task resume "+taskID)
	require.Contains(t, out.Reason, "deckhand task message "+taskID)
	task := b.hub.Task(taskID)
	require.Len(t, task.Turns, 6)
	nudges := events(task, "guardrail_nudge")
	require.Len(t, nudges, 1)
	require.Equal(t, 3.0, nudges[0]["iteration"])
	require.Equal(t, "repeated_error", nudges[0]["kind"])
	require.Len(t, events(task, "guardrail_stopped"), 1)
	last := events(task, "iteration_complete")[5]["reflection"].(map[string]any)
	require.Equal(t, true, last["needs_person"])

	b.hub.Requeue(taskID)
	out = b.run(text)
	require.Equal(t, fault.Stuck, out.Code)
	require.Len(t, b.hub.Task(taskID).Turns, 12, "six more")
}

// The nudge is in the model's next turn, and who finds another way continues.
func TestANudgedAgentThatFindsAnotherWayGoesOn(t *testing.T) {
	t.Parallel()
	n := 0
	b := newBench(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		n++
		if c.Arguments["command"] == "make all" {
			return hubtest.Result{Observation: "exit status 2\nmake: no rule to make target all"}
		}
		return hubtest.Result{Observation: fmt.Sprintf("exit status 0\nresult %d", n)}
	}})
	out := b.run(`
turns:
  - calls: [{tool: shell_exec, arguments: {command: make all}}]
  - calls: [{tool: shell_exec, arguments: {command: make all}}]
  - calls: [{tool: shell_exec, arguments: {command: make all}}]
  - when: you seem to go round in circles
    calls: [{tool: shell_exec, arguments: {command: ./configure}}]
  - calls: [{tool: shell_exec, arguments: {command: make all}}]
  - calls: [{tool: complete_task, arguments: {summary: found a way}}]
`)
	require.Equal(t, "found a way", out.Summary)
}
