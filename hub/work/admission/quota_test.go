package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/admission"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func (r *rig) limit(user string, c quota.Change) {
	r.T.Helper()
	require.NoError(r.T, r.cfg.Plans.SetLimits(r.T.Context(), tasktest.Org, user, c, tasktest.By("root")))
}

// spend ends a task that has used something.
func (r *rig) spend(t db.Task, iterations, tokens int64) {
	r.T.Helper()
	r.Exec("UPDATE tasks SET iteration = $2, limit_tokens = $3 WHERE id = $1", t.ID, iterations, tokens)
	le := r.Run(r.worker, t.ID)
	require.NotEmpty(r.T, le.Token)
	r.Move(t.ID, task.Succeeded)
}

// A run reserves what its limits allow, or what is left; another one waits until the
// reservation gives place to what was used, which is counted for the user and the
// organisation.
func TestAQuotaIsReservedAndSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.User("ann", "basic")
	r.limit(quota.EachUser, quota.Change{Iterations: new(int64(4))})
	first, second, other := r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "bob", nil)
	require.Equal(t, sorted(first, other), r.admit(), "the limit of 5 iterations takes all that ann has")
	require.EqualValues(t, 4, *r.Task(first.ID).GrantedIterations)
	require.Nil(t, r.Task(first.ID).GrantedTokens)
	require.Contains(t, r.Task(second.ID).Reason, "all 4 iterations of the quota of ann for ")
	require.Contains(t, r.Task(second.ID).Reason, "deckhand quota limit")

	r.spend(first, 1, 700)
	require.Equal(t, sorted(second), r.admit())
	require.EqualValues(t, 3, *r.Task(second.ID).GrantedIterations)
	now, err := r.cfg.Plans.History(t.Context(), tasktest.Org, "ann", 2)
	require.NoError(t, err)
	require.Equal(t, quota.Amounts{Runs: 2, Iterations: 1, Tokens: 700}, now[0].Amounts)
	require.Equal(t, quota.Amounts{}, now[1].Amounts)
	all, err := r.cfg.Plans.History(t.Context(), tasktest.Org, quota.Organisation, 1)
	require.NoError(t, err)
	require.Equal(t, quota.Amounts{Runs: 3, Iterations: 1, Tokens: 700}, all[0].Amounts)

	// One user's own limit takes the place of everybody's, and one of the organisation
	// holds besides.
	r.limit("ann", quota.Change{Iterations: new(int64(500))})
	r.limit(quota.Organisation, quota.Change{Runs: new(int64(4))})
	third, fourth := r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "ann", nil)
	require.Len(t, r.admit(), 1)
	require.Contains(t, r.Task(third.ID).Reason+r.Task(fourth.ID).Reason, "all 4 runs of the organisation's quota")
	r.limit(quota.Organisation, quota.Change{Runs: new(int64(0))})
	require.Len(t, r.admit(), 1)
}

// What an unfinished run has used counts in the period in which it used it. In the next one the
// run goes on, and reserves what it may use there.
func TestAnUnfinishedRunGoesOnInTheNextPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.User("ann", "basic")
	r.limit(quota.EachUser, quota.Change{Iterations: new(int64(4))})
	made := r.Submit(r.agent, "ann", nil)
	require.Equal(t, sorted(made), r.admit())
	requeue := func(iteration int64) {
		r.Exec("UPDATE tasks SET iteration = $2 WHERE id = $1", made.ID, iteration)
		require.NotEmpty(t, r.Run(r.worker, made.ID).Token)
		r.Move(made.ID, task.Queued)
	}
	line := func() quota.Line {
		usage, err := r.cfg.Plans.Usage(t.Context(), r.Store.Queries, tasktest.Org, true)
		require.NoError(t, err)
		require.Len(t, usage.Lines("ann"), 1)
		return usage.Lines("ann")[0]
	}
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Reserved: 4, Limit: 4}, line())
	requeue(3)
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Used: 3, Reserved: 1, Limit: 4}, line())
	require.Equal(t, sorted(made), r.admit())
	requeue(4)
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Used: 4, Limit: 4}, line())
	require.Empty(t, r.admit())
	require.Contains(t, r.Task(made.ID).Reason, "are used or reserved by unfinished runs; starts on ")

	r.now = time.Now().UTC().AddDate(0, 1, 0)
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Limit: 4}, line())
	require.Equal(t, sorted(made), r.admit())
	require.EqualValues(t, 5, *r.Task(made.ID).GrantedIterations, "as many as its own limit")
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Reserved: 1, Limit: 4}, line())

	// Beyond its own limit it does not wait for a quota: it starts, and ends at its limit.
	r.now = time.Now()
	requeue(9)
	require.EqualValues(t, 9, line().Used)
	require.Equal(t, sorted(made), r.admit())
	r.spend(r.Task(made.ID), 9, 0)
	require.Equal(t, quota.Line{Scope: "user", Metric: "iterations", Used: 9, Limit: 4}, line(), "the end counts nothing twice")
}

