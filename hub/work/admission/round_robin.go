package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/queue"
)

// walk decides on tasks in their order: it admits those that may start and
// stores of the others why they wait.
func (r *round) walk(ctx context.Context, tx *event.Tx, tasks []db.QueuedTasksRow) error {
	turns := map[string]queue.Turn{}
	for _, t := range tasks {
		turn := queue.Turn{Active: r.users[t.Share], Served: t.ServedAt}
		if at, ok := r.served[t.Share]; ok {
			turn.Served = at
		}
		turns[t.Share] = turn
	}
	return queue.Walk(tasks, entry, turns, func(t db.QueuedTasksRow) (bool, error) {
		chosen, wait, err := r.decide(ctx, tx, t)
		if err != nil {
			return false, err
		}
		if wait != "" {
			if wait != t.Reason {
				tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
					return q.SetTaskReason(ctx, db.SetTaskReasonParams{OrgID: r.orgID, ID: t.ID, Reason: wait})
				})
			}
			return false, nil
		}
		run, err := r.run(ctx, tx, t)
		if err != nil {
			return false, err
		}
		granted, _ := r.plan.Grant(run)
		r.plan.Reserve(run, granted)
		r.take(t)
		if t.CountedIn == "" {
			if told := r.plan.Consume(t.CreatedBy); len(told) > 0 {
				if err := tx.Append(r.orgID, t.ID, event.Hub, told...); err != nil {
					return false, err
				}
			}
		}
		r.wakes = append(r.wakes, wake{WakePool(r.orgID, t.Pool), bus.Wakeup{TaskID: t.ID, Attempt: t.Attempt + 1}})
		tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
			return q.AdmitTask(ctx, db.AdmitTaskParams{
				OrgID: r.orgID, ID: t.ID, NodeID: &chosen, Period: r.plan.Period, Reason: "admitted; waits for a free worker",
				GrantedIterations: granted.Iterations, GrantedTokens: granted.Tokens, GrantedToolCalls: granted.ToolCalls,
			})
		})
		return true, nil
	})
}

// learnt counts the changes and results of walks so far: with the same count, another
// walk would have the same result.
func (r *round) learnt() int {
	n := len(r.taken) + len(r.homeless)
	if r.plan.Remaining() == 0 {
		n++
	}
	return n
}

// beyond returns the tasks behind those that cannot start, up to reach.
func (r *round) beyond(ctx context.Context, tx *event.Tx, reach int32) ([]db.QueuedTasksRow, error) {
	p := db.QueuedTasksBeyondParams{
		OrgID: r.orgID, PerShare: perShare, Look: reach, AgentStatuses: agent.Still, Taken: append([]string{}, r.taken...),
		Agents: []string{}, Triggers: []string{}, Lineages: []string{}, Pools: []string{}, Jails: []string{}, Holders: []string{},
		Nodes: []string{}, Homeless: append([]string{}, slices.Collect(maps.Keys(r.homeless))...), Shares: []string{},
		MoreRuns: r.plan.Remaining() != 0,
	}
	for _, h := range r.holds {
		switch hold.Scope(h.Scope) {
		case hold.Agent:
			p.Agents = append(p.Agents, h.ObjectID)
		case hold.Trigger:
			p.Triggers = append(p.Triggers, h.ObjectID)
		case hold.Lineage:
			p.Lineages = append(p.Lineages, h.ObjectID)
		case hold.Organisation, hold.Node:
		}
	}
	for name, pool := range r.pools {
		if pool.room <= 0 {
			p.Pools = append(p.Pools, name)
		}
	}
	for jail, holder := range r.busy {
		if !holder.waits {
			p.Jails, p.Holders = append(p.Jails, jail), append(p.Holders, holder.task)
		}
	}
	for _, n := range r.nodes {
		if n.Node.RevokedAt != nil || !n.Connected || r.closed(n.Node, r.holder(n.Node.ID)) != "" {
			p.Nodes = append(p.Nodes, n.Node.ID)
		}
	}
	for user, n := range r.users {
		if n >= r.cfg.MaxPerUser && user != queue.Front {
			p.Shares = append(p.Shares, user)
		}
	}
	rows, err := tx.QueuedTasksBeyond(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the queue further on: %w", err)
	}
	tasks := make([]db.QueuedTasksRow, len(rows))
	for i, row := range rows {
		tasks[i] = db.QueuedTasksRow(row)
	}
	return tasks, nil
}
