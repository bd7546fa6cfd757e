package admission

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// round is what one admission of an organisation knows.
type round struct {
	*Admission

	orgID  string
	active []db.ActiveTasksRow
	slots  int              // that the organisation has left
	users  map[string]int   // tasks in progress, by user
	busy   map[string]user  // who keeps a jail
	pools  map[string]*pool // that have workers, by name
	nodes  []db.AllNodesRow // by name
	locks  map[string]*db.NodeLock
	holds  hold.Set
	// restored has the tasks that wait after a restore from a backup, and why.
	restored map[string]string
	plan     *quota.Usage

	served   map[string]time.Time // when a share had its turn, for those that had one
	taken    []string             // tasks that start
	wakes    []wake
	homeless map[string]bool // agents for which there is no node, or no model
	// unusable maps each model that was checked to why it cannot be called.
	unusable map[string]string
}

// pool describes the workers of a pool.
type pool struct {
	workers, able int
	slots         int
	// room is how many more tasks may go ahead.
	room int
	// trouble is why one worker takes no tasks.
	trouble string
}

// ahead returns how many tasks may be admitted beyond the free slots of a pool, so that a
// worker with a free slot finds the next task at once.
func ahead(slots int) int { return max(2, slots/4) }

// unheard is how many tasks may be admitted to a pool whose workers did not call
// recently.
const unheard = 16

// look reads what is in progress.
func (a *Admission) look(ctx context.Context, tx *event.Tx, orgID string) (*round, error) {
	r := &round{
		Admission: a, orgID: orgID, users: map[string]int{}, pools: map[string]*pool{},
		served: map[string]time.Time{}, homeless: map[string]bool{}, unusable: map[string]string{},
	}
	active, err := tx.ActiveTasks(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read running tasks: %w", err)
	}
	workers, err := tx.PoolWorkers(ctx, db.PoolWorkersParams{OrgID: orgID, StaleAfter: a.cfg.WorkerStale})
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	r.active = active
	r.slots = a.cfg.MaxActive - len(active)
	held, unclaimed := map[string]int{}, map[string]int{}
	for _, t := range active {
		r.users[t.CreatedBy]++
		if t.Unclaimed {
			unclaimed[t.Pool]++
		} else {
			held[t.WorkerID]++
		}
	}
	for _, w := range workers {
		p := r.pools[w.Pool]
		if p == nil {
			p = &pool{}
			r.pools[w.Pool] = p
		}
		p.workers++
		switch {
		case w.Drained:
			p.trouble = fmt.Sprintf("worker %s is drained", w.ID)
		case w.Pressure != "":
			p.trouble = fmt.Sprintf("worker %s takes nothing new: %s", w.ID, w.Pressure)
		default:
			p.able++
			p.slots += int(w.Slots)
			p.room += max(0, int(w.Slots)-held[w.ID])
		}
	}
	for name, p := range r.pools {
		if p.able > 0 {
			p.room += ahead(p.slots) - unclaimed[name]
		}
	}
	for name, n := range unclaimed {
		if r.pools[name] == nil {
			r.pools[name] = &pool{room: unheard - n}
		}
	}
	return r, nil
}

// lookAround reads what a task may have to wait for.
func (r *round) lookAround(ctx context.Context, tx *event.Tx) (err error) {
	if r.busy, err = busyJails(ctx, tx.Queries, r.orgID, r.active); err != nil {
		return err
	}
	if r.holds, err = hold.Of(ctx, tx.Queries, r.orgID); err != nil {
		return err
	}
	if r.restored, err = restoredTasks(ctx, tx.Queries, r.orgID); err != nil {
		return err
	}
	if r.nodes, err = tx.AllNodes(ctx, db.AllNodesParams{OrgID: r.orgID, StaleAfter: r.cfg.StaleAfter}); err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	if r.plan, err = r.cfg.Plans.Usage(ctx, tx.Queries, r.orgID, false); err != nil {
		return err
	}
	r.locks, err = node.HeldLocks(ctx, tx.Queries, r.orgID)
	return err
}

// full reports whether nothing can start, whatever it is.
func (r *round) full() bool {
	if r.slots <= 0 || r.holds.Task(hold.Task{}) != nil {
		return true
	}
	for _, p := range r.pools {
		if p.room > 0 {
			return false
		}
	}
	return len(r.pools) > 0
}

