// Package admission decides which queued tasks may start, in the order of package queue,
// and publishes a wake-up for each. Admission is its service. It runs in any hub under a
// transaction-scoped lock per organisation, so that no limit is exceeded by a race, and
// stores why a task does not start.
//
// It admits no more tasks than workers will soon have slots for: an admitted task has
// left the queue, and no other can be put before it.
//
// If a wake-up is lost with the bus, Republish sends it again until the task is claimed.
package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/queue"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// Config holds the dependencies of Admission.
type Config struct {
	Recorder *event.Recorder
	Queries  *db.Queries
	Agents   *agent.Service
	// Wake publishes a wake-up to a pool's workers.
	Wake func(ctx context.Context, pool string, w bus.Wakeup) error
	// StaleAfter is how long a node counts as connected after its last heartbeat.
	StaleAfter time.Duration
	// MaxActive caps an organisation's tasks that hold a slot, MaxPerUser those
	// of one of its users.
	MaxActive, MaxPerUser int
	// WorkerStale is how long a worker counts as connected after its last call.
	WorkerStale time.Duration
	// Sweep is the interval at which all queues are checked, independent of kicks.
	Sweep time.Duration
	// Usable refuses a model that an organisation cannot call; nil for none.
	Usable func(ctx context.Context, q *db.Queries, orgID, provider, model string) error
	// Plans returns how many runs an organisation has left.
	Plans *quota.Service
	// OnDecision, if set, is called after the commit with the number of considered tasks
	// that may start and that wait.
	OnDecision func(admitted, waiting int)
	// ClaimTimeout is how long a wake-up may stay unclaimed.
	ClaimTimeout time.Duration
	Log          hclog.Logger
}

// Admission is the service.
type Admission struct {
	lifecycle.Runner

	cfg   Config
	kicks chan string // organisations to check
}

// New creates an Admission.
func New(cfg Config) *Admission {
	if cfg.OnDecision == nil {
		cfg.OnDecision = func(int, int) {}
	}
	return &Admission{cfg: cfg, kicks: make(chan string, 4096)}
}

// Kick requests a check of an organisation's queue soon. It never blocks: if too many
// requests wait already, the sweep covers it.
func (a *Admission) Kick(orgID string) {
	select {
	case a.kicks <- orgID:
	default:
	}
}

// Start begins admitting.
func (a *Admission) Start(ctx context.Context) error { return a.Run(ctx, a.loop) }

func (a *Admission) loop(ctx context.Context) error {
	ticker := time.NewTicker(a.cfg.Sweep)
	defer ticker.Stop()
	for {
		orgs, swept := map[string]bool{}, false
		select {
		case <-ctx.Done():
			return nil
		case org := <-a.kicks:
			orgs[org] = true
			for more := true; more; {
				select {
				case org := <-a.kicks:
					orgs[org] = true
				default:
					more = false
				}
			}
		case <-ticker.C:
			swept = true
			waiting, err := a.cfg.Queries.OrganisationsWithQueue(ctx)
			if err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot read the queue; will try again", "error", err)
			}
			for _, org := range waiting {
				orgs[org] = true
			}
			if err := a.Republish(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot send wake-ups again; will try again", "error", err)
			}
		}
		for org := range orgs {
			if err := a.admit(ctx, org, swept); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot admit tasks; will try again", "org_id", org, "error", err)
			}
		}
	}
}

const (
	// perShare is how many tasks of one share an admission considers at a time. If tasks
	// that cannot start fill that, it continues behind them.
	perShare = 200
	// near is how far behind such tasks it goes at each end of a task, and far
	// how far in a sweep.
	near = 1_000
	far  = 1_000_000
)

// Admit lets what may start of an organisation's queue start, and stores of the
// rest why it does not.
func (a *Admission) Admit(ctx context.Context, orgID string) error { return a.admit(ctx, orgID, true) }

