package loop_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// A run ends as its agent says that it does, and its result is kept in each case.
func TestARunEndsAsItsAgentSays(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]struct {
		state deckhandv1.TaskState
		code  fault.Code
		says  string
	}{
		"":                {deckhandv1.TaskState_TASK_STATE_SUCCEEDED, "", ""},
		"status: done":    {deckhandv1.TaskState_TASK_STATE_SUCCEEDED, "", ""},
		"status: partial": {deckhandv1.TaskState_TASK_STATE_FAILED, fault.PartlyDone, "a part of it: Half is done."},
		"status: failed":  {deckhandv1.TaskState_TASK_STATE_FAILED, fault.GivenUp, "cannot be reached: Half is done."},
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, hubtest.Config{})
			out := b.run("turns: [{calls: [{tool: complete_task, arguments: {summary: Half is done., left_over: [the other half]" +
				with(status) + "}}]}]")
			require.Equal(t, want.state, out.State)
			require.Equal(t, want.code, out.Code)
			require.Contains(t, out.Message, want.says)
			require.Equal(t, "Half is done.\n\nLeft over:\n- the other half", out.Summary)
			require.False(t, out.Transient, "what the agent has decided is not tried again")
			require.Equal(t, out.Summary, out.Events[len(out.Events)-1].GetPayload().AsMap()["summary"])
		})
	}
}

func with(field string) string {
	if field == "" {
		return ""
	}
	return ", " + field
}

// An agent that is blocked waits for a person, and goes on with the answer.
func TestABlockedRunGoesOnWithTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{
		Waits: func(c hubtest.Call) bool { return c.Arguments["status"] == "blocked" },
		Exec: func(c hubtest.Call) hubtest.Result {
			if c.Arguments["status"] == "blocked" {
				return hubtest.Result{Observation: "ada answered: the port is 8443"}
			}
			return hubtest.Result{Observation: "recorded"}
		},
	})
	const text = `
turns:
  - calls: [{tool: complete_task, arguments: {status: blocked, summary: "I need the port.", question: "Which port?"}}]
  - when: ada answered. the port is 8443
    calls: [{tool: complete_task, arguments: {status: done, summary: It listens on 8443.}}]
`
	out, err := b.attempt(t.Context(), parse(t, text))
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, out.State)
	b.hub.Approve(taskID)
	out = b.run(text)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, out.Message)
	require.Equal(t, "It listens on 8443.", out.Summary)
}

// "Done" with open items in the plan is returned with the list, once.
func TestAnOpenPlanIsAskedAboutOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{})
	out := b.run(`
turns:
  - calls:
      - {tool: update_plan, arguments: {items: [{id: a, title: Look, status: done}, {id: b, title: Write it up, status: pending}, {id: c, title: Not needed, status: skipped}]}}
      - {tool: complete_task, arguments: {summary: all done}}
  - when: your plan has open items. Write it up.*call complete_task again
    calls: [{tool: complete_task, arguments: {summary: it is in the summary}}]
`)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, out.Message)
	require.Equal(t, "it is in the summary", out.Summary)
	require.Len(t, b.hub.Task(taskID).Steps, 2, "the first was never made")
}

func TestAModelThatAnswersNothingTwiceHasFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{})
	out := b.run(`turns: [{reasoning: hm}, {reasoning: hm}]`)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_FAILED, out.State)
	require.Equal(t, fault.GivenUp, out.Code)
	require.Contains(t, out.Message, "answered nothing twice")
}

// stopping is a model whose turns end for a reason of their own.
type stopping struct {
	model.Model

	turn   int32
	reason string
}

func (s stopping) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	turn, err := s.Model.Generate(ctx, req, sink)
	if turns := int32(len(req.Messages)-1) / 2; err == nil && turns+1 == s.turn {
		turn.StopReason = s.reason
	}
	return turn, err
}

// A call of a turn that was cut off or refused is never made: it may not be what the model
// meant.
func TestACallOfATurnThatWasCutIsNotMade(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{})
	out, err := b.attempt(t.Context(), stopping{parse(t, `
turns:
  - calls:
      - {tool: shell_exec, arguments: {command: make}}
      - {tool: shell_exec, arguments: {command: rm -r /workspace/a}}
  - when: cut off at 1000 tokens.*write smaller pieces
    calls: [{tool: complete_task, arguments: {summary: done}}]
`), 1, model.StopMaxTokens})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, out.Message)
	task := b.hub.Task(taskID)
	require.Len(t, task.Steps, 1)
	require.Equal(t, "complete_task", task.Steps[0].GetTool())
	require.Len(t, events(task, "tool_rejected"), 2)

	b = newBench(t, hubtest.Config{})
	out, err = b.attempt(t.Context(), stopping{parse(t, `turns: [{calls: [{tool: shell_exec, arguments: {command: make}}]}]`), 1, model.StopRefusal})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_FAILED, out.State)
	require.Empty(t, b.hub.Task(taskID).Steps)
}
