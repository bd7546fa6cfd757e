package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const org = "org_1"

type rig struct {
	*budget.Ledger

	t     *testing.T
	store *store.Store
	conn  *pgx.Conn
	now   time.Time
	other *budget.Ledger // another hub's
}

// newRig has a root task of 1 USD; every other task's own cap is 100 USD.
func newRig(t *testing.T) *rig {
	t.Helper()
	url := storetest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	r := &rig{t: t, store: s, conn: conn, now: time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)}
	recorder := event.NewRecorder(event.RecorderConfig{
		Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})
	cfg := budget.Config{
		Store: s, Recorder: recorder, MaxCall: time.Minute, Now: func() time.Time { return r.now },
		Cap: func(_ context.Context, _, agent string, _ int32, _ json.RawMessage) (int64, error) {
			if agent == "root" {
				return 1_000_000, nil
			}
			return 100_000_000, nil
		},
	}
	r.Ledger, r.other = budget.New(cfg), budget.New(cfg)
	r.exec(`INSERT INTO organisations (id, name) VALUES ($1, $1)`, org)
	return r
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(r.t.Context(), sql, args...)
	require.NoError(r.t, err)
}

func (r *rig) task(id, agent, parent, lineage string) db.Task {
	r.t.Helper()
	t := db.Task{ID: id, OrgID: org, AgentID: agent, LineageID: lineage, CreatedBy: "ann", Attempt: 1}
	if parent != "" {
		t.ParentID = &parent
	}
	r.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, created_by, created_by_role,
	            correlation_id, lineage_id, parent_id, trigger_id, share, assigned_at)
	        VALUES ($1, $2, $3, 1, 't', 'g', 'queued', 'r', 'task', 'j', 'ann', 'admin', 'c', $4, $5, 'manual', 'ann', now())`, id, org, agent, lineage, t.ParentID)
	return t
}

func (r *rig) reserve(t db.Task, micros int64) (*budget.Reservation, error) {
	return r.Reserve(r.t.Context(), budget.Call{Task: t, Provider: "anthropic", Model: "m", Amount: micros})
}

func (r *rig) account(scope, object, period string) (spent, reserved int64) {
	r.t.Helper()
	a, err := r.store.GetBudgetAccount(r.t.Context(), db.GetBudgetAccountParams{OrgID: org, Scope: scope, ObjectID: object, Period: period})
	require.NoError(r.t, err)
	return a.SpentMicros, a.ReservedMicros
}

func cost(micros int64) budget.Cost {
	return budget.Cost{Basis: budget.Reported, Usage: price.Usage{Input: 1, Output: 2}, Micros: micros}
}

// Fifty children at once, on two hubs, never pass their parent's cap, which
// is exact: what is left is less than one more call.
func TestFiftyChildrenAtOnceNeverPassTheCap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.task("root", "root", "", "root")
	var children []db.Task
	for i := range 50 {
		children = append(children, r.task(fmt.Sprintf("child_%d", i), "child", "root", "root"))
	}
	const worst, truth = 30_000, 10_000
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() {
			ledger := r.Ledger
			if i%2 == 1 {
				ledger = r.other
			}
			for range 4 {
				res, err := ledger.Reserve(t.Context(), budget.Call{Task: child, Amount: worst})
				if err != nil {
					if fault.As(err) == nil || fault.As(err).Code != fault.BudgetLimit {
						t.Error(err)
					}
					refused.Add(1)
					continue
				}
				made.Add(1)
				if err := ledger.Settle(t.Context(), res, cost(truth)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.Wait()
	r.other.Wait()
	// A single caller continues until the next worst case does not fit any more.
	for {
		res, err := r.reserve(children[0], worst)
		if err != nil {
			require.Equal(t, fault.BudgetLimit, fault.As(err).Code)
			require.ErrorContains(t, err, "budget of task root")
			break
		}
		made.Add(1)
		require.NoError(t, r.Settle(t.Context(), res, cost(truth)))
	}
	spent, reserved := r.account("task", "root", "")
	require.Zero(t, reserved)
	require.Equal(t, made.Load()*truth, spent)
	require.LessOrEqual(t, spent, int64(1_000_000))
	require.Greater(t, spent, int64(1_000_000-worst))
	t.Logf("%d calls, %d refused", made.Load(), refused.Load())
}

// A retry or a fork is of its first task's lineage, and shares what
// that may spend.
func TestAForkDoesNotBeginAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.task("first", "root", "", "first")
	fork := r.task("fork", "root", "", "first")
	res, err := r.reserve(first, 900_000)
	require.NoError(t, err)
	require.NoError(t, r.Settle(t.Context(), res, cost(900_000)))
	_, err = r.reserve(fork, 200_000)
	require.ErrorContains(t, err, "lineage first")
	_, err = r.reserve(fork, 100_000)
	require.NoError(t, err)
}

func TestSettlingTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("a", "child", "", "a")
	res, err := r.reserve(task, 500)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, r.Settle(t.Context(), res, cost(100)))
	}
	spent, reserved := r.account("organisation", org, "")
	require.EqualValues(t, 100, spent)
	require.Zero(t, reserved)
}

// The default limits are 50 USD a day and 500 a month; they start again each day and
// month, and a call counts for the day on which it began.
func TestDaysAndMonths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("a", "child", "", "a")
	res, err := r.reserve(task, 49_000_000)
	require.NoError(t, err)
	_, err = r.reserve(task, 2_000_000)
	require.ErrorContains(t, err, "2026-01-31")
	require.ErrorContains(t, err, "deckhand budget set organisation USD --every day")
	r.now = r.now.Add(2 * time.Hour)
	second, err := r.reserve(task, 2_000_000)
	require.NoError(t, err)
	require.NoError(t, r.Settle(t.Context(), res, cost(48_000_000)))
	require.NoError(t, r.Settle(t.Context(), second, cost(1_000_000)))
	spent, _ := r.account("organisation", org, "2026-01-31")
	require.EqualValues(t, 48_000_000, spent)
	spent, _ = r.account("organisation", org, "2026-02-01")
	require.EqualValues(t, 1_000_000, spent)
	spent, _ = r.account("user", "ann", "2026-02")
	require.EqualValues(t, 1_000_000, spent)

	limit := int64(1_500_000)
	require.NoError(t, r.store.SetBudget(t.Context(), db.SetBudgetParams{OrgID: org, Scope: "user", ObjectID: "ann", Every: "month", LimitMicros: &limit, SetBy: "x"}))
	_, err = r.reserve(task, 600_000)
	require.ErrorContains(t, err, "user ann for 2026-02")
	require.NoError(t, r.store.ClearBudget(t.Context(), db.ClearBudgetParams{OrgID: org, Scope: "user", ObjectID: "ann", Every: "month"}))
	_, err = r.reserve(task, 600_000)
	require.NoError(t, err)
}

// A caller that dies with a call in progress has spent all of its reservation.
func TestALostCallIsSpent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("a", "child", "", "a")
	res, err := r.reserve(task, 700)
	require.NoError(t, err)
	n, err := r.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "it may still go on")
	r.exec("UPDATE model_calls SET lost_at = now() - interval '1 s'")
	n, err = r.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	spent, reserved := r.account("task", "a", "")
	require.EqualValues(t, 700, spent)
	require.Zero(t, reserved)
	require.NoError(t, r.Settle(t.Context(), res, cost(1)), "it comes too late, and changes nothing")
	spent, _ = r.account("task", "a", "")
	require.EqualValues(t, 700, spent)
}

// At 80 % it says so, once.
func TestAWarningAtFourFifths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("root", "root", "", "root")
	for range 9 {
		res, err := r.reserve(task, 100_000)
		require.NoError(t, err)
		require.NoError(t, r.Settle(t.Context(), res, cost(100_000)))
	}
	var payloads []string
	rows, err := r.conn.Query(t.Context(), "SELECT (payload ->> 'scope') || ' ' || (payload ->> 'spent_micros') FROM events WHERE type = 'budget_warning' ORDER BY id")
	require.NoError(t, err)
	payloads, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"task 800000", "lineage 800000"}, payloads)
}

// A caller who leaves before the answer leaves nothing set aside.
func TestWhoLeavesHoldsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("a", "child", "", "a")
	tx, err := r.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "INSERT INTO budget_accounts (org_id, scope, object_id, period) VALUES ($1, 'organisation', $1, '')", org)
	require.NoError(t, err)
	ctx, leave := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("left"))
	defer leave()
	_, err = r.Reserve(ctx, budget.Call{Task: task, Amount: 500})
	require.ErrorContains(t, err, "left")
	require.NoError(t, tx.Commit(t.Context()))
	r.Wait()
	_, reserved := r.account("organisation", org, "")
	require.Zero(t, reserved)
}