// admit is Admit. If nothing can start, and reasons are not requested, it does not read
// the queue: this is the case at every end of a task.
func (a *Admission) admit(ctx context.Context, orgID string, reasons bool) error {
	return a.cfg.Recorder.TxLocked(ctx, func(ahead *db.Queries) error { return ahead.LockAdmission(ctx, orgID) }, func(tx *event.Tx) error {
		r, err := a.look(ctx, tx, orgID)
		if err != nil {
			return err
		}
		if !reasons && r.full() {
			return nil
		}
		tasks, err := tx.QueuedTasks(ctx, db.QueuedTasksParams{OrgID: orgID, PerShare: perShare})
		if err != nil {
			return fmt.Errorf("read the queue: %w", err)
		}
		if len(tasks) == 0 {
			return nil
		}
		if err := r.lookAround(ctx, tx); err != nil {
			return err
		}
		reach := int32(near)
		if reasons {
			reach = far
		}
		looked := 0
		for learnt := -1; ; {
			looked += len(tasks)
			if err := r.walk(ctx, tx, tasks); err != nil {
				return err
			}
			if r.full() || !crowded(tasks) || learnt == r.learnt() {
				break
			}
			learnt = r.learnt()
			if tasks, err = r.beyond(ctx, tx, reach); err != nil {
				return err
			}
		}
		wakes := r.wakes
		tx.AfterCommit(func() { a.cfg.OnDecision(len(wakes), looked-len(wakes)) })
		if len(wakes) == 0 {
			return nil
		}
		r.plan.Store(tx, orgID)
		// Each once, and their rows in the order in which every hub locks them.
		served := slices.Sorted(maps.Keys(r.served))
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			return q.ServeShares(ctx, db.ServeSharesParams{OrgID: orgID, Shares: served})
		})
		tx.AfterCommit(func() { a.wake(ctx, wakes) })
		return nil
	})
}

// crowded reports whether a share may have more tasks than those.
func crowded(tasks []db.QueuedTasksRow) bool {
	n := map[string]int{}
	for _, t := range tasks {
		if n[t.Share]++; n[t.Share] >= perShare {
			return true
		}
	}
	return false
}

func entry(t db.QueuedTasksRow) queue.Entry { return queue.Entry{Share: t.Share, Priority: t.Priority} }

// wake is a wake-up to be published.
type wake struct {
	pool   string
	wakeup bus.Wakeup
}

// wake publishes wake-ups. A failure is not lost: the sweep publishes again for tasks
// that no worker has claimed.
func (a *Admission) wake(ctx context.Context, wakes []wake) {
	var sending sync.WaitGroup
	defer sending.Wait()
	limit := make(chan struct{}, 16)
	for _, w := range wakes {
		limit <- struct{}{}
		sending.Go(func() {
			defer func() { <-limit }()
			if err := a.cfg.Wake(ctx, w.pool, w.wakeup); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot publish a wake-up; will try again", "task_id", w.wakeup.TaskID, "error", err)
			}
		})
	}
}

// WakePool names the consumer of an organisation's pool of workers.
func WakePool(orgID, pool string) string { return orgID + "-" + pool }

// republish bounds how many wake-ups one sweep sends again.
const republish = 500

// Republish sends the wake-ups again of tasks that no worker has claimed in time.
func (a *Admission) Republish(ctx context.Context) error {
	tasks, err := a.cfg.Queries.UnclaimedTasks(ctx, db.UnclaimedTasksParams{OlderThan: a.cfg.ClaimTimeout, MaxRows: republish})
	if err != nil {
		return fmt.Errorf("find unclaimed tasks: %w", err)
	}
	for _, t := range tasks {
		if err := a.cfg.Wake(ctx, WakePool(t.OrgID, t.Pool), bus.Wakeup{TaskID: t.ID, Attempt: t.Attempt + 1}); err != nil {
			return err
		}
	}
	return nil
}
