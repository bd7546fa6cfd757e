package admission_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/admission"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// rig is an admission on a database, and the wake-ups that it sent.
type rig struct {
	*tasktest.Fixture

	admission *admission.Admission
	agent     string
	worker    string

	cfg admission.Config
	// now is the time that plans go by.
	now time.Time

	mu    sync.Mutex
	woken []string
}

func newRig(t *testing.T, change func(*admission.Config)) *rig {
	t.Helper()
	r := &rig{Fixture: tasktest.New(t), now: time.Now()}
	cfg := admission.Config{
		Recorder: r.Recorder, Queries: r.Store.Queries, Agents: r.Agents, Plans: r.plans(), StaleAfter: time.Minute, MaxActive: 100, MaxPerUser: 100,
		WorkerStale: time.Hour, Sweep: time.Hour, ClaimTimeout: time.Minute, Log: hclog.NewNullLogger(),
		Wake: func(_ context.Context, pool string, w bus.Wakeup) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			require.Equal(t, admission.WakePool(tasktest.Org, "default"), pool)
			r.woken = append(r.woken, w.TaskID)
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	r.cfg = cfg
	r.admission = admission.New(cfg)
	r.agent = r.Agent("walker", persona.ScopeTask)
	r.Node("one")
	r.worker = r.Worker("w", 1000)
	return r
}

// admit returns the tasks that were woken, sorted by id.
func (r *rig) admit() []string {
	r.T.Helper()
	require.NoError(r.T, r.admission.Admit(r.T.Context(), tasktest.Org))
	r.mu.Lock()
	defer r.mu.Unlock()
	woken := r.woken
	r.woken = nil
	slices.Sort(woken)
	return woken
}

func sorted(tasks ...db.Task) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	slices.Sort(ids)
	return ids
}

func priority(p int32) func(*task.Submission) { return func(s *task.Submission) { s.Priority = p } }

// The organisation's cap holds, the highest priority goes first, and the
// others know why they wait.
func TestPriorityAndTheOrganisationsCap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive = 2 })
	low, mid, high := r.Submit(r.agent, "ann", priority(1)), r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "ann", priority(10))
	require.Equal(t, sorted(mid, high), r.admit())
	require.Equal(t, "all 2 task slots of the organisation are taken; waits for one to end", r.Task(low.ID).Reason)
	require.NotNil(t, r.Task(high.ID).AdmittedAt)
	require.Empty(t, r.admit(), "nothing is admitted twice")
	r.Move(high.ID, task.Cancelled)
	require.Equal(t, sorted(low), r.admit())
}

// A user's cap holds, and users take turns.
func TestUsersCapAndTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive, c.MaxPerUser = 4, 3 })
	var ann []db.Task
	for range 6 {
		ann = append(ann, r.Submit(r.agent, "ann", nil))
	}
	bob := r.Submit(r.agent, "bob", nil)
	require.Equal(t, sorted(ann[0], ann[1], ann[2], bob), r.admit())
	require.Equal(t, "ann has 3 running tasks, as many as one user may have; waits for one to end", r.Task(ann[3].ID).Reason)
	// One slot: the turn is bob's, though ann waits longer.
	bob2 := r.Submit(r.agent, "bob", nil)
	r.Move(ann[0].ID, task.Cancelled)
	require.Equal(t, sorted(bob2), r.admit(), "bob has one in progress, ann two")
	r.Move(ann[1].ID, task.Cancelled)
	require.Equal(t, sorted(ann[3]), r.admit())
}

// With one slot and everybody's tasks short, turns alternate.
func TestTurnsAreRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive = 1 })
	for i := range 6 {
		r.Submit(r.agent, []string{"ann", "ann", "ann", "ann", "bob", "bob"}[i], nil)
	}
	var turns []string
	for range 6 {
		woken := r.admit()
		require.Len(t, woken, 1)
		turns = append(turns, r.Task(woken[0]).CreatedBy)
		r.Move(woken[0], task.Cancelled)
	}
	require.Equal(t, []string{"ann", "bob", "ann", "bob", "ann", "ann"}, turns)
}

