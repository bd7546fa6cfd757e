package node

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// User is who holds a lock, drains a node or runs a command.
type User struct {
	ID, Name string
	// Address and UserAgent are those of the call, for the audit.
	Address, UserAgent string
	// TaskID is the task on whose behalf an agent acts, with the agent's id in ID; empty for
	// a person.
	TaskID string
}

// Actor returns the user as the audit names them. One without an id is the hub
// itself, for the machine that it runs on.
func (u User) Actor() event.Actor {
	switch {
	case u.ID == "":
		return event.Hub
	case u.TaskID != "":
		return event.Actor{Kind: "agent", ID: u.ID}
	}
	return event.Actor{Kind: event.User, ID: u.Name, Address: u.Address, UserAgent: u.UserAgent}
}

// record leaves an audit entry of what was done to a node.
func record(tx *event.Tx, node db.Node, by User, action, reason string, after map[string]any) error {
	return audit.Append(tx, audit.Entry{
		OrgID: node.OrgID, By: by.Actor(), Action: action, ObjectKind: "node", ObjectID: node.ID, Reason: reason, After: after,
	})
}

// HeldLocks returns an organisation's held locks by node. Admission reads them under its
// own lock, which taking one locks too: no task starts on a node after it was locked.
func HeldLocks(ctx context.Context, q *db.Queries, orgID string) (map[string]*db.NodeLock, error) {
	rows, err := q.HeldNodeLocks(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read node locks: %w", err)
	}
	out := make(map[string]*db.NodeLock, len(rows))
	for i := range rows {
		out[rows[i].NodeID] = &rows[i]
	}
	return out, nil
}

func heldLock(ctx context.Context, q *db.Queries, orgID, nodeID string) (*db.NodeLock, error) {
	row, err := q.HeldNodeLock(ctx, db.HeldNodeLockParams{OrgID: orgID, NodeID: nodeID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock of node %s: %w", nodeID, err)
	}
	return &row, nil
}

// LockedBy returns a text about the holder of a lock, for everybody in the organisation: an
// agent that not all of them see is not named.
func LockedBy(nodeName string, l *db.NodeLock) string {
	until := ""
	if l.ExpiresAt != nil {
		until = " until " + l.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if l.AgentHidden {
		return fmt.Sprintf("node %s is locked by an agent's task%s", nodeName, until)
	}
	return fmt.Sprintf("node %s is locked by %s%s: %s", nodeName, l.UserName, until, l.Reason)
}

// locked is the error of a task that must wait for a lock.
func locked(n db.Node, l *db.NodeLock) *fault.Error {
	return fault.New(fault.Precondition, "%s", LockedBy(n.Name, l)).WithCode(fault.NodeLocked).WithObject(n.ID).
		WithFix("wait for them, or see who holds what: deckhand node locks")
}

// Lock locks a node for a person until they release it, and returns how many tasks are in
// progress there; tasks that were admitted to it and have not begun go back to the queue.
// If the caller holds the lock already, it is returned unchanged.
func (n *Nodes) Lock(ctx context.Context, node db.Node, by User, reason string) (lock db.NodeLock, active int64, err error) {
	err = n.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, node.OrgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		tx.Publish(change.QueueChanged{OrgID: node.OrgID}) // those that wait are given the new reason
		taken := false
		if lock, taken, err = takeLock(ctx, tx.Queries, node, by, reason, nil); err != nil {
			return err
		}
		if err := takeBack(ctx, tx.Queries, node, LockedBy(node.Name, &lock)); err != nil {
			return err
		}
		if active, err = activeOn(ctx, tx.Queries, node); err != nil || !taken {
			return err
		}
		return record(tx, node, by, "node.locked", reason, map[string]any{"lock_id": lock.ID})
	})
	return lock, active, err
}