// take counts a task that starts.
func (r *round) take(t db.QueuedTasksRow) {
	r.slots--
	r.served[t.Share] = time.Now()
	r.taken = append(r.taken, t.ID)
	r.users[t.CreatedBy]++
	r.busy[t.JailID] = user{task: t.ID, how: usesWorkspace}
	r.pool(t.Pool).room--
}

// pool returns what is known of a pool.
func (r *round) pool(name string) *pool {
	if r.pools[name] == nil {
		r.pools[name] = &pool{room: unheard}
	}
	return r.pools[name]
}

// decide returns the node for a task, or why it must wait.
func (r *round) decide(ctx context.Context, tx *event.Tx, q db.QueuedTasksRow) (chosen, wait string, err error) {
	if h := r.holds.Task(hold.Task{AgentID: q.AgentID, TriggerID: q.TriggerID, LineageID: q.LineageID}); h != nil {
		return "", hold.Describe(h), nil
	}
	if wait = r.restored[q.ID]; wait != "" {
		return "", wait, nil
	}
	// A task that has started goes on to its end though its agent takes no more.
	goesOn := q.Started && q.AgentStatus == agent.Disabled
	if wait = agent.WaitReason(q.AgentName, q.AgentStatus, q.AgentStatusReason); wait != "" && !goesOn {
		return "", wait, nil
	}
	if wait = r.plan.WaitReason(); wait != "" && q.CountedIn == "" {
		return "", wait, nil
	}
	if r.plan.Limited() {
		run, err := r.run(ctx, tx, q)
		if err != nil {
			return "", "", err
		}
		if _, wait = r.plan.Grant(run); wait != "" {
			return "", wait, nil
		}
	}
	if wait, err = r.model(ctx, tx, q); wait != "" || err != nil {
		return "", wait, err
	}
	if n := r.users[q.CreatedBy]; n >= r.cfg.MaxPerUser {
		return "", fmt.Sprintf("%s has %d running tasks, as many as one user may have; waits for one to end", q.CreatedBy, r.cfg.MaxPerUser), nil
	}
	if r.slots <= 0 {
		return "", fmt.Sprintf("all %d task slots of the organisation are taken; waits for one to end", r.cfg.MaxActive), nil
	}
	if holder := r.busy[q.JailID]; holder.task != "" && holder.task != q.ID && (!holder.waits || q.ParentID == nil || holder.task != *q.ParentID) {
		return "", fmt.Sprintf(holder.how, holder.task), nil
	}
	if chosen, wait, err = r.node(ctx, tx, q); err != nil {
		return "", "", err
	}
	if wait != "" {
		if bound := q.NodeID != nil && q.WorkspaceScope != string(persona.ScopeAgent); !bound {
			r.homeless[q.AgentID] = true
		}
		return "", wait, nil
	}
	if wait = r.pool(q.Pool).wait(q.Pool); wait != "" {
		return "", wait, nil
	}
	return chosen, "", nil
}

// run returns what a quota is checked with. Without quotas, only the user is filled in.
func (r *round) run(ctx context.Context, tx *event.Tx, q db.QueuedTasksRow) (quota.Run, error) {
	out := quota.Run{User: q.CreatedBy, Counted: q.CountedIn != ""}
	if !r.plan.Limited() {
		return out, nil
	}
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, r.orgID, q.AgentID, q.AgentVersion)
	if err != nil {
		return out, fmt.Errorf("task %s: %w", q.ID, err)
	}
	override, err := task.ParseOverride(q.Override)
	if err != nil {
		return out, fmt.Errorf("task %s: %w", q.ID, err)
	}
	iterations := int64(cmp.Or(int(override.Limits.Iterations), p.Limits.Iterations))
	out.Granted = quota.Grant{Iterations: q.GrantedIterations, Tokens: q.GrantedTokens, ToolCalls: q.GrantedToolCalls}
	out.Used = quota.Amounts{Iterations: int64(max(0, q.Iteration-q.ResumedAt)), Tokens: q.LimitTokens}
	out.Wants = quota.Amounts{
		Iterations: max(1, iterations-int64(q.ResumedAt)), Tokens: cmp.Or(override.Limits.Tokens, p.Limits.Tokens),
		ToolCalls: quota.CallsPerIteration * iterations,
	}
	return out, nil
}

