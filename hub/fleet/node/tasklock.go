package node

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// An agent's task holds a lock for a limited time. It is released at the end of the task, by a
// trigger of the database, so that no way in which a task ends can leave it; when its time is
// over, by ReleaseOver; and by node_unlock, or a person's force. While it is held, commands of
// other tasks do not start on the node: the statements that start a step test it.
//
// Locks are taken in the order of admission: its lock first, then tasks, then node locks.

// TaskLock is a lock that a task holds, with the name of its node.
type TaskLock struct {
	db.NodeLock

	NodeName string
}

// LockForTask locks a node for a started step of an agent's task, or returns the lock that the
// step took before; tasks that were admitted to the node and have not begun go back to the
// queue.
func (n *Nodes) LockForTask(ctx context.Context, node db.Node, by User, stepID, reason string, lasts time.Duration) (out TaskLock, err error) {
	err = n.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, node.OrgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		taken, err := tx.LockOfStep(ctx, db.LockOfStepParams{OrgID: node.OrgID, StepID: stepID})
		if err == nil {
			out = TaskLock{taken.NodeLock, taken.NodeName}
			if out.ReleasedAt != nil {
				return fault.New(fault.Precondition, "the lock of node %s has ended", out.NodeName).WithCode(fault.NodeLocked).WithFix("lock it again")
			}
			return nil
		}
		if !store.IsNotFound(err) {
			return fmt.Errorf("find the lock of step %s: %w", stepID, err)
		}
		if node.RevokedAt != nil {
			return fault.New(fault.Precondition, "node %s was revoked", node.Name).WithObject(node.ID)
		}
		if _, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: node.OrgID, ID: by.TaskID}); err != nil {
			return fmt.Errorf("lock task %s: %w", by.TaskID, err)
		}
		reason = tx.Redact(node.OrgID).String(reason)
		lock, err := tx.TakeTaskLock(ctx, db.TakeTaskLockParams{
			ID: ident.New("lock"), OrgID: node.OrgID, NodeID: node.ID, TaskID: by.TaskID, StepID: stepID, UserName: by.Name, Reason: reason, Lasts: lasts,
		})
		if store.IsNotFound(err) {
			return n.whyNotTaken(ctx, tx.Queries, node, by)
		}
		if err != nil {
			return fmt.Errorf("take the lock of node %s: %w", node.ID, err)
		}
		out = TaskLock{lock, node.Name}
		tx.Publish(change.QueueChanged{OrgID: node.OrgID})
		if err := takeBack(ctx, tx.Queries, node, LockedBy(node.Name, &lock)); err != nil {
			return err
		}
		return record(tx, node, by, "node.locked", reason, map[string]any{"lock_id": lock.ID, "task_id": by.TaskID, "step_id": stepID, "until": lock.ExpiresAt})
	})
	return out, err
}

// whyNotTaken returns why a task got no lock.
func (n *Nodes) whyNotTaken(ctx context.Context, q *db.Queries, node db.Node, by User) error {
	own, err := q.LockOfTask(ctx, db.LockOfTaskParams{OrgID: node.OrgID, TaskID: by.TaskID})
	if err == nil {
		return fault.New(fault.Precondition, "the task holds the lock of node %s, and a task holds one at a time", own.NodeName).
			WithCode(fault.NodeLocked).WithObject(own.NodeLock.NodeID).WithFix("release it first with node_unlock")
	}
	if !store.IsNotFound(err) {
		return fmt.Errorf("find the lock of task %s: %w", by.TaskID, err)
	}
	held, err := heldLock(ctx, q, node.OrgID, node.ID)
	switch {
	case err != nil:
		return err
	case held != nil:
		return locked(node, held).WithFix("wait for them, and try again")
	}
	return fault.New(fault.Aborted, "the task does not run any more, or the lock of node %s has just been released", node.Name).WithFix("try again")
}

// UnlockForTask releases the lock that a task holds; false if it holds none.
func (n *Nodes) UnlockForTask(ctx context.Context, orgID string, by User) (out TaskLock, held bool, err error) {
	err = n.recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.ReleaseTaskLock(ctx, db.ReleaseTaskLockParams{OrgID: orgID, TaskID: by.TaskID, ReleasedBy: by.Name})
		if store.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("release the lock of task %s: %w", by.TaskID, err)
		}
		out, held = TaskLock{row.NodeLock, row.NodeName}, true
		tx.Publish(change.QueueChanged{OrgID: orgID})
		return record(tx, db.Node{ID: row.NodeLock.NodeID, OrgID: orgID}, by, "node.unlocked", "", map[string]any{"lock_id": row.NodeLock.ID, "task_id": by.TaskID})
	})
	return out, held, err
}

// ReleaseOver releases the locks of tasks whose time is over. A command that runs under one has
// ended by then: its time-out is no later.
func (n *Nodes) ReleaseOver(ctx context.Context) error {
	rows, err := n.store.ReleaseOverLocks(ctx)
	if err != nil {
		return fmt.Errorf("release node locks whose time is over: %w", err)
	}
	told := map[string]bool{}
	for _, row := range rows {
		if !told[row.OrgID] {
			told[row.OrgID] = true
			n.recorder.Publish(change.QueueChanged{OrgID: row.OrgID})
		}
	}
	return nil
}

// OpenToPeople refuses a person's command in a jail of a node while an agent works on the
// machine itself.
func OpenToPeople(ctx context.Context, q *db.Queries, node db.Node) error {
	held, err := heldLock(ctx, q, node.OrgID, node.ID)
	if err != nil || held == nil || held.TaskID == nil {
		return err
	}
	return locked(node, held)
}

// Machines returns all nodes of an organisation that were not revoked, with their locks.
func (n *Nodes) Machines(ctx context.Context, orgID string) ([]Record, error) {
	rows, err := n.store.AllNodes(ctx, db.AllNodesParams{OrgID: orgID, StaleAfter: n.staleAfter})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	locks, err := HeldLocks(ctx, n.store.Queries, orgID)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, row := range rows {
		if row.Node.RevokedAt == nil {
			out = append(out, Record{Node: row.Node, Connected: row.Connected, Lock: locks[row.Node.ID]})
		}
	}
	return out, nil
}
