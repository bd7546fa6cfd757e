// Package kill is the kill switch. Switch kills tasks and makes holds. One transaction
// makes the hold, cancels every task in the scope with its steps, and stores what the
// nodes are to kill. Then the orders are sent to all nodes concerned at once; each
// responds when it has verified that no process is left.
//
// No step slips through: a step is started under its task's lease, in a transaction that
// locks the task's row, and a cancelled task has no lease. A step that was started at the
// same instant, in any hub, was started before and is among those to kill; its node never
// starts an exec id that it was ordered to kill before. Admission reads holds under the
// organisation's lock, which making a hold takes too. Hubs therefore need not know of
// each other.
//
// An order stays in the database until it is confirmed. It is sent again when its node
// connects and from time to time, by any hub; until then no other task is admitted into
// that jail. A node that is cut off stops its commands after their offline grace.
package kill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Task is the scope of one task. No hold is made on it: the task has ended for good.
const Task hold.Scope = "task"

// Node is the way to a machine.
type Node interface {
	Exec() nodev1.ExecServiceClient
	Jails() nodev1.JailServiceClient
}

// Config holds the dependencies of a Switch.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (Node, error)
	// Timeout bounds how long a node is waited for.
	Timeout time.Duration
	Agents  *agent.Service
	Log     hclog.Logger
}

// Switch is the kill switch.
type Switch struct{ cfg Config }

// New creates a Switch.
func New(cfg Config) *Switch { return &Switch{cfg} }

// Order is a request to kill a scope.
type Order struct {
	OrgID string
	Scope hold.Scope
	// ObjectID identifies the scope's object; the organisation's id for all of it.
	ObjectID string
	Reason   string
	By       event.Actor
}

// Outcome is what is known of a killed task's processes.
type Outcome string

// The outcomes.
const (
	// Confirmed: none is left; the node has looked.
	Confirmed Outcome = "confirmed"
	// StopsBy: the node is cut off, and stops them by a time.
	StopsBy Outcome = "stops_by"
	// Pending: the order was sent to the node, which has not confirmed it yet.
	Pending Outcome = "pending"
)

// Killed is what became of one task.
type Killed struct {
	TaskID, NodeID string
	Outcome        Outcome
	// StopsBy is set for that outcome.
	StopsBy time.Time
	// Detail is what is in the way, or that there was nothing to kill.
	Detail string
}

// Result is what became of a scope.
type Result struct {
	// Hold is unset for one task.
	Hold  *db.Hold
	Tasks []Killed
	// Setups are the setups of images that were ended. Their hubs kill their commands
	// when they see it, within a second.
	Setups []db.ImageSetup
}

// Kill ends everything in a scope and returns the result for each task. Repeated, it
// sends the orders again to the nodes that have not confirmed.
func (s *Switch) Kill(ctx context.Context, o Order) (Result, error) {
	var out Result
	var orders []db.KillOrder
	var ended, idle []db.Task
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, o.OrgID); err != nil {
			return fmt.Errorf("lock admission of %s: %w", o.OrgID, err)
		}
		o.Reason = tx.Redact(o.OrgID).String(o.Reason)
		var err error
		if out.Hold, err = s.hold(ctx, tx, o); err != nil {
			return err
		}
		if out.Setups, err = tx.EndImageSetupsOf(ctx, db.EndImageSetupsOfParams{OrgID: o.OrgID, Scope: string(o.Scope), ObjectID: o.ObjectID, Error: o.why("")}); err != nil {
			return fmt.Errorf("end the setups of images of %s %s: %w", o.Scope, o.ObjectID, err)
		}
		orders, ended, idle, err = s.cancel(ctx, tx, o)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	// The callers' time must not decide what is killed.
	out.Tasks = s.carryOut(context.WithoutCancel(ctx), orders)
	for _, t := range idle {
		out.Tasks = append(out.Tasks, Killed{TaskID: t.ID, Outcome: Confirmed, Detail: "it had not begun"})
	}
	// Their nodes were asked, successfully or not: the jails need not go on.
	for _, t := range ended {
		waited := task.State(t.State).Parked()
		t.State = string(task.Cancelled)
		s.cfg.Recorder.Publish(change.TaskEnded{Task: t})
		if waited {
			s.cfg.Recorder.Publish(change.TaskWaitChanged{Task: t})
		}
	}
	s.cfg.Recorder.Publish(change.QueueChanged{OrgID: o.OrgID})
	return out, nil
}

