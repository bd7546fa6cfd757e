package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
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
			_, err := hubs[i%len(hubs)].Submit(t.Context(), task.Submission{OrgID: tasktest.Org, AgentID: r.agent, Goal: "go on", By: tasktest.By("ann"), Role: "admin"})
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
}