// takeLock takes a free lock, or returns the caller's own, and reports which of the two.
// A lock that a command took cannot be shared.
func takeLock(ctx context.Context, q *db.Queries, node db.Node, by User, reason string, execID *string) (lock db.NodeLock, taken bool, err error) {
	if node.RevokedAt != nil {
		return db.NodeLock{}, false, fault.New(fault.Precondition, "node %s was revoked", node.Name).WithObject(node.ID)
	}
	lock, err = q.TakeNodeLock(ctx, db.TakeNodeLockParams{
		ID: ident.New("lock"), OrgID: node.OrgID, NodeID: node.ID, UserID: by.ID, UserName: by.Name, Reason: reason, ExecID: execID,
	})
	if err == nil {
		return lock, true, nil
	}
	if !store.IsNotFound(err) {
		return lock, false, fmt.Errorf("take the lock of node %s: %w", node.ID, err)
	}
	held, err := heldLock(ctx, q, node.OrgID, node.ID)
	switch {
	case err != nil:
		return lock, false, err
	case held == nil:
		return lock, false, fault.New(fault.Aborted, "the lock of node %s has just been released", node.Name).WithFix("try again")
	case held.UserID != by.ID || held.ExecID != nil || store.Text(held.TaskID) != by.TaskID:
		return *held, false, locked(node, held)
	}
	return *held, false, nil
}

// LockForExec makes sure that a command on the machine runs under the lock:
// the person's own, or one of its own, which ends with ReleaseExecLock. It
// belongs into the transaction that stores the command.
func LockForExec(ctx context.Context, q *db.Queries, node db.Node, by User, reason, execID string) (db.NodeLock, error) {
	if err := q.LockAdmission(ctx, node.OrgID); err != nil {
		return db.NodeLock{}, fmt.Errorf("lock admission: %w", err)
	}
	lock, _, err := takeLock(ctx, q, node, by, reason, &execID)
	if err != nil {
		return lock, err
	}
	return lock, takeBack(ctx, q, node, LockedBy(node.Name, &lock))
}

// Unlock releases a node's lock, if there is one. Another user's lock, or one under
// which a command runs, is released by force only; who did it is recorded.
func (n *Nodes) Unlock(ctx context.Context, node db.Node, by User, force bool) error {
	return n.recorder.Tx(ctx, func(tx *event.Tx) error {
		held, err := heldLock(ctx, tx.Queries, node.OrgID, node.ID)
		if err != nil || held == nil {
			return err
		}
		if !force && held.TaskID != nil {
			return locked(node, held).WithFix("wait, kill the task with: deckhand kill task %s, or take the lock from it: deckhand node unlock %s --force", *held.TaskID, node.Name)
		}
		if !force && held.UserID != by.ID {
			return locked(node, held).WithFix("ask %s, or release it all the same: deckhand node unlock %s --force", held.UserName, node.Name)
		}
		if !force && held.ExecID != nil {
			return locked(node, held).WithFix("it is given back when %s ends; end it with: deckhand node kill %s", *held.ExecID, *held.ExecID)
		}
		rows, err := tx.ReleaseNodeLock(ctx, db.ReleaseNodeLockParams{OrgID: node.OrgID, ID: held.ID, ReleasedBy: by.Name})
		if err != nil || rows == 0 {
			return err
		}
		tx.Publish(change.QueueChanged{OrgID: node.OrgID})
		return record(tx, node, by, "node.unlocked", "", map[string]any{"lock_id": held.ID, "was_held_by": held.UserName, "by_force": force})
	})
}

