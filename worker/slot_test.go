package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
)

// A task whose start takes long, such as one whose image is pulled, holds no slot: another one
// runs on the only slot in the meantime.
func TestATaskThatStartsSlowlyHoldsNoSlot(t *testing.T) {
	t.Parallel()
	asked, pulled := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Fail: func(name string, n int) error {
		if name == "StartTask" && n == 1 {
			close(asked)
			<-pulled
		}
		return nil
	}})
	start(t, hub, func(c *worker.Config) { c.Slots = 1 })
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-asked
	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_2")
	hub.WaitState(t, "task_2", succeeded)
	require.Empty(t, hub.Task("task_1").Turns)

	close(pulled)
	task := hub.WaitState(t, "task_1", succeeded)
	require.EqualValues(t, 1, task.Task.GetAttempt())
}

// A task that has lent its slot goes on when it can, also if the other one takes longer.
func TestATaskThatHasLentItsSlotGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	asked, pulled, other, end := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Fail: func(name string, n int) error {
		switch {
		case name == "StartTask" && n == 1:
			close(asked)
			<-pulled
		case name == "FinishTask" && n == 1:
			close(other)
			<-end
		}
		return nil
	}})
	start(t, hub, func(c *worker.Config) { c.Slots = 1 })
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-asked
	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_2")
	<-other // it has the slot, and does not end
	close(pulled)
	hub.WaitState(t, "task_1", succeeded)
	close(end)
	hub.WaitState(t, "task_2", succeeded)
}
