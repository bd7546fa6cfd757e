package admission_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/admission"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
)

func (r *rig) plans() *quota.Service {
	return quota.New(quota.Config{Store: r.Store, Recorder: r.Recorder, Now: func() time.Time { return r.now }})
}

// on has the organisation on a plan; with runs of a month instead of its own.
func (r *rig) on(name string, runs *int64) {
	r.T.Helper()
	require.NoError(r.T, r.cfg.Plans.Set(r.T.Context(), tasktest.Org, quota.PlanChange{Name: name, Runs: runs}, tasktest.By("root")))
}

func (r *rig) stands() *quota.Usage {
	r.T.Helper()
	out, err := r.cfg.Plans.Usage(r.T.Context(), r.Store.Queries, tasktest.Org, true)
	require.NoError(r.T, err)
	return out
}

// told returns the quota events of tasks.
func (r *rig) told() []string {
	r.T.Helper()
	rows, err := r.SQL.Query(r.T.Context(), "SELECT type || ' ' || (payload ->> 'used') FROM events WHERE type IN ('plan_warning', 'plan_reached') ORDER BY id")
	require.NoError(r.T, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r.T, err)
	return out
}

// A month's runs are counted when they begin, once each; notifications are sent at 80 %
// and at the end; a task that finds none left waits, with the reason; runs that are left
// roll over, and the next month starts at zero.
func TestAPlansRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.now = time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	r.on(quota.Enterprise, new(int64(5)))
	var first, rest []db.Task
	for range 3 {
		first = append(first, r.Submit(r.agent, "ann", nil))
	}
	require.Equal(t, sorted(first...), r.admit())

	// A task that is admitted twice, because its node was lost, is one run.
	r.Exec("UPDATE tasks SET admitted_at = NULL WHERE id = $1", first[0].ID)
	require.Equal(t, sorted(first[0]), r.admit())
	require.EqualValues(t, 3, r.stands().Used)
	require.EqualValues(t, 2, r.stands().Remaining())

	// The month after has what was left.
	r.now = r.now.Add(3 * time.Hour)
	for range 9 {
		rest = append(rest, r.Submit(r.agent, "ann", nil))
	}
	require.Equal(t, sorted(rest[:7]...), r.admit())
	require.Equal(t, "all 7 runs of the plan enterprise for 2026-12 are used; waits for 1 January, or for another plan (deckhand quota set NAME)", r.Task(rest[8].ID).Reason)
	require.Empty(t, r.admit())
	require.Equal(t, []string{"plan_warning 6", "plan_reached 7"}, r.told(), "four fifths of 7 are nearly 6")

	// Nothing is left of December for January.
	r.now = r.now.AddDate(0, 1, 0)
	require.Equal(t, sorted(rest[7:]...), r.admit())
	require.Zero(t, r.stands().Carried)
	require.EqualValues(t, 3, r.stands().Remaining())

	// Another plan holds at once.
	for range 5 {
		r.Submit(r.agent, "ann", nil)
	}
	require.Len(t, r.admit(), 3)
	r.on(quota.SelfHosted, nil)
	require.Len(t, r.admit(), 2)
}

// Any number of hubs that admit at once start no more runs than there are.
func TestHubsShareAPlansRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.on(quota.Enterprise, new(int64(10)))
	hubs := []*admission.Admission{r.admission}
	for range 3 {
		cfg := r.cfg
		cfg.Plans = r.plans()
		hubs = append(hubs, admission.New(cfg))
	}
	for range 25 {
		r.Submit(r.agent, "ann", nil)
	}
	var working sync.WaitGroup
	for range 3 {
		for _, hub := range hubs {
			working.Go(func() { assert.NoError(t, hub.Admit(t.Context(), tasktest.Org)) })
		}
	}
	working.Wait()
	require.Len(t, r.admit(), 10, "all that were woken, and none just now")
	var started int
	require.NoError(t, r.SQL.QueryRow(t.Context(), "SELECT count(*) FROM tasks WHERE admitted_at IS NOT NULL").Scan(&started))
	require.Equal(t, 10, started)
}