// People reorder.
func TestReorderedTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive = 1 })
	a := r.Submit(r.agent, "ann", nil)
	b := r.Submit(r.agent, "bob", nil)
	c := r.Submit(r.agent, "ann", nil)
	d := r.Submit(r.agent, "cat", priority(8))
	e := r.Submit(r.agent, "ann", priority(2))
	reorder := func(t0 db.Task, to task.Reorder) {
		require.NoError(t, r.Tasks.Reorder(t.Context(), tasktest.Org, t0.ID, to, tasktest.By("boss")))
	}
	reorder(c, task.Reorder{Before: a.ID})
	reorder(e, task.Reorder{First: true})
	reorder(d, task.Reorder{Priority: 3})
	standings, err := r.Tasks.Standings(t.Context(), tasktest.Org, r.Task(a.ID), r.Task(b.ID), r.Task(c.ID), r.Task(d.ID), r.Task(e.ID))
	require.NoError(t, err)
	entries, err := audit.List(t.Context(), r.Store, tasktest.Org, audit.Filter{Action: "task.reordered", Max: 10})
	require.NoError(t, err)
	require.Len(t, entries, 3, "who moved what is on record")
	require.Equal(t, []string{d.ID, e.ID, c.ID}, []string{entries[0].ObjectID, entries[1].ObjectID, entries[2].ObjectID})
	require.Equal(t, "boss", entries[0].ActorID)
	require.JSONEq(t, `{"priority": 8}`, string(entries[0].Before))
	require.JSONEq(t, `{"priority": 3}`, string(entries[0].After))
	require.JSONEq(t, `{"priority": 8, "first": true}`, string(entries[1].After))
	require.JSONEq(t, `{"priority": 5, "before": "`+a.ID+`"}`, string(entries[2].After))
	var order []string
	for range 5 {
		woken := r.admit()
		require.Len(t, woken, 1)
		order = append(order, woken[0])
		r.Move(woken[0], task.Cancelled)
	}
	require.Equal(t, []string{e.ID, c.ID, b.ID, a.ID, d.ID}, order)
	for i, id := range order {
		require.EqualValues(t, i+1, standings[id].Place, "the place that was told is the one it had")
		require.Equal(t, "no history", standings[id].Basis)
	}
	require.ErrorContains(t, r.Tasks.Reorder(t.Context(), tasktest.Org, a.ID, task.Reorder{First: true}, tasktest.By("boss")), "not in the queue")
}

// Nothing starts on a node that is away, locked, drained or under
// pressure, and the task says so.
func TestNodesThatTakeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	job := r.Submit(r.agent, "ann", nil)
	for _, c := range []struct{ name, set, unset, want string }{
		{"away", "UPDATE node_sessions SET connected = false", "UPDATE node_sessions SET connected = true",
			"no node that the persona may use is connected; start deckhand-node on one"},
		{"stale", "UPDATE node_sessions SET touched_at = now() - interval '2 minutes'", "UPDATE node_sessions SET touched_at = now() + interval '1 day'",
			"no node that the persona may use is connected; start deckhand-node on one"},
		{"drained", "UPDATE nodes SET drained_at = now(), drained_by = 'boss', drain_reason = 'new disk'",
			"UPDATE nodes SET drained_at = NULL, drained_by = ''", "node one is drained by boss: new disk"},
		{"locked", "INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason) VALUES ('l', 'org_test', 'node_one', 'u', 'boss', 'upgrade')",
			"UPDATE node_locks SET released_at = now(), released_by = 'boss'", "node one is locked by boss: upgrade"},
		{"under pressure", "UPDATE nodes SET pressure = 'free memory is 4 %'", "UPDATE nodes SET pressure = ''",
			"node one is under pressure: free memory is 4 %"},
		{"worker drained", "UPDATE workers SET drained_at = now(), drained_by = 'boss'", "UPDATE workers SET drained_at = NULL, drained_by = ''",
			"worker " + r.worker + " is drained"},
		{"worker under pressure", "UPDATE workers SET pressure = 'load is 9'", "UPDATE workers SET pressure = ''",
			"worker " + r.worker + " takes nothing new: load is 9"},
		{"agent paused", "UPDATE agents SET status = 'paused'", "UPDATE agents SET status = 'idle'", "agent walker is paused; go on with: deckhand agent resume walker"},
		{"not yet", "UPDATE tasks SET not_before = now() + interval '1 hour', reason = 'tries again later'", "", "tries again later"},
	} {
		r.Exec(c.set)
		require.Empty(t, r.admit(), c.name)
		require.Equal(t, c.want, r.Task(job.ID).Reason, c.name)
		if c.unset != "" {
			r.Exec(c.unset)
		}
	}
	r.Exec("UPDATE tasks SET not_before = now()")
	require.Equal(t, []string{job.ID}, r.admit())
}

