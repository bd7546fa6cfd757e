package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// Where the persona says so, a run pauses at a limit and says how it is let
// have more.
func TestARunPausesAtItsLimitWhereThePersonaSaysSo(t *testing.T) {
	t.Parallel()
	const script = `
turns:
  - {name: again, usage: {input_tokens: 900, output_tokens: 100}, calls: [{tool: shell_exec, arguments: {command: ls}}]}
  - {calls: [{tool: shell_exec, arguments: {command: pwd}}]}
  - {calls: [{tool: complete_task, arguments: {summary: done}}]}
`
	b := newBench(t, hubtest.Config{})
	b.p.Limits.Iterations, b.p.Limits.OnLimit = 2, persona.PauseAtLimit
	out := b.run(script)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, out.State)
	require.Equal(t, fault.MaxIterations, out.Code)
	require.Equal(t, "iterations", out.Limit)
	require.Equal(t, "the limit of 2 iterations is reached (now 2): let this run have more (deckhand task resume "+taskID+
		" --limit iterations=4), or end it (deckhand task cancel "+taskID+")", out.Reason)
	require.Len(t, b.hub.Task(taskID).Turns, 2)
}
