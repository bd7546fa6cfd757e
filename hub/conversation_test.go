package hub_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// conversing is an agent that can do nothing on a node.
const conversing = `---
name: converser
description: Only talks.
provider: script
script: s.yaml
limits: {iterations: 5}
workspace: {scope: task}
tools: [complete_task, update_plan]
---
Talk.
`

func toolCall(id, name, arguments string) *deckhandv1.Block {
	return &deckhandv1.Block{Kind: &deckhandv1.Block_ToolCall_{ToolCall: &deckhandv1.Block_ToolCall{Id: id, Name: name, ArgumentsJson: arguments}}}
}

// A task without node tools runs as soon as it is claimed. Its turn, the steps
// of that turn and their ends are one transaction, and so are the last
// checkpoint and the end of the run; repeating either changes nothing.
func TestATaskThatOnlyTalksLivesInFourCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("converser", conversing)
	id := r.submit("converser").GetId()
	claim := r.claim(id, 1)
	require.True(t, claim.GetStarted())
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, r.task(id).GetState())

	turn := &deckhandv1.RecordTurnRequest{
		Lease: claim.GetLease(), Propose: []int32{0, 1, 2},
		Turn: &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", StopReason: "tool_use", Blocks: []*deckhandv1.Block{
			{Kind: &deckhandv1.Block_Text_{Text: &deckhandv1.Block_Text{Text: "I know."}}},
			toolCall("a", "update_plan", `{"items":[{"id":"1","title":"t","status":"done"}]}`),
			toolCall("b", "file_read", `{"path":"x"}`),
			toolCall("c", "complete_task", `{"summary":"s"}`),
		}},
	}
	var first []*deckhandv1.Step
	for range 2 {
		res, err := r.workers.Workers.RecordTurn(t.Context(), turn)
		require.NoError(t, err)
		steps := res.GetSteps()
		require.Len(t, steps, 3)
		require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, steps[0].GetState())
		require.Equal(t, "I know.", steps[0].GetReasoning())
		require.Equal(t, deckhandv1.StepState_STEP_STATE_DENIED, steps[1].GetState())
		require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, steps[2].GetState())
		if first == nil {
			first = steps
		}
		for i := range steps {
			require.Equal(t, first[i].GetId(), steps[i].GetId())
		}
	}
	turn.Propose = []int32{3}
	_, err := r.workers.Workers.RecordTurn(t.Context(), turn)
	require.ErrorContains(t, err, "propose names call 3, and turn 1 has 3")

	state, err := structpb.NewStruct(map[string]any{"iteration": 1})
	require.NoError(t, err)
	_, err = r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: claim.GetLease(), State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Summary: "s",
		Checkpoint: &deckhandv1.Checkpoint{Iteration: 1, State: state}, Progress: 1,
	})
	require.NoError(t, err)
	task := r.task(id)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, task.GetState())
	require.EqualValues(t, 1, task.GetIteration())
	steps, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: id})
	require.NoError(t, err)
	require.Len(t, steps.GetSteps(), 3)
}

// A call that touches only the conversation does not run ahead of one before it
// that has yet to run.
func TestATurnsCallsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	id := r.submit("walker").GetId()
	lease := r.begin(id, 1)
	res, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Propose: []int32{0, 1},
		Turn: &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", StopReason: "tool_use", Blocks: []*deckhandv1.Block{
			toolCall("a", "shell_exec", `{"command":"true"}`),
			toolCall("b", "update_plan", `{"items":[{"id":"1","title":"t","status":"done"}]}`),
		}},
	})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_STARTED, res.GetSteps()[0].GetState(), "it is the next that is made")
	require.Equal(t, deckhandv1.StepState_STEP_STATE_GRANTED, res.GetSteps()[1].GetState())
}

// A call that is started with its turn is made under the lease only: not when the
// task was cancelled before the worker came to it.
func TestACallThatWasStartedWithItsTurnIsNotMadeAfterACancellation(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: func(context.Context, *nodetest.Live) *nodev1.Exec {
		t.Error("the command ran")
		return nil
	}})
	id := r.submit("walker").GetId()
	lease := r.begin(id, 1)
	res, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Propose: []int32{0},
		Turn: &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", StopReason: "tool_use", Blocks: []*deckhandv1.Block{
			toolCall("a", "shell_exec", `{"command":"true"}`),
		}},
	})
	require.NoError(t, err)
	step := res.GetSteps()[0]
	require.Equal(t, deckhandv1.StepState_STEP_STATE_STARTED, step.GetState())
	_, err = r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: id})
	require.NoError(t, err)
	_, err = r.workers.Workers.ExecuteStep(t.Context(), &deckhandv1.ExecuteStepRequest{Lease: lease, StepId: step.GetId()})
	require.Equal(t, fault.LeaseEnded, fault.As(err).Code)
	steps, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: id})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_CANCELLED, steps.GetSteps()[0].GetState())
}