// SeenTasks returns which of the tasks that took some locks somebody sees.
func (n *Nodes) SeenTasks(ctx context.Context, orgID, viewer string, seesAll bool, locks []*db.NodeLock) (map[string]bool, error) {
	var ids []string
	for _, l := range locks {
		if l != nil && l.TaskID != nil {
			ids = append(ids, *l.TaskID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	seen, err := n.store.SeenLockTasks(ctx, db.SeenLockTasksParams{OrgID: orgID, Ids: ids, Viewer: viewer, SeesAll: seesAll})
	if err != nil {
		return nil, fmt.Errorf("find which tasks with locks %s sees: %w", viewer, err)
	}
	out := make(map[string]bool, len(seen))
	for _, id := range seen {
		out[id] = true
	}
	return out, nil
}

// Locks returns a page of the locks, those that are held first, and the next page's
// token; with released those of the past too. nodeID "" means of every node.
func (n *Nodes) Locks(ctx context.Context, orgID, nodeID string, released bool, page string, size int32) ([]db.ListNodeLocksRow, string, error) {
	p := db.ListNodeLocksParams{OrgID: orgID, NodeID: nodeID, Released: released, MaxRows: size + 1}
	if page != "" {
		held, at, id, err := store.ParseStandingToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeStanding, p.BeforeTime, p.BeforeID = held, &at, id
	}
	rows, err := n.store.ListNodeLocks(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list node locks: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListNodeLocksRow) string {
		return store.StandingToken(last.NodeLock.ReleasedAt == nil, last.NodeLock.TakenAt, last.NodeLock.ID)
	})
	return rows, next, nil
}

// Drain stops new tasks from starting on a node and returns how many are in progress
// there; tasks that were admitted to it and have not begun go back to the queue.
func (n *Nodes) Drain(ctx context.Context, node db.Node, by User, reason string) (active int64, err error) {
	err = n.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, node.OrgID); err != nil {
			return fmt.Errorf("lock admission: %w", err)
		}
		if _, err := tx.DrainNode(ctx, db.DrainNodeParams{OrgID: node.OrgID, ID: node.ID, DrainedBy: by.Name, DrainReason: reason}); err != nil {
			return fmt.Errorf("drain node %s: %w", node.ID, err)
		}
		if err := takeBack(ctx, tx.Queries, node, drained(node.Name, by.Name, reason)); err != nil {
			return err
		}
		if active, err = activeOn(ctx, tx.Queries, node); err != nil {
			return err
		}
		tx.Publish(change.NodeDrainChanged{NodeID: node.ID})
		tx.Publish(change.QueueChanged{OrgID: node.OrgID}) // those that wait are given the new reason
		return record(tx, node, by, "node.drained", reason, nil)
	})
	return active, err
}

// Undrain lets tasks start on a node again.
func (n *Nodes) Undrain(ctx context.Context, node db.Node, by User) error {
	return n.recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := tx.UndrainNode(ctx, db.UndrainNodeParams{OrgID: node.OrgID, ID: node.ID})
		if err != nil {
			return fmt.Errorf("undrain node %s: %w", node.ID, err)
		}
		if rows == 0 {
			return nil
		}
		tx.Publish(change.NodeDrainChanged{NodeID: node.ID})
		tx.Publish(change.QueueChanged{OrgID: node.OrgID})
		return record(tx, node, by, "node.undrained", "", nil)
	})
}

// Active returns how many tasks hold or are about to hold a slot on a node.
func (n *Nodes) Active(ctx context.Context, node db.Node) (int64, error) {
	return activeOn(ctx, n.store.Queries, node)
}

func activeOn(ctx context.Context, q *db.Queries, node db.Node) (int64, error) {
	active, err := q.CountActiveOnNode(ctx, db.CountActiveOnNodeParams{OrgID: node.OrgID, NodeID: node.ID})
	if err != nil {
		return 0, fmt.Errorf("count tasks on node %s: %w", node.ID, err)
	}
	return active, nil
}

// Blocked returns why no task may start on a connected node; "" if one may.
func Blocked(n db.Node, held *db.NodeLock) string {
	switch {
	case held != nil:
		return LockedBy(n.Name, held)
	case n.DrainedAt != nil:
		return drained(n.Name, n.DrainedBy, n.DrainReason)
	case n.Pressure != "":
		return underPressure(n)
	}
	return ""
}

// takeBack has what was admitted to a node, and not claimed yet, wait in the
// queue again. The caller holds the admission's lock.
func takeBack(ctx context.Context, q *db.Queries, node db.Node, reason string) error {
	if err := q.TakeBackFromNode(ctx, db.TakeBackFromNodeParams{OrgID: node.OrgID, NodeID: node.ID, Reason: reason}); err != nil {
		return fmt.Errorf("requeue the tasks that wait for node %s: %w", node.ID, err)
	}
	return nil
}

func drained(name, by, reason string) string {
	text := fmt.Sprintf("node %s is drained by %s", name, by)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

func underPressure(n db.Node) string {
	return fmt.Sprintf("node %s is under pressure: %s", n.Name, n.Pressure)
}