// why says who ended something, with what, and why.
func (o Order) why(with string) string {
	why := "killed by " + o.By.ID
	if o.Scope != Task {
		why += " with all of " + string(o.Scope) + " " + o.ObjectID
	}
	why += with
	if o.Reason != "" {
		why += ": " + o.Reason
	}
	return why
}

// hold makes the hold, or returns the active one.
func (s *Switch) hold(ctx context.Context, tx *event.Tx, o Order) (*db.Hold, error) {
	if o.Scope == Task {
		return nil, nil
	}
	made, err := tx.CreateHold(ctx, db.CreateHoldParams{
		ID: ident.New("hold"), OrgID: o.OrgID, Scope: string(o.Scope), ObjectID: o.ObjectID, HeldBy: o.By.ID, Reason: o.Reason,
	})
	if store.IsNotFound(err) {
		made, err = tx.StandingHold(ctx, db.StandingHoldParams{OrgID: o.OrgID, Scope: string(o.Scope), ObjectID: o.ObjectID})
		if err != nil {
			return nil, fmt.Errorf("read the hold on %s %s: %w", o.Scope, o.ObjectID, err)
		}
		return &made, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold %s %s: %w", o.Scope, o.ObjectID, err)
	}
	return &made, audit.Append(tx, audit.Entry{
		OrgID: o.OrgID, By: o.By, Action: "hold.made", ObjectKind: "hold", ObjectID: made.ID, Reason: o.Reason,
		After: map[string]any{"scope": made.Scope, "object_id": made.ObjectID},
	})
}

// cancel ends the scope's tasks and stores an order for each that may have left something
// running. It returns the tasks in their state before; idle are those that had not run
// anything.
func (s *Switch) cancel(ctx context.Context, tx *event.Tx, o Order) (orders []db.KillOrder, ended, idle []db.Task, err error) {
	family := []string{o.ObjectID}
	if o.Scope == Task {
		below, err := tx.LiveBelow(ctx, db.LiveBelowParams{OrgID: o.OrgID, ID: o.ObjectID})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("find the tasks below %s: %w", o.ObjectID, err)
		}
		family = append(family, below...)
	}
	live, err := tx.LockLiveTasks(ctx, db.LockLiveTasksParams{OrgID: o.OrgID, Scope: string(o.Scope), ObjectID: o.ObjectID, Ids: family})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find the tasks of %s %s: %w", o.Scope, o.ObjectID, err)
	}
	with := ""
	if len(family) > 1 {
		with = " with all below task " + o.ObjectID
	}
	why := o.why(with)
	steps, err := task.CancelAll(ctx, tx, o.OrgID, live, why, fault.Killed, o.By)
	if err != nil {
		return nil, nil, nil, err
	}
	ended = live
	if len(live) == 0 && o.Scope == Task {
		// It has ended, and may have left something: its workspace is looked
		// into, unless it is another's by now.
		if live, err = s.left(ctx, tx, o); err != nil {
			return nil, nil, nil, err
		}
	}
	// Its jobs may go on although a task has ended.
	kept, err := tx.TasksWithKeptJobs(ctx, db.TasksWithKeptJobsParams{OrgID: o.OrgID, Scope: string(o.Scope), ObjectID: o.ObjectID})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find the tasks whose jobs go on: %w", err)
	}
	for _, t := range kept {
		if !slices.ContainsFunc(live, func(l db.Task) bool { return l.ID == t.ID }) {
			live = append(live, t)
		}
	}
	ids := []string{}
	if o.Scope == Task {
		ids = append(ids, o.ObjectID)
	}
	for _, t := range live {
		ids = append(ids, t.ID)
	}
	// What was ordered before and is not confirmed is ordered again.
	if orders, err = s.open(ctx, tx, o, ids); err != nil {
		return nil, nil, nil, err
	}
	taskIDs := make([]string, len(live))
	for i, t := range live {
		taskIDs[i] = t.ID
	}
	jobs, err := tx.RunningJobsOf(ctx, db.RunningJobsOfParams{OrgID: o.OrgID, TaskIds: taskIDs})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find the jobs of %s %s: %w", o.Scope, o.ObjectID, err)
	}
	execs, err := tx.LiveExecsOfTasks(ctx, db.LiveExecsOfTasksParams{OrgID: o.OrgID, TaskIds: taskIDs})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find the commands on machines of %s %s: %w", o.Scope, o.ObjectID, err)
	}
	for _, t := range live {
		own, others := onMachines(steps, execs, t)
		switch {
		case (t.NodeID == nil || t.Attempt == 0) && len(others) == 0:
			idle = append(idle, t)
			continue
		case slices.ContainsFunc(orders, func(k db.KillOrder) bool { return k.TaskID == t.ID }):
			continue
		}
		if t.NodeID != nil && t.Attempt > 0 {
			order, err := tx.CreateKillOrder(ctx, db.CreateKillOrderParams{
				ID: ident.New("kill"), OrgID: t.OrgID, TaskID: t.ID, NodeID: *t.NodeID, JailID: t.JailID, StepIds: append(running(steps, jobs, t.ID), own...), OrderedBy: o.By.ID,
			})
			if err != nil {
				return nil, nil, nil, fmt.Errorf("store the order to kill task %s: %w", t.ID, err)
			}
			orders = append(orders, order)
		}
		for nodeID, ids := range others {
			order, err := tx.CreateKillOrder(ctx, db.CreateKillOrderParams{
				ID: ident.New("kill"), OrgID: t.OrgID, TaskID: t.ID, NodeID: nodeID, StepIds: ids, OrderedBy: o.By.ID,
			})
			if err != nil {
				return nil, nil, nil, fmt.Errorf("store the order to kill the commands of task %s on node %s: %w", t.ID, nodeID, err)
			}
			orders = append(orders, order)
		}
	}
	return orders, ended, idle, nil
}

