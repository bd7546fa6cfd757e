package lease_test

import (
	"sync"
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

// admitted returns a fixture with a worker and tasks that may be claimed.
func admitted(t *testing.T, n int) (f *tasktest.Fixture, worker string, tasks []db.Task) {
	t.Helper()
	f = tasktest.New(t)
	agent := f.Agent("walker", persona.ScopeTask)
	node := f.Node("one")
	worker = f.Worker("w", 10)
	for range n {
		job := f.Submit(agent, "ann", nil)
		require.NoError(t, f.Store.AdmitTask(t.Context(), db.AdmitTaskParams{OrgID: tasktest.Org, ID: job.ID, NodeID: &node, Reason: "admitted"}))
		tasks = append(tasks, job)
	}
	return f, worker, tasks
}

// Two copies of one wake-up: of two claims at once one wins.
func TestOfManyClaimsOneWins(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 1)
	other := f.Worker("other", 10)
	var mu sync.Mutex
	var won []*lease.Lease
	var claims sync.WaitGroup
	for i := range 10 {
		claims.Go(func() {
			le, _, err := f.Leases.Claim(t.Context(), tasktest.Org, []string{worker, other}[i%2], tasks[0].ID, 1)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if le != nil {
				won = append(won, le)
			}
		})
	}
	claims.Wait()
	require.Len(t, won, 1)
	require.EqualValues(t, 1, won[0].Attempt)
	var attempts int
	require.NoError(t, f.SQL.QueryRow(t.Context(), "SELECT count(*) FROM attempts").Scan(&attempts))
	require.Equal(t, 1, attempts)
}

// A wake-up for a task that is over, is not admitted, or for another attempt claims
// nothing; a claim by a worker that is unknown or drained is an error.
func TestStaleWakeUps(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 3)
	f.Move(tasks[0].ID, task.Cancelled)
	f.Exec("UPDATE tasks SET admitted_at = NULL WHERE id = $1", tasks[1].ID)
	for _, c := range []struct {
		task    string
		attempt int32
	}{{tasks[0].ID, 1}, {tasks[1].ID, 1}, {tasks[2].ID, 2}, {"task_none", 1}} {
		le, _, err := f.Leases.Claim(t.Context(), tasktest.Org, worker, c.task, c.attempt)
		require.NoError(t, err)
		require.Nil(t, le)
	}
	_, _, err := f.Leases.Claim(t.Context(), tasktest.Org, "worker_none", tasks[2].ID, 1)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = f.Leases.Drain(t.Context(), tasktest.Org, worker, tasktest.By("boss"), "new kernel")
	require.NoError(t, err)
	_, _, err = f.Leases.Claim(t.Context(), tasktest.Org, worker, tasks[2].ID, 1)
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	w, err := f.Leases.Undrain(t.Context(), tasktest.Org, "w", tasktest.By("boss"))
	require.NoError(t, err)
	require.Nil(t, w.Worker.DrainedAt)
	f.Run(worker, tasks[2].ID)
}

// All of a worker's leases are renewed by one call; what it no longer holds is
// named, with why.
func TestRenewalsAreBatched(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 4)
	var leases []lease.Lease
	for _, job := range tasks {
		leases = append(leases, f.Run(worker, job.ID))
	}
	f.Move(tasks[1].ID, task.Cancelled)
	f.Exec("UPDATE tasks SET lease_expires_at = now() - interval '1 s' WHERE id = $1", tasks[2].ID)
	forged := leases[3]
	forged.Token += "x"
	f.Exec("UPDATE tasks SET lease_expires_at = now() + interval '1 s' WHERE id = $1", tasks[0].ID)
	out, draining, err := f.Leases.Renew(t.Context(), tasktest.Org, worker, "", append(leases[:3:3], forged))
	require.NoError(t, err)
	require.False(t, draining)
	require.Equal(t, []lease.Renewal{
		{TaskID: tasks[0].ID, Held: true}, {TaskID: tasks[1].ID, Reason: "cancelled"},
		{TaskID: tasks[2].ID, Reason: "lost"}, {TaskID: tasks[3].ID, Reason: "lost"},
	}, out)
	require.Greater(t, time.Until(*f.Task(tasks[0].ID).LeaseExpiresAt), tasktest.TTL/2)
	kicks := f.Kicks()
	_, _, err = f.Leases.Renew(t.Context(), tasktest.Org, worker, "free memory is 3 %", nil)
	require.NoError(t, err)
	require.Greater(t, f.Kicks(), kicks, "pressure is admission's business at once")
	_, _, err = f.Leases.Renew(t.Context(), tasktest.Org, "worker_none", "", leases)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// A stalled worker: once its lease has ended every write is refused, before