// Administrators who change different limits at once do not undo each other's changes.
func TestLimitsAreChangedOneAfterAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	other := quota.New(quota.Config{Store: r.Store, Recorder: r.Recorder})
	for i := range int64(5) {
		var changing sync.WaitGroup
		changing.Go(func() {
			assert.NoError(t, other.SetLimits(t.Context(), tasktest.Org, quota.EachUser, quota.Change{Runs: new(i + 1)}, tasktest.By("ann")))
		})
		changing.Go(func() {
			assert.NoError(t, r.cfg.Plans.SetLimits(t.Context(), tasktest.Org, quota.EachUser, quota.Change{Tokens: new(i + 1)}, tasktest.By("bob")))
		})
		changing.Wait()
		now, err := quota.New(quota.Config{Store: r.Store}).Subscription(t.Context(), r.Store.Queries, tasktest.Org)
		require.NoError(t, err)
		require.Equal(t, quota.Amounts{Runs: i + 1, Tokens: i + 1}, now.Limits[quota.EachUser])
	}
}

// A billing period begins on the organisation's day; what was used is counted by day, so
// that another day does not forget it.
func TestABillingPeriodBeginsOnItsDay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.now = time.Date(2026, 11, 14, 22, 0, 0, 0, time.UTC)
	require.NoError(t, r.cfg.Plans.Set(t.Context(), tasktest.Org, quota.PlanChange{Name: quota.Starter, CycleDay: new(int32(15))}, tasktest.By("root")))
	r.Submit(r.agent, "ann", nil)
	require.Len(t, r.admit(), 1)
	require.Equal(t, "2026-10-15", r.stands().Period)
	require.EqualValues(t, 1, r.stands().Used)
	r.now = r.now.Add(3 * time.Hour)
	require.Equal(t, "2026-11-15", r.stands().Period)
	require.Zero(t, r.stands().Used)
	require.NoError(t, r.cfg.Plans.Set(t.Context(), tasktest.Org, quota.PlanChange{CycleDay: new(int32(1))}, tasktest.By("root")))
	require.Equal(t, quota.Starter, r.stands().Name)
	require.Equal(t, "2026-11", r.stands().Period)
	require.EqualValues(t, 1, r.stands().Used)
}

