package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

func after(ids ...string) func(*task.Submission) {
	return func(s *task.Submission) { s.After = ids }
}

// run takes a queued task to running.
func run(f *tasktest.Fixture, worker, id string) lease.Lease {
	f.T.Helper()
	f.Exec("UPDATE tasks SET admitted_at = now() WHERE id = $1", id)
	return f.Run(worker, id)
}

func state(f *tasktest.Fixture, id string) task.State {
	f.T.Helper()
	return task.State(f.Task(id).State)
}

// A task starts when all tasks that it depends on have succeeded, and its reason names
// the one it waits for.
func TestATaskWaitsForOthers(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent, worker := f.Agent("walker", persona.ScopeTask), f.Worker("w", 10)
	a, b := f.Submit(agent, "ann", nil), f.Submit(agent, "ann", nil)
	c := f.Submit(agent, "ann", after(a.ID, b.ID))
	require.Equal(t, task.Pending, state(f, c.ID))
	require.Equal(t, fmt.Sprintf("waits for 2 tasks to succeed, the first is %s, which is queued", a.ID), c.Reason)
	run(f, worker, a.ID)
	f.Move(a.ID, task.Succeeded)
	require.Equal(t, task.Pending, state(f, c.ID))
	require.Equal(t, fmt.Sprintf("waits for task %s, which is queued, to succeed", b.ID), f.Task(c.ID).Reason)
	run(f, worker, b.ID)
	f.Move(b.ID, task.Succeeded)
	require.Equal(t, task.Queued, state(f, c.ID))
	require.Equal(t, task.Queued, state(f, f.Submit(agent, "ann", after(a.ID)).ID), "what has succeeded is not waited for")
}

// If one does not succeed, the tasks that depend on it are cancelled with the reason, and
// so are those that depend on them.
func TestWhatWaitsForAFailureIsCancelled(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent, worker := f.Agent("walker", persona.ScopeTask), f.Worker("w", 10)
	a := f.Submit(agent, "ann", nil)
	b := f.Submit(agent, "ann", after(a.ID))
	c := f.Submit(agent, "ann", after(b.ID))
	run(f, worker, a.ID)
	f.Move(a.ID, task.Escalated)
	require.Equal(t, task.Pending, state(f, b.ID), "a person may still mend it")
	f.Move(a.ID, task.Failed)
	require.Equal(t, task.Cancelled, state(f, b.ID))
	require.Contains(t, f.Task(b.ID).Reason, "task "+a.ID+", which it waited for, is failed")
	require.Equal(t, task.Cancelled, state(f, c.ID))

	for name, ids := range map[string][]string{"an unknown task": {"task_none"}, "a failed task": {a.ID}} {
		_, err := f.Tasks.Submit(t.Context(), task.Submission{OrgID: tasktest.Org, AgentID: agent, Goal: "x", By: tasktest.By("ann"), Role: "admin", After: ids})
		require.Error(t, err, name)
		require.Equal(t, ids[0], fault.As(err).ObjectID, name)
	}
}

// A person's task waits for them, is handed on to an agent, or done by
// hand.
func TestAssignment(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent, worker := f.Agent("walker", persona.ScopeTask), f.Worker("w", 10)
	f.User("bob", "basic")
	assign := func(id string, to task.Assignee, role string) error {
		return f.Tasks.Assign(t.Context(), tasktest.Org, id, to, tasktest.By("ann"), role)
	}
	own := f.Submit("", "ann", func(s *task.Submission) { s.Human, s.Context = "bob", "rack 4" })
	require.Equal(t, task.Pending, state(f, own.ID))
	require.Contains(t, own.Reason, "waits for @human:bob to do it")
	require.Equal(t, "rack 4", f.Task(own.ID).Context)
	waiting := f.Submit(agent, "ann", after(own.ID))
	require.NoError(t, f.Tasks.Complete(t.Context(), tasktest.Org, own.ID, "swapped", tasktest.By("bob")))
	require.Equal(t, task.Succeeded, state(f, own.ID))
	require.Equal(t, "swapped", f.Task(own.ID).Summary)
	require.Equal(t, task.Queued, state(f, waiting.ID))
	require.Error(t, f.Tasks.Complete(t.Context(), tasktest.Org, waiting.ID, "", tasktest.By("bob")), "an agent's task is not done by hand")

	nobodys := f.Submit("", "ann", nil)
	require.Contains(t, nobodys.Reason, "waits to be assigned")
	require.NoError(t, assign(nobodys.ID, task.Assignee{Human: "bob"}, "admin"))
	require.Contains(t, f.Task(nobodys.ID).Reason, "waits for @human:bob")
	require.NoError(t, assign(nobodys.ID, task.Assignee{AgentID: agent}, "basic"))
	got := f.Task(nobodys.ID)
	require.Equal(t, string(task.Queued), got.State)
	require.Equal(t, agent, got.AgentID)
	require.Equal(t, "basic", got.CreatedByRole, "it may do no more than who handed it on")
	require.Equal(t, "ann", got.AssignedBy)
	require.Empty(t, got.Assignee)

	require.ErrorContains(t, assign(nobodys.ID, task.Assignee{Human: "bob"}, "admin"), "is queued for its agent")
	run(f, worker, nobodys.ID)
	require.ErrorContains(t, assign(nobodys.ID, task.Assignee{AgentID: agent}, "admin"), "has started")
	f.Move(nobodys.ID, task.Escalated)
	require.NoError(t, assign(nobodys.ID, task.Assignee{Human: "bob"}, "admin"))
	require.Equal(t, "bob", f.Task(nobodys.ID).Assignee, "bob is to decide")
	require.Equal(t, agent, f.Task(nobodys.ID).AgentID)
}