// the sweep, after it, and when another worker has the task.
func TestAStalledWorkerWritesNothing(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 1)
	le := f.Run(worker, tasks[0].ID)
	refused := func(when string) {
		before := f.Task(tasks[0].ID)
		_, err := f.Leases.Check(t.Context(), le)
		require.Equal(t, fault.LeaseEnded, fault.As(err).Code, when)
		err = f.Recorder.Tx(t.Context(), func(tx *event.Tx) error {
			_, err := lease.LockTask(t.Context(), tx, tasktest.Org, le)
			return err
		})
		require.Equal(t, fault.LeaseEnded, fault.As(err).Code, when)
		require.Equal(t, fault.LeaseEnded, fault.As(f.Leases.Release(t.Context(), tasktest.Org, le, "late")).Code, when)
		_, held, err := f.Recorder.AppendLeased(t.Context(), event.LeaseRef{OrgID: tasktest.Org, TaskID: le.TaskID, Attempt: le.Attempt}, event.Draft{Type: "late"})
		require.NoError(t, err)
		require.False(t, held, when)
		out, _, err := f.Leases.Renew(t.Context(), tasktest.Org, worker, "", []lease.Lease{le})
		require.NoError(t, err)
		require.False(t, out[0].Held, "%s: an ended lease is not brought back", when)
		require.Equal(t, before, f.Task(tasks[0].ID), when)
	}
	// It stalls for 90 s, which is three times its lease.
	f.Exec("UPDATE tasks SET lease_expires_at = lease_expires_at - interval '90 s'")
	refused("before the sweep")
	n, err := f.Leases.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, string(task.Queued), f.Task(tasks[0].ID).State)
	require.Zero(t, f.Task(tasks[0].ID).WorkerLosses, "it was heard since, and is not lost")
	refused("after the sweep")
	f.Exec("UPDATE tasks SET admitted_at = now()")
	f.Run(f.Worker("second", 1), tasks[0].ID)
	refused("when another has it")
}

// Times that count are the database's: a hub or worker whose clock is five
// minutes off neither loses leases nor keeps them. (No process sends a time of
// its clock; here the database's is moved instead, under a hub that stays.)
func TestClocksFiveMinutesApart(t *testing.T) {
	t.Parallel()
	for name, shift := range map[string]string{"ahead": "+ interval '5 minutes'", "behind": "- interval '5 minutes'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, worker, tasks := admitted(t, 1)
			f.Exec("CREATE SCHEMA skewed")
			f.Exec("CREATE FUNCTION skewed.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT pg_catalog.clock_timestamp() " + shift + " $$")
			f.Exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, skewed, pg_catalog', current_database()); END $$")
			s := f.Reopen()
			leases := lease.New(lease.Config{Store: s.Store, Recorder: s.Recorder, TTL: tasktest.TTL, Jailed: tasktest.Jailed})
			le, claimed, err := leases.Claim(t.Context(), tasktest.Org, worker, tasks[0].ID, 1)
			require.NoError(t, err)
			require.Greater(t, time.Until(*claimed.LeaseExpiresAt).Abs(), 4*time.Minute, "the clocks are apart")
			n, err := leases.Sweep(t.Context())
			require.NoError(t, err)
			require.Zero(t, n, "a live lease stays")
			out, _, err := leases.Renew(t.Context(), tasktest.Org, worker, "", []lease.Lease{*le})
			require.NoError(t, err)
			require.True(t, out[0].Held)
			_, err = leases.Check(t.Context(), *le)
			require.NoError(t, err)
			s.Exec("UPDATE tasks SET lease_expires_at = lease_expires_at - $1::interval", tasktest.TTL+time.Second)
			n, err = leases.Sweep(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n, "an ended one does not")
		})
	}
}