// An agent's home is the node of its first task; a task that was admitted, and put back
// before a worker claimed it, may begin on another.
func TestAnAgentsHomeIsWhereItsFirstTaskBegan(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	job := r.Submit(r.Agent("home", persona.ScopeAgent), "ann", nil)
	home := func() (node *string) {
		require.NoError(t, r.SQL.QueryRow(t.Context(), "SELECT home_node_id FROM agents WHERE id = $1", job.AgentID).Scan(&node))
		return node
	}
	require.Equal(t, []string{job.ID}, r.admit())
	require.Equal(t, "node_one", *r.Task(job.ID).NodeID)
	require.Nil(t, home())
	require.NoError(t, r.Store.TakeBackFromNode(t.Context(), db.TakeBackFromNodeParams{OrgID: tasktest.Org, NodeID: "node_one", Reason: "a test"}))
	r.Node("two")
	r.Exec("UPDATE node_sessions SET connected = false WHERE node_id = 'node_one'")
	require.Equal(t, []string{job.ID}, r.admit())
	r.Run(r.worker, job.ID)
	require.Equal(t, "node_two", *home())
}

// Tasks that cannot start block no other, however many they are: three hundred tasks of
// an agent that is paused, has no node, or has one workspace for all, come before one of
// the same person's that can start.
func TestWhatCannotStartStarvesNobody(t *testing.T) {
	t.Parallel()
	const many = 300
	for _, c := range []struct {
		name  string
		scope persona.Scope
		block func(r *rig, agentID string)
	}{
		{"paused", persona.ScopeTask, func(r *rig, id string) {
			require.NoError(r.T, r.Agents.Pause(r.T.Context(), tasktest.Org, id, "", tasktest.By("boss")))
		}},
		{"on a node that was revoked", persona.ScopeTask, func(r *rig, id string) {
			r.Node("gone")
			r.Exec("UPDATE nodes SET revoked_at = now() WHERE id = 'node_gone'")
			r.Exec("UPDATE tasks SET node_id = 'node_gone' WHERE agent_id = $1", id)
		}},
		{"on a node that is away", persona.ScopeAgent, func(r *rig, id string) {
			r.Node("away")
			r.Exec("UPDATE node_sessions SET connected = false WHERE node_id = 'node_away'")
			r.Exec("UPDATE agents SET home_node_id = 'node_away' WHERE id = $1", id)
		}},
		{"in one workspace", persona.ScopeAgent, func(*rig, string) {}},
		{"held", persona.ScopeTask, func(r *rig, id string) {
			r.Exec("INSERT INTO holds (id, org_id, scope, object_id, held_by, reason) VALUES ('hold_1', $1, 'agent', $2, 'boss', 'a test')", tasktest.Org, id)
		}},
		{"held by their trigger", persona.ScopeTask, func(r *rig, id string) {
			r.Exec("UPDATE tasks SET trigger_id = 'cron' WHERE agent_id = $1", id)
			r.Exec("INSERT INTO holds (id, org_id, scope, object_id, held_by, reason) VALUES ('hold_1', $1, 'trigger', 'cron', 'boss', 'a test')", tasktest.Org)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *admission.Config) { c.MaxPerUser = 1000 })
			still := r.Agent("still", c.scope)
			for range many {
				r.Submit(still, "ann", priority(10))
			}
			c.block(r, still)
			first, last := r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "bob", priority(1))
			woken := r.admit()
			require.Contains(t, woken, first.ID)
			require.Contains(t, woken, last.ID)
			require.LessOrEqual(t, len(woken), 3)
		})
	}
}