// Where an organisation wants that, a submission for which no run is left is refused; any
// number of hubs that take submissions at once accept no more than there are runs, with those
// that wait in the queue.
func TestHubsAcceptNoMoreTasksThanThereAreRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	require.NoError(t, r.cfg.Plans.Set(t.Context(), tasktest.Org, quota.PlanChange{Name: quota.Enterprise, Runs: new(int64(10)), Hard: new(true)}, tasktest.By("root")))
	var hubs []*task.Service
	for range 2 {
		f := r.Reopen()
		hubs = append(hubs, task.NewService(task.Config{
			Store: f.Store, Recorder: f.Recorder, Agents: f.Agents, Quota: quota.New(quota.Config{Store: f.Store, Recorder: f.Recorder, UpgradeURL: "https://example.com/plans"}),
		}))
	}
	var working sync.WaitGroup
	var accepted, refused atomic.Int32
	for i := range 24 {
		working.Go(func() {
			hub, sub := hubs[i%len(hubs)], task.Submission{OrgID: tasktest.Org, AgentID: r.agent, Goal: "go on", By: tasktest.By("ann"), Role: "admin"}
			var err error
			if i%3 > 0 {
				_, err = hub.Submit(t.Context(), sub)
			} else if draft, derr := hub.Draft(t.Context(), sub); assert.NoError(t, derr) {
				// As triggers and agents do, in a transaction of their own.
				err = r.Recorder.Tx(t.Context(), func(tx *event.Tx) error {
					_, err := draft.Store(t.Context(), tx)
					return err
				})
			}
			switch {
			case err == nil:
				accepted.Add(1)
			case fault.Is(err, fault.Exhausted):
				refused.Add(1)
				assert.ErrorContains(t, err, "all 10 runs of the plan enterprise")
				assert.Contains(t, fault.As(err).Fix, "https://example.com/plans")
			default:
				assert.NoError(t, err)
			}
		})
	}
	// Runs are admitted meanwhile: one that moves from the queue to the count is in one of them.
	for range 3 {
		working.Go(func() { assert.NoError(t, r.admission.Admit(t.Context(), tasktest.Org)) })
	}
	working.Wait()
	require.EqualValues(t, 10, accepted.Load())
	require.EqualValues(t, 14, refused.Load())
	require.Len(t, r.admit(), 10)

	// A repeated submission is no new run, and a cancelled one gives its place back.
	require.NoError(t, r.cfg.Plans.Set(t.Context(), tasktest.Org, quota.PlanChange{Name: quota.Enterprise, Runs: new(int64(11))}, tasktest.By("root")))
	fresh := task.NewService(task.Config{Store: r.Store, Recorder: r.Recorder, Agents: r.Agents, Quota: r.plans()})
	once := task.Submission{OrgID: tasktest.Org, AgentID: r.agent, Goal: "go on", By: tasktest.By("ann"), Role: "admin", IdempotencyKey: "one"}
	made, err := fresh.Submit(t.Context(), once)
	require.NoError(t, err)
	again, err := fresh.Submit(t.Context(), once)
	require.NoError(t, err)
	require.Equal(t, made.Task.ID, again.Task.ID)
	once.IdempotencyKey = "two"
	_, err = fresh.Submit(t.Context(), once)
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	r.Move(made.Task.ID, task.Cancelled)
	_, err = fresh.Submit(t.Context(), once)
	require.NoError(t, err)

	// Neither a subtask, a trigger nor an assignment gets around it.
	once.IdempotencyKey = ""
	draft, err := fresh.Draft(t.Context(), once)
	require.NoError(t, err)
	err = r.Recorder.Tx(t.Context(), func(tx *event.Tx) error {
		_, err := draft.Store(t.Context(), tx)
		return err
	})
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	once.AgentID = ""
	made, err = fresh.Submit(t.Context(), once)
	require.NoError(t, err)
	err = fresh.Assign(t.Context(), tasktest.Org, made.Task.ID, task.Assignee{AgentID: r.agent}, tasktest.By("ann"), "admin")
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.Equal(t, string(task.Pending), r.Task(made.Task.ID).State)
}

// Two hubs that admit at once grant together no more than a quota has left.
func TestGrantsOfAQuotaAreNotRaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.User("ann", "basic")
	r.limit(quota.EachUser, quota.Change{Iterations: new(int64(12))}) // a run wants 5
	for range 6 {
		r.Submit(r.agent, "ann", nil)
	}
	cfg := r.cfg
	cfg.Recorder = r.Reopen().Recorder
	cfg.Plans = r.plans()
	other := admission.New(cfg)
	var hubs sync.WaitGroup
	for range 3 {
		hubs.Go(func() { assert.NoError(t, r.admission.Admit(t.Context(), tasktest.Org)) })
		hubs.Go(func() { assert.NoError(t, other.Admit(t.Context(), tasktest.Org)) })
	}
	hubs.Wait()
	var granted, runs int64
	require.NoError(t, r.SQL.QueryRow(t.Context(), "SELECT sum(granted_iterations)::bigint, count(*) FROM tasks WHERE admitted_at IS NOT NULL").Scan(&granted, &runs))
	require.EqualValues(t, 12, granted)
	require.EqualValues(t, 3, runs, "5, 5 and 2")
	usage, err := r.cfg.Plans.Usage(t.Context(), r.Store.Queries, tasktest.Org, true)
	require.NoError(t, err)
	require.Equal(t, []quota.Line{{Scope: "user", Metric: "iterations", Reserved: 12, Limit: 12}}, usage.Lines("ann"))
}
