package hub_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// chatting may do a lot, in a workspace that all its tasks share.
const chatting = `---
name: chatty
description: Does and talks.
provider: script
script: s.yaml
limits: {iterations: 5, failures: 2}
workspace: {scope: agent}
tools: [shell_exec, file_write, manage_scratchpad, update_plan, delegate, request_input, complete_task]
agents: {delegate: [walker]}
mcp: [{name: notes, command: [notes]}]
---
Do it.
`

func (r *rig) chat(req *deckhandv1.SubmitTaskRequest) (*deckhandv1.Task, error) {
	req.Chat, req.AgentId = true, "chatty"
	res, err := r.user.Tasks.SubmitTask(r.t.Context(), req)
	if err != nil {
		return nil, err
	}
	return res.GetTask(), nil
}

// answered has a chat's agent answer.
func (r *rig) answered(id, text string) {
	r.t.Helper()
	_, err := r.workers.Workers.FinishTask(r.t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: r.claim(id, 1).GetLease(), State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Summary: text,
	})
	require.NoError(r.t, err)
}

// A chat answers without acting. Its agent is offered nothing that acts, and
// the hub refuses whatever its model calls nevertheless; it needs no jail, and does
// not wait for the work that the agent is at.
func TestAChatAnswersWithoutActing(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: func(context.Context, *nodetest.Live) *nodev1.Exec {
		t.Error("a command ran")
		return nil
	}})
	r.apply("chatty", chatting)
	working := r.submit("chatty").GetId()
	r.claim(working, 1)

	asked, err := r.chat(&deckhandv1.SubmitTaskRequest{Goal: "What are you at?"})
	require.NoError(t, err)
	require.True(t, asked.GetChat())
	claim := r.claim(asked.GetId(), 1)
	require.True(t, claim.GetStarted(), "it needs no jail")
	require.True(t, claim.GetTask().GetChat(), "the loop tells its model")
	require.Len(t, claim.GetTools(), 1)
	require.Equal(t, "complete_task", claim.GetTools()[0].GetName())

	calls := []*deckhandv1.Block{
		toolCall("a", "shell_exec", `{"command":"touch made"}`),
		toolCall("b", "file_write", `{"path":"made","content":"x"}`),
		toolCall("c", "manage_scratchpad", `{"action":"append","content":"x"}`),
		toolCall("d", "update_plan", `{"items":[{"id":"1","title":"t","status":"done"}]}`),
		toolCall("e", "delegate", `{"agent":"walker","goal":"do it for me"}`),
		toolCall("f", "request_input", `{"question":"May I?"}`),
		toolCall("g", "mcp__notes__add", `{}`),
		toolCall("h", "complete_task", `{"summary":"I am at it."}`),
	}
	turn := &deckhandv1.Turn{Turn: 1, Provider: "script", Model: "scripted", StopReason: "tool_use", Blocks: calls}
	propose := make([]int32, len(calls))
	for i := range propose {
		propose[i] = int32(i)
	}
	res, err := r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{Lease: claim.GetLease(), Turn: turn, Propose: propose})
	require.NoError(t, err)
	steps := res.GetSteps()
	require.Len(t, steps, len(calls))
	for _, step := range steps[:len(steps)-1] {
		require.Equal(t, deckhandv1.StepState_STEP_STATE_DENIED, step.GetState(), step.GetTool())
	}
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, steps[len(steps)-1].GetState())

	// One that fails does not keep the agent from its work.
	_, err = r.workers.Workers.FinishTask(t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: claim.GetLease(), State: deckhandv1.TaskState_TASK_STATE_FAILED, ErrorCode: "AGENT_014", ErrorMessage: "no answer",
	})
	require.NoError(t, err)
	require.NotEqual(t, deckhandv1.AgentStatus_AGENT_STATUS_ERROR_SUSPENDED, r.agent("chatty").GetStatus())
	require.NotEqual(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(working).GetState())
}

// A conversation is kept: what was said goes on with each reply, and a
// chat that is tried again stays one.
func TestAChatGoesOnWithWhatWasSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("chatty", chatting)
	first, err := r.chat(&deckhandv1.SubmitTaskRequest{Goal: "Who are you?"})
	require.NoError(t, err)
	_, err = r.chat(&deckhandv1.SubmitTaskRequest{Goal: "Well?", ReplyTo: first.GetId()})
	require.ErrorContains(t, err, "has not been answered yet")
	r.answered(first.GetId(), "A chatty one.")

	second, err := r.chat(&deckhandv1.SubmitTaskRequest{Goal: "Since when?", ReplyTo: first.GetId()})
	require.NoError(t, err)
	require.Equal(t, first.GetLineageId(), second.GetLineageId())
	r.answered(second.GetId(), "Since today.")
	third, err := r.chat(&deckhandv1.SubmitTaskRequest{Goal: "And before?", ReplyTo: second.GetId()})
	require.NoError(t, err)
	said := func(task *deckhandv1.Task) (out []string) {
		for _, m := range task.GetConversation() {
			out = append(out, m.GetRole()+": "+m.GetText())
		}
		return out
	}
	before := []string{"user: Who are you?", "assistant: A chatty one.", "user: Since when?", "assistant: Since today."}
	require.Equal(t, before, said(third))

	_, err = r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: third.GetId()})
	require.NoError(t, err)
	retried, err := r.user.Tasks.RetryTask(t.Context(), &deckhandv1.RetryTaskRequest{TaskId: third.GetId()})
	require.NoError(t, err)
	require.True(t, retried.GetTask().GetChat(), "what only answers does not come to act by being tried again")
	require.Equal(t, before, said(retried.GetTask()))

	work := r.submit("walker").GetId()
	for reason, req := range map[string]*deckhandv1.SubmitTaskRequest{
		"is no chat":                {Goal: "x", ReplyTo: work},
		"conversation and reply_to": {Goal: "x", ReplyTo: second.GetId(), Conversation: []*deckhandv1.ConversationMessage{{Role: "user", Text: "x"}}},
		"a chat takes no inputs":    {Goal: "x", Inputs: []*deckhandv1.InputFile{{Path: "a", Content: []byte("x")}}},
		"goal is empty":             {},
		"there is no task":          {Goal: "x", ReplyTo: "task_none"},
	} {
		_, err := r.chat(req)
		require.ErrorContains(t, err, reason)
	}
	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "chatty", Goal: "x", ReplyTo: second.GetId()})
	require.ErrorContains(t, err, "reply_to goes with chat only")
	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "x", Chat: true, ReplyTo: second.GetId()})
	require.ErrorContains(t, err, "is a chat with agent chatty")

	listed, err := r.user.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{Chat: true})
	require.NoError(t, err)
	ids := []string{}
	for _, task := range listed.GetTasks() {
		ids = append(ids, task.GetId())
	}
	require.Equal(t, []string{retried.GetTask().GetId(), third.GetId(), second.GetId(), first.GetId()}, ids)
}
