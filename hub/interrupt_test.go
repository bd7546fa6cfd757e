package hub_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) interrupt(id, text, key string) (*deckhandv1.Task, error) {
	res, err := r.user.Tasks.TellTask(r.t.Context(), &deckhandv1.TellTaskRequest{
		TaskId: id, Text: text, IdempotencyKey: key, Interrupt: true,
	})
	if err != nil {
		return nil, err
	}
	return res.GetTask(), nil
}

func (r *rig) withdraw(id, message string) (*deckhandv1.WithdrawMessageResponse, error) {
	res, err := r.user.Tasks.WithdrawMessage(r.t.Context(), &deckhandv1.WithdrawMessageRequest{TaskId: id, MessageId: message})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func TestAnInterruptingMessageKillsTheCommandAndSkipsTheRestOfTheTurn(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	first, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"sleep 1000"}`)
	require.NoError(t, err)
	next, err := r.propose(lease, 1, 1, "shell_exec", `{"command":"make deploy"}`)
	require.NoError(t, err)
	ended := make(chan *deckhandv1.Step, 1)
	go func() {
		for { // as a worker does: the hub answers "not yet" in between
			step, err := r.execute(lease, first.GetId())
			if err != nil || step.GetState() != deckhandv1.StepState_STEP_STATE_STARTED {
				ended <- step
				return
			}
		}
	}()
	<-started

	told, err := r.interrupt(task.GetId(), "stop: read the ticket first", "k")
	require.NoError(t, err)
	assert.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, told.GetState(), "its worker goes on with the message")
	<-killed
	step := <-ended
	require.Equal(t, deckhandv1.StepState_STEP_STATE_FAILED, step.GetState())
	assert.Equal(t, string(fault.Killed), step.GetErrorCode())
	assert.Contains(t, step.GetObservation(), "killed")
	skipped := r.step(next.GetId())
	assert.Equal(t, deckhandv1.StepState_STEP_STATE_SKIPPED, skipped.GetState())
	assert.Contains(t, skipped.GetObservation(), "admin interrupted the turn")
	again, err := r.execute(lease, next.GetId())
	require.NoError(t, err)
	assert.Equal(t, deckhandv1.StepState_STEP_STATE_SKIPPED, again.GetState(), "a worker that asks for it does not run it")
	assert.Equal(t, 1, r.node.Runs())
	require.Equal(t, []string{"1 stop: read the ticket first"}, texts(r.checkpoint(lease, 1)))

	_, err = r.interrupt(task.GetId(), "stop: read the ticket first", "k")
	require.NoError(t, err)
	assert.Equal(t, deckhandv1.TaskState_TASK_STATE_RUNNING, r.task(task.GetId()).GetState(), "a repeated call interrupts nothing")
	entries := r.audited("task.told")
	require.Len(t, entries, 1)
	assert.True(t, entries[0].GetAfter().GetFields()["interrupt"].GetBoolValue())
}

func TestAnInterruptingMessageCutsOffTheModelsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	r.checkpoint(lease, 1)
	told, err := r.interrupt(task.GetId(), "only the docs", "")
	require.NoError(t, err)
	// It may be admitted again by then, which is another reason.
	assert.True(t, slices.ContainsFunc(r.events(told.GetId(), false), func(e *deckhandv1.Event) bool {
		return strings.Contains(e.GetPayload().GetFields()["reason"].GetStringValue(), "interrupted by a message of admin")
	}))
	_, err = r.workers.Workers.RecordTurn(t.Context(), &deckhandv1.RecordTurnRequest{
		Lease: lease, Turn: &deckhandv1.Turn{Turn: 2, Provider: "script", Model: "scripted"},
	})
	require.True(t, fault.Is(err, fault.Precondition), "the turn that was cut off is not stored: %v", err)
	claimed := r.claim(task.GetId(), 2)
	require.Equal(t, []string{"1 only the docs"}, texts(claimed.GetMessages()))
}

func TestAnInterruptingMessageGoesToAPausedTaskAtOnce(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	task, _, step := r.sleeping()
	<-started
	r.pause(task.GetId(), false)
	told, err := r.interrupt(task.GetId(), "without sudo", "")
	require.NoError(t, err)
	assert.NotEqual(t, deckhandv1.TaskState_TASK_STATE_PAUSED, told.GetState())
	<-killed
	claimed := r.claim(task.GetId(), 2)
	require.Equal(t, []string{"1 without sudo"}, texts(claimed.GetMessages()))
	done, err := r.execute(claimed.GetLease(), step.GetId())
	require.NoError(t, err)
	assert.Equal(t, string(fault.Killed), done.GetErrorCode())
}

func TestATaskThatWaitsForAPersonIsNotInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("x"))
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, _, item := r.park("asker", "shell_exec", `{"command":"true"}`)
	_, err := r.interrupt(task.GetId(), "do something else", "")
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "interrupt")
	assert.Equal(t, deckhandv1.InboxState_INBOX_STATE_OPEN, r.inboxItem(item.GetId()).GetState())
	assert.Zero(t, r.task(task.GetId()).GetMessagesWaiting(), "the message was not taken")
}

func TestAMessageIsWithdrawnBeforeItIsDelivered(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	_, err := r.withdraw(task.GetId(), "")
	require.True(t, fault.Is(err, fault.Precondition), "there is none: %v", err)
	var ids []string
	for _, text := range []string{"delete it", "keep it", "look again"} {
		res, err := r.say(task.GetId(), text, "")
		require.NoError(t, err)
		ids = append(ids, res.GetMessage().GetId())
	}
	_, err = r.withdraw(task.GetId(), ids[0])
	require.NoError(t, err)
	_, err = r.withdraw(task.GetId(), ids[0])
	require.NoError(t, err, "withdrawing it again is harmless")
	newest, err := r.withdraw(task.GetId(), "")
	require.NoError(t, err)
	assert.Equal(t, ids[2], newest.GetMessage().GetId())
	assert.EqualValues(t, 1, newest.GetTask().GetMessagesWaiting())
	require.Equal(t, []string{"1 keep it"}, texts(r.checkpoint(lease, 1)))

	_, err = r.withdraw(task.GetId(), ids[1])
	require.True(t, fault.Is(err, fault.Precondition), "the agent has it: %v", err)
	_, err = r.withdraw(task.GetId(), "msg_none")
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "message_id")
	assert.Len(t, r.audited("task.message_withdrawn"), 2)
	assert.Contains(t, r.types(task.GetId()), "message_withdrawn")
}