// A transient failure is retried up to three times, without a slot in between; then the
// task is escalated to a person, with the cause and what can be done.
func TestRetriesAndEscalation(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent, worker := f.Agent("walker", persona.ScopeTask), f.Worker("w", 10)
	id := f.Submit(agent, "ann", nil).ID
	fail := func(after time.Duration) {
		require.NoError(t, f.Recorder.Tx(t.Context(), func(tx *event.Tx) error {
			row, err := tx.LockTask(t.Context(), db.LockTaskParams{OrgID: tasktest.Org, ID: id})
			if err != nil {
				return err
			}
			return task.Fail(t.Context(), tx, row, task.Failure{Code: "AGENT_011", Message: "the provider is rate limited", After: after}, event.Hub)
		}))
	}
	due := func() {
		f.Exec("UPDATE tasks SET not_before = now() - interval '1 s'")
		_, err := f.Tasks.Due(t.Context())
		require.NoError(t, err)
	}
	run(f, worker, id)
	fail(time.Hour)
	got := f.Task(id)
	require.Equal(t, string(task.Waiting), got.State)
	require.Contains(t, got.Reason, "the provider is rate limited; tries again in 1h0m")
	require.Contains(t, got.Reason, "retry 1 of 3")
	require.Nil(t, got.LeaseHash)
	require.GreaterOrEqual(t, time.Until(*got.NotBefore), 59*time.Minute, "not before the provider said")
	n, err := f.Tasks.Due(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	due()
	require.Equal(t, task.Queued, state(f, id))

	// Before it runs it cannot wait: it is queued, for later.
	f.Exec("UPDATE tasks SET admitted_at = now()")
	_, _, err = f.Leases.Claim(t.Context(), tasktest.Org, worker, id, 2)
	require.NoError(t, err)
	fail(0)
	got = f.Task(id)
	require.Equal(t, string(task.Queued), got.State)
	require.NotNil(t, got.NotBefore)
	require.EqualValues(t, 2, got.Failures)

	run(f, worker, id)
	fail(0)
	due()
	run(f, worker, id)
	fail(0)
	got = f.Task(id)
	require.Equal(t, string(task.Escalated), got.State)
	require.Contains(t, got.Reason, "Failed 4 times in a row. Last error: the provider is rate limited")
	require.Contains(t, got.Reason, "deckhand task retry "+id)
	require.Equal(t, "ann", got.Assignee, "who submitted it is to decide")

	// Progress gives the retries back.
	other := f.Submit(agent, "ann", nil).ID
	run(f, worker, other)
	f.Exec("UPDATE tasks SET failures = 3 WHERE id = $1", other)
	require.NoError(t, f.Store.SetTaskProgress(t.Context(), db.SetTaskProgressParams{OrgID: tasktest.Org, ID: other, Iteration: 1}))
	require.Zero(t, f.Task(other).Failures)
}

// What a task's wait is reckoned from.
func TestEstimates(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent, worker := f.Agent("walker", persona.ScopeTask), f.Worker("w", 10)
	for range 4 {
		id := f.Submit(agent, "ann", nil).ID
		run(f, worker, id)
		f.Move(id, task.Succeeded)
	}
	f.Exec("UPDATE tasks SET started_at = finished_at - interval '1 minute'")
	under := f.Submit(agent, "ann", nil)
	run(f, worker, under.ID)
	first, second := f.Submit(agent, "ann", nil), f.Submit(agent, "ann", nil)
	other := f.Submit(f.Agent("other", persona.ScopeTask), "ann", func(s *task.Submission) { s.Priority = 1 })
	standings, err := f.Tasks.Standings(t.Context(), tasktest.Org, under, first, second, other)
	require.NoError(t, err)
	require.Equal(t, map[string]task.QueuePosition{
		first.ID:  {Place: 1, Wait: 30 * time.Second, Basis: "the last 4 tasks of the agent"},
		second.ID: {Place: 2, Wait: 90 * time.Second, Basis: "the last 4 tasks of the agent"},
		other.ID:  {Place: 3, Wait: 150 * time.Second, Basis: "the last 4 tasks of the organisation"},
	}, standings)
}