// A task that stays locked by a write keeps no other lease of its worker from being renewed, and
// does not delay the response. Its own lease stays as it was, and is renewed when the lock ends.
func TestALockedTaskHoldsUpNoRenewal(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 2)
	leases := []lease.Lease{f.Run(worker, tasks[0].ID), f.Run(worker, tasks[1].ID)}
	f.Exec("UPDATE tasks SET lease_expires_at = now() + interval '20 s'")
	writing, err := f.SQL.Begin(t.Context())
	require.NoError(t, err)
	_, err = writing.Exec(t.Context(), "SELECT FROM tasks WHERE id = $1 FOR UPDATE", tasks[0].ID)
	require.NoError(t, err)

	out, _, err := f.Leases.Renew(t.Context(), tasktest.Org, worker, "", leases)
	require.NoError(t, err)
	require.Equal(t, []lease.Renewal{{TaskID: tasks[0].ID, Deferred: true}, {TaskID: tasks[1].ID, Held: true}}, out)
	require.Less(t, time.Until(*f.Task(tasks[0].ID).LeaseExpiresAt), 21*time.Second)
	require.Greater(t, time.Until(*f.Task(tasks[1].ID).LeaseExpiresAt), 21*time.Second)

	require.NoError(t, writing.Commit(t.Context()))
	out, _, err = f.Leases.Renew(t.Context(), tasktest.Org, worker, "", leases)
	require.NoError(t, err)
	require.Equal(t, []lease.Renewal{{TaskID: tasks[0].ID, Held: true}, {TaskID: tasks[1].ID, Held: true}}, out)
}

// A transaction that stores a row which refers to a task does not keep its lease from being
// renewed.
func TestARowThatRefersToATaskIsNoLockOfIt(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 1)
	le := f.Run(worker, tasks[0].ID)
	writing, err := f.SQL.Begin(t.Context())
	require.NoError(t, err)
	_, err = writing.Exec(t.Context(), "SELECT FROM tasks WHERE id = $1 FOR KEY SHARE", tasks[0].ID) // as a foreign key does
	require.NoError(t, err)
	out, _, err := f.Leases.Renew(t.Context(), tasktest.Org, worker, "", []lease.Lease{le})
	require.NoError(t, err)
	require.Equal(t, []lease.Renewal{{TaskID: tasks[0].ID, Held: true}}, out)
	require.NoError(t, writing.Rollback(t.Context()))
}

// lose has a task claimed so many times, and its lease end each time.
func lose(t *testing.T, f *tasktest.Fixture, worker, id string, times int) db.Task {
	t.Helper()
	for range times {
		f.Exec("UPDATE tasks SET admitted_at = now() WHERE id = $1", id)
		f.Run(worker, id)
		f.Exec("UPDATE tasks SET lease_expires_at = now() - interval '1 s' WHERE id = $1", id)
		_, err := f.Leases.Sweep(t.Context())
		require.NoError(t, err)
	}
	return f.Task(id)
}

// A task that was handed back costs nothing; one that loses five workers in a
// row without progress goes to a person.
func TestLossesAndHandingBack(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 1)
	le := f.Run(worker, tasks[0].ID)
	require.NoError(t, f.Leases.Release(t.Context(), tasktest.Org, le, "the worker is stopping"))
	got := f.Task(tasks[0].ID)
	require.Zero(t, got.WorkerLosses+got.LeaseLapses+got.Failures)
	require.Equal(t, tasks[0].Place.UnixMicro(), got.Place.UnixMicro(), "it keeps its place")
	f.Exec("UPDATE workers SET last_seen_at = now() - interval '1 hour'")
	got = lose(t, f, worker, tasks[0].ID, 4)
	require.Equal(t, string(task.Queued), got.State)
	require.Equal(t, "worker "+worker+" was lost; waits for another", got.Reason)
	got = lose(t, f, worker, tasks[0].ID, 1)
	require.Equal(t, string(task.Escalated), got.State)
	require.Contains(t, got.Reason, "5 workers in a row were lost")
}

// A lease that ends under a worker that lives loses no worker, but a task to which it happens 20
// times in a row goes to a person: it may be the task that stalls its workers.
func TestLapsesUnderAWorkerThatLives(t *testing.T) {
	t.Parallel()
	f, worker, tasks := admitted(t, 1)
	got := lose(t, f, worker, tasks[0].ID, 19)
	require.Equal(t, string(task.Queued), got.State, "the worker was heard after the lease was renewed")
	require.Contains(t, got.Reason, "although worker "+worker+" lives")
	require.Zero(t, got.WorkerLosses)
	require.EqualValues(t, 19, got.LeaseLapses)
	got = lose(t, f, worker, tasks[0].ID, 1)
	require.Equal(t, string(task.Escalated), got.State)
	require.Contains(t, got.Reason, "its lease ended 20 times in a row without progress")
}