// model returns why a task's model cannot be called; empty if it can.
func (r *round) model(ctx context.Context, tx *event.Tx, q db.QueuedTasksRow) (string, error) {
	if r.cfg.Usable == nil {
		return "", nil
	}
	v, err := r.cfg.Agents.VersionIn(ctx, tx.Queries, r.orgID, q.AgentID, q.AgentVersion)
	if err != nil {
		return "", fmt.Errorf("task %s: %w", q.ID, err)
	}
	override, err := task.ParseOverride(q.Override)
	if err != nil {
		return "", fmt.Errorf("task %s: %w", q.ID, err)
	}
	name, model := override.Runs(v.Provider, v.Model)
	key := name + "/" + model
	why, known := r.unusable[key]
	if !known {
		err := r.cfg.Usable(ctx, tx.Queries, r.orgID, name, model)
		switch e := fault.As(err); {
		case err == nil:
		case e != nil && e.Kind == fault.Precondition:
			why = fmt.Sprintf("%s: %s", e.Message, e.Fix)
		default:
			return "", err
		}
		r.unusable[key] = why
	}
	if why != "" && override.Provider == "" && q.NodeID == nil {
		r.homeless[q.AgentID] = true // its other tasks wait as well
	}
	return why, nil
}

// wait returns why a pool takes no tasks; empty if it does.
func (p *pool) wait(name string) string {
	switch {
	case p.room > 0:
		return ""
	case p.workers == 0:
		return fmt.Sprintf("no worker of pool %s is connected; start deckhand worker", name)
	case p.able == 0 && p.workers == 1:
		return p.trouble
	case p.able == 0:
		return fmt.Sprintf("none of the %d workers of pool %s takes new tasks; %s", p.workers, name, p.trouble)
	}
	return fmt.Sprintf("all %d slots of the workers of pool %s are taken; waits for one", p.slots, name)
}

// node returns the node for a task, or why there is none.
func (r *round) node(ctx context.Context, tx *event.Tx, q db.QueuedTasksRow) (chosen, wait string, err error) {
	// The workspace is on one node: a task goes to the node of its agent's or its own
	// earlier attempts.
	home := q.NodeID
	if q.WorkspaceScope == string(persona.ScopeAgent) {
		home = q.HomeNodeID
	}
	override, err := task.ParseOverride(q.Override)
	if err != nil {
		return "", "", fmt.Errorf("task %s: %w", q.ID, err)
	}
	if override.NodeID != "" {
		// A person wants it there, without the files it has elsewhere.
		home = &override.NodeID
	}
	if home != nil {
		for _, n := range r.nodes {
			if n.Node.ID == *home && n.Node.RevokedAt == nil {
				if n.Connected {
					return n.Node.ID, r.closed(n.Node, q.ID), nil
				}
				return "", fmt.Sprintf("node %s, which holds the workspace, is not connected; start deckhand-node there", n.Node.Name), nil
			}
		}
		return "", fmt.Sprintf("node %s, which holds the workspace, was revoked", *home), nil
	}
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, r.orgID, q.AgentID, q.AgentVersion)
	if err != nil {
		return "", "", fmt.Errorf("task %s: %w", q.ID, err)
	}
	match, blocked := false, ""
	for _, n := range r.nodes {
		if n.Node.RevokedAt != nil || !node.Fits(p.Nodes, n.Node) {
			continue
		}
		match = true
		if !n.Connected {
			continue
		}
		if blocked = r.closed(n.Node, q.ID); blocked == "" {
			return n.Node.ID, "", nil
		}
	}
	if blocked != "" {
		return "", blocked, nil
	}
	if match {
		return "", "no node that the persona may use is connected; start deckhand-node on one", nil
	}
	return "", "no node matches the persona's nodes; enrol one (deckhand node token) or change the persona", nil
}

// holder returns the task that holds the lock of a node; empty for none.
func (r *round) holder(nodeID string) string {
	if held := r.locks[nodeID]; held != nil {
		return store.Text(held.TaskID)
	}
	return ""
}

// closed returns why a task may not start on a node; empty if it may. The holder of the node's
// lock may.
func (r *round) closed(n db.Node, taskID string) string {
	if h := r.holds.Node(n.ID); h != nil {
		return hold.Describe(h)
	}
	held := r.locks[n.ID]
	if held != nil && held.TaskID != nil && *held.TaskID == taskID {
		held = nil
	}
	return node.Blocked(n, held)
}