// All tasks of an agent that is paused say so, however many there are, and
// none does when it was resumed.
func TestAllTasksOfAPausedAgentSayWhyTheyWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive = 2 })
	for range 250 {
		r.Submit(r.agent, "ann", nil)
	}
	saying := func(reason string) (n int) {
		require.NoError(t, r.SQL.QueryRow(t.Context(), "SELECT count(*) FROM tasks WHERE reason LIKE $1", reason+"%").Scan(&n))
		return n
	}
	require.Len(t, r.admit(), 2)
	require.NoError(t, r.Agents.Pause(t.Context(), tasktest.Org, r.agent, "", tasktest.By("boss")))
	require.Equal(t, 250, saying("agent walker is paused by boss"))
	require.Empty(t, r.admit())
	require.Equal(t, 250, saying("agent walker is paused by boss"))
	require.NoError(t, r.Agents.Resume(t.Context(), tasktest.Org, r.agent, tasktest.By("boss")))
	require.Zero(t, saying("agent walker is paused"))
	require.Len(t, r.admit(), 2)
}

// More may start at once than are considered at a time.
func TestALongQueueStartsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive, c.MaxPerUser = 1000, 1000 })
	for range 450 {
		r.Submit(r.agent, "ann", nil)
	}
	require.Len(t, r.admit(), 450)
}

// An agent's tasks share its workspace: one at a time.
func TestOneTaskInAWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	shared := r.Agent("sharer", persona.ScopeAgent)
	first, second := r.Submit(shared, "ann", nil), r.Submit(shared, "bob", nil)
	require.Equal(t, sorted(first), r.admit())
	require.Equal(t, fmt.Sprintf("task %s is using the agent's workspace; waits for it to end", first.ID), r.Task(second.ID).Reason)
	r.Move(first.ID, task.Cancelled)
	r.Exec("UPDATE nodes SET name = 'other', id = 'node_one' WHERE id = 'node_one'")
	require.Equal(t, sorted(second), r.admit())
}

// What is admitted has left the queue: no more of it than workers can take soon.
func TestAdmissionKeepsTheQueueForWhatHasNoSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Exec("UPDATE workers SET slots = 2")
	var tasks []db.Task
	for range 6 {
		tasks = append(tasks, r.Submit(r.agent, "ann", nil))
	}
	require.Len(t, r.admit(), 4, "two slots and two ahead")
	require.Equal(t, "all 2 slots of the workers of pool default are taken; waits for one", r.Task(tasks[5].ID).Reason)
	r.Run(r.worker, tasks[0].ID)
	require.Empty(t, r.admit(), "a claim changes nothing")
	r.Move(tasks[0].ID, task.Succeeded)
	urgent := r.Submit(r.agent, "ann", priority(10))
	require.Equal(t, sorted(urgent), r.admit())
}

// A wake-up that was lost with the bus is sent again.
func TestUnclaimedWakeUpsAreSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one, two := r.Submit(r.agent, "ann", nil), r.Submit(r.agent, "ann", nil)
	require.Len(t, r.admit(), 2)
	require.NoError(t, r.admission.Republish(t.Context()))
	require.Empty(t, r.woken, "not yet")
	r.Exec("UPDATE tasks SET admitted_at = admitted_at - interval '2 minutes'")
	r.Run(r.worker, one.ID)
	require.NoError(t, r.admission.Republish(t.Context()))
	require.Equal(t, []string{two.ID}, r.woken, "the claimed one is left alone")
}

// Two hubs at once admit no more than one would.
func TestCapsAreNotRaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *admission.Config) { c.MaxActive = 3 })
	for range 10 {
		r.Submit(r.agent, "ann", nil)
	}
	var hubs sync.WaitGroup
	for range 4 {
		hubs.Go(func() { require.NoError(t, r.admission.Admit(t.Context(), tasktest.Org)) })
	}
	hubs.Wait()
	require.Len(t, r.woken, 3)
}