// onMachines returns the names under which commands of a task may run on machines: own are
// parts of steps on the task's own node, and others all those on other nodes, by node.
func onMachines(steps []db.Step, execs []db.LiveExecsOfTasksRow, t db.Task) (own []string, others map[string][]string) {
	others = map[string][]string{}
	for _, step := range steps {
		if step.TaskID == t.ID && step.StartedAt != nil && step.NodeID != nil && (t.NodeID == nil || *step.NodeID != *t.NodeID) {
			others[*step.NodeID] = append(others[*step.NodeID], step.ExecID)
		}
	}
	for _, e := range execs {
		switch {
		case e.TaskID != t.ID:
		case t.NodeID != nil && e.NodeID == *t.NodeID:
			own = append(own, e.ID)
		default:
			others[e.NodeID] = append(others[e.NodeID], e.ID)
		}
	}
	return own, others
}

func (s *Switch) open(ctx context.Context, tx *event.Tx, o Order, ids []string) ([]db.KillOrder, error) {
	var open []db.KillOrder
	var err error
	if o.Scope == hold.Organisation || o.Scope == hold.Node {
		p := db.OpenKillOrdersParams{OrgID: o.OrgID, MaxRows: batch}
		if o.Scope == hold.Node {
			p.NodeID = o.ObjectID
		}
		open, err = tx.OpenKillOrders(ctx, p)
	} else {
		open, err = tx.OpenKillOrdersOf(ctx, db.OpenKillOrdersOfParams{OrgID: o.OrgID, TaskIds: ids, AgentID: scoped(o, hold.Agent),
			TriggerID: scoped(o, hold.Trigger), LineageID: scoped(o, hold.Lineage)})
	}
	if err != nil {
		return nil, fmt.Errorf("find open kill orders: %w", err)
	}
	return open, nil
}

func scoped(o Order, scope hold.Scope) string {
	if o.Scope == scope {
		return o.ObjectID
	}
	return ""
}

// left returns a task that has ended, if something of it may still run.
func (s *Switch) left(ctx context.Context, tx *event.Tx, o Order) ([]db.Task, error) {
	t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: o.OrgID, ID: o.ObjectID})
	if err != nil {
		return nil, fmt.Errorf("lock task %s: %w", o.ObjectID, err)
	}
	used, err := s.inUse(ctx, tx.Queries, t.OrgID, t.JailID, t.ID)
	if err != nil || used {
		return nil, err
	}
	return []db.Task{t}, nil
}

// inUse reports whether another task may have something running in a jail.
func (s *Switch) inUse(ctx context.Context, q *db.Queries, orgID, jailID, taskID string) (bool, error) {
	_, err := q.JailUser(ctx, db.JailUserParams{OrgID: orgID, JailID: jailID, TaskID: taskID})
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("see who uses jail %s: %w", jailID, err)
	}
	return true, nil
}

// running returns the names under which a task's steps and jobs may run on its node.
func running(steps []db.Step, jobs []db.Job, taskID string) []string {
	ids := []string{}
	for _, j := range jobs {
		if j.TaskID == taskID {
			ids = append(ids, j.ExecID)
		}
	}
	for _, step := range steps {
		if step.TaskID == taskID && step.StartedAt != nil {
			ids = append(ids, step.ExecID)
		}
	}
	return ids
}
