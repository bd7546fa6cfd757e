package loop_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

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

// A run stops at its limits of files by what the hub has counted with its newest step that
// changed some.
func TestARunStopsAtItsLimitOfFiles(t *testing.T) {
	t.Parallel()
	const script = `
turns:
  - {calls: [{tool: shell_exec, arguments: {command: "8"}}]}
  - {calls: [{tool: shell_exec, arguments: {command: "7"}}]}
  - {calls: [{tool: shell_exec, arguments: {command: "11"}}]}
  - {calls: [{tool: complete_task, arguments: {summary: done}}]}
`
	b := newBench(t, hubtest.Config{Exec: func(call hubtest.Call) hubtest.Result {
		files, err := strconv.Atoi(call.Arguments["command"].(string))
		require.NoError(t, err)
		outcome, err := structpb.NewStruct(map[string]any{"run_files": files, "run_largest_file": 1000 * files})
		require.NoError(t, err)
		return hubtest.Result{Observation: "ok", Outcome: outcome}
	}})
	b.p.Limits.Files, b.p.Limits.FileSize = 10, 1<<20
	out := b.run(script)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_FAILED, out.State)
	require.Equal(t, fault.BudgetLimit, out.Code)
	require.Equal(t, "files", out.Limit)
	require.Equal(t, "the limit of 10 files is reached (now 11)", out.Message)
	require.Contains(t, out.Reason, "--limit files=20")
	warned := events(b.hub.Task(taskID), "limit_warning")
	require.Len(t, warned, 1)
	require.EqualValues(t, 8, warned[0]["current"])
}

// At a limit that a quota has lowered, a run says so and pauses: the hub puts it back into the
// queue.
func TestARunThatHasUsedItsQuotaWaitsForMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{})
	b.hub.Submit(hubtest.Task{Task: &deckhandv1.Task{Id: taskID, Goal: "Find it", QuotaLimits: []string{"iterations"}}, Tools: hubtest.Tools(t)})
	b.p.Limits.Iterations = 1
	out := b.run(`
turns:
  - {calls: [{tool: shell_exec, arguments: {command: ls}}]}
  - {calls: [{tool: complete_task, arguments: {summary: done}}]}
`)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, out.State)
	require.Equal(t, "iterations", out.Limit)
	require.Equal(t, "the quota leaves this run 1 iterations, and they are used: deckhand quota show", out.Reason)
}
