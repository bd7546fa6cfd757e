package harness

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// CountAndSleep is the script of an agent whose first command takes six seconds.
// Its second step shows how often that command ran.
const CountAndSleep = `
turns:
  - text: I count and sleep.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> counter; for i in 1 2 3 4 5 6; do echo line $i; sleep 1; done; echo done"}
  - text: How often did it run?
    calls:
      - tool: shell_exec
        arguments: {command: "cat counter"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "counted"}
`

// Task is what tests read of a task.
type Task struct {
	ID, State, Reason, Summary string
	Attempt                    int
}

// Step is what tests read of a step.
type Step struct {
	ID, Tool, State string
	Attempt         int
}

// Submit submits a task and returns its id.
func (f *Fleet) Submit(agent string) string {
	f.T.Helper()
	return strings.TrimSpace(f.CLI(0, "run", agent, "go on", "-o", "name").Out)
}

// Task returns a task.
func (f *Fleet) Task(id string) Task {
	f.T.Helper()
	ctx, cancel := f.call()
	defer cancel()
	res, err := f.Client().Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: id})
	require.NoError(f.T, err)
	t := res.GetTask()
	return Task{ID: t.GetId(), State: t.GetState().String(), Reason: t.GetReason(), Summary: t.GetSummary(), Attempt: int(t.GetAttempt())}
}

// Steps returns a task's steps in their order.
func (f *Fleet) Steps(taskID string) []Step {
	f.T.Helper()
	ctx, cancel := f.call()
	defer cancel()
	list, err := f.Client().Steps(ctx, taskID)
	require.NoError(f.T, err)
	steps := make([]Step, len(list))
	for i, s := range list {
		steps[i] = Step{ID: s.GetId(), Tool: s.GetTool(), State: s.GetState().String(), Attempt: int(s.GetAttempt())}
	}
	return steps
}

// Started waits until the first command of a task runs, and is its only step.
func (f *Fleet) Started(taskID string) {
	f.T.Helper()
	waittest.Until(f.T, time.Minute, "the command to run", func() bool {
		steps := f.Steps(taskID)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
}

// Ended waits until a task has succeeded, and returns its id. It fails the test
// when the task ends otherwise.
func (f *Fleet) Ended(id string) string {
	f.T.Helper()
	waittest.Until(f.T, 3*time.Minute, "the task to end", func() bool {
		task := f.Task(id)
		switch task.State {
		case "TASK_STATE_FAILED", "TASK_STATE_ESCALATED", "TASK_STATE_CANCELLED", "TASK_STATE_TIMED_OUT":
			require.Failf(f.T, "the task did not succeed", "%+v", task)
		}
		return task.State == "TASK_STATE_SUCCEEDED"
	})
	return id
}

// Item waits until one thing of a task, other than last, waits for a person, and
// returns its id in the inbox.
func (f *Fleet) Item(taskID, last string) (id string) {
	f.T.Helper()
	waittest.Until(f.T, 90*time.Second, "a task to wait for a person", func() bool {
		ctx, cancel := f.call()
		defer cancel()
		res, err := f.Client().Inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{TaskId: taskID})
		require.NoError(f.T, err)
		if items := res.GetItems(); len(items) == 1 && items[0].GetId() != last {
			id = items[0].GetId()
		}
		return id != ""
	})
	return id
}
