// Package reconcile brings what a node has into line with what the hub wants: which
// commands and MCP servers run, which jails are frozen or stopped, whether the node
// is drained, and which kill orders it has confirmed.
//
// A Reconciler acts at two moments. Subscribe makes it act on changes as soon as
// they are committed (package change); NodeConnected makes it compare everything
// when a node's link opens, since changes are missed while a node is away. Both read
// the wanted state from the database at the time they act, so that repeating them is
// harmless and their order does not matter. If a node cannot be reached, nothing is
// queued: the next connection repairs it.
package reconcile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/execid"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// timeout bounds each exchange with a node.
const timeout = 10 * time.Second

// dueAtOnce is how many cancelled steps of a node are looked up at once.
const dueAtOnce = 100

// Kills gives a node the kill orders that it has not confirmed; see kill.Switch.
type Kills interface {
	Reconcile(ctx context.Context, orgID, nodeID string) error
}

// Jobs ends the background commands of a task that has ended; see job.Service.
type Jobs interface {
	EndOf(ctx context.Context, t db.Task)
}

// Config holds the dependencies of a Reconciler. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Edge     *edge.Edge
	// Node returns the link to a node with its answers masked, or an error of kind
	// Unavailable.
	Node   func(nodeID string) (machine.Link, error)
	Agents *agent.Service
	Tools  *tool.Registry
	Steps  *step.Steps
	Kills  Kills
	Jobs   Jobs
	Log    hclog.Logger
}

// Reconciler brings nodes into line with the database. It may be used by several
// goroutines.
type Reconciler struct {
	cfg        Config
	background sync.WaitGroup
	drains     [stripes]sync.Mutex // held while a node is told whether it is drained
}

// New creates a Reconciler.
func New(cfg Config) *Reconciler { return &Reconciler{cfg: cfg} }

// Subscribe makes the Reconciler act on the changes of a feed. Except for a cancelled
// step's command, which Publish waits for, it acts in the background.
func (r *Reconciler) Subscribe(feed *change.Feed) {
	change.Subscribe(feed, func(c change.TaskEnded) { r.taskEnded(c.Task) })
	change.Subscribe(feed, func(c change.TaskWaitChanged) { r.taskWaitChanged(c.Task) })
	change.Subscribe(feed, func(c change.StepCancelled) { r.stopStep(c.Step, c.By) })
	change.Subscribe(feed, func(c change.StepInterrupted) { r.interruptStep(c.Step, c.By) })
	change.Subscribe(feed, func(c change.KillConfirmed) {
		r.background.Go(func() { r.endDue(c.OrgID, c.NodeID) })
	})
	change.Subscribe(feed, func(c change.NodeDrainChanged) { r.nodeDrainChanged(context.Background(), c.NodeID) })
}

// Wait returns when what was begun in the background has ended.
func (r *Reconciler) Wait() { r.background.Wait() }

// NodeConnected compares a node that has connected to this hub with the database, in
// the background. Then it announces that tasks may start, unless the link has closed.
func (r *Reconciler) NodeConnected(nodeID string) {
	r.background.Go(func() {
		link, err := r.cfg.Edge.Local(nodeID)
		if err != nil {
			return
		}
		state, told := r.sendDrain(context.Background(), nodeID)
		r.reconcile(link, state)
		r.cfg.Recorder.Publish(change.QueueChanged{OrgID: link.OrgID()})
		if !told {
			r.retryDrain(link)
		}
	})
}

// stopStep ends the command of a cancelled step. If the node cannot be reached, its next
// connection does it.
func (r *Reconciler) stopStep(s db.Step, by string) {
	if err := r.endCancelled(s, by); err != nil {
		r.cfg.Log.Info("a cancelled step's command was not killed; it will be when its node connects", "task_id", s.TaskID, "step_id", s.ID, "reason", err)
	}
}

// endCancelled ends the command of a cancelled step and stores what is known of its end.
func (r *Reconciler) endCancelled(s db.Step, by string) error {
	if s.NodeID == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	end := db.SetCancelledStepLogParams{OrgID: s.OrgID, TaskID: s.TaskID, ID: s.ID, Outcome: json.RawMessage("{}")}
	record := r.cfg.Tools.Get(s.Tool)
	if record == nil || !record.Runs() {
		return r.cfg.Store.SetCancelledStepLog(ctx, end) // it has no command
	}
	link, err := r.cfg.Edge.Node(*s.NodeID)
	if err != nil {
		return err
	}
	killed, err := link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: s.ExecID, By: by})
	if err != nil {
		return err
	}
	end.LogBytes, end.Outcome = killed.GetExec().GetLogBytes(), tool.OutcomeOf(killed.GetExec())
	if err := r.cfg.Store.SetCancelledStepLog(ctx, end); err != nil {
		return err
	}
	r.cfg.Edge.Recorded(*s.NodeID, s.ID)
	return nil
}

// endDue does what stopStep does for all steps of a node for which it is not done yet.
func (r *Reconciler) endDue(orgID, nodeID string) {
	params := db.DueStepLogsParams{OrgID: orgID, NodeID: nodeID, MaxRows: dueAtOnce}
	for {
		due, err := r.cfg.Store.DueStepLogs(context.Background(), params)
		for i := 0; err == nil && i < len(due); i++ {
			err = r.endCancelled(due[i], "hub: its step has ended")
			params.AfterID = due[i].ID
		}
		if err != nil {
			r.cfg.Log.Info("how the commands of cancelled steps ended is not stored; it will be when their node connects", "node_id", nodeID, "reason", err)
		}
		if err != nil || len(due) < dueAtOnce {
			return
		}
	}
}

// interruptStep kills the command of a step and leaves the step started: the hub that executes
// the step stores its end, with what the command changed. If the node cannot be reached, the
// command runs to its own end.
func (r *Reconciler) interruptStep(s db.Step, by string) {
	if record := r.cfg.Tools.Get(s.Tool); s.NodeID == nil || record == nil || !record.Runs() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	link, err := r.cfg.Edge.Node(*s.NodeID)
	if err == nil {
		_, err = link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: s.ExecID, By: by})
	}
	if err != nil {
		r.cfg.Log.Warn("an interrupted command was not killed; it goes on to its end", "task_id", s.TaskID, "step_id", s.ID, "node_id", *s.NodeID, "reason", err)
	}
}

// reconcile applies to a node that has connected what changed while it was away.
// state says whether anything can have changed, which for most nodes of a fleet
// that reconnects is not so; nil means that it is not known.
func (r *Reconciler) reconcile(link *edge.Link, state *db.NodeStandingRow) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if state == nil || state.Kills {
		if err := r.cfg.Kills.Reconcile(ctx, link.OrgID(), link.NodeID()); err != nil {
			r.cfg.Log.Warn("cannot give a node its kill orders; will try again", "node_id", link.NodeID(), "error", err)
		}
	}
	r.endUnwanted(ctx, link)
	if state == nil || state.Tasks || len(link.Hello().GetJails()) > 0 {
		r.refreeze(ctx, link)
	}
	if state == nil || state.Logs {
		r.endDue(link.OrgID(), link.NodeID())
	}
}

// endUnwanted ends the commands that a node still runs for steps that have ended
// in the database, or that are not in it.
func (r *Reconciler) endUnwanted(ctx context.Context, link *edge.Link) {
	var ids, steps []string
	for _, e := range link.Hello().GetExecs() {
		if strings.HasPrefix(e.GetExecId(), "step_") && e.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
			ids = append(ids, e.GetExecId())
			steps = append(steps, execid.Step(e.GetExecId()))
		}
	}
	if len(ids) == 0 {
		return
	}
	// After a restore from a backup the database does not know what was begun since. Nothing of
	// that is ended: nobody could tell how far it had come. It runs to its own end, and the
	// comparison shows it to people.
	compared, err := r.cfg.Store.IsNodeCompared(ctx, db.IsNodeComparedParams{OrgID: link.OrgID(), NodeID: link.NodeID()})
	if err != nil {
		r.cfg.Log.Warn("cannot tell whether a node was compared after a restore", "node_id", link.NodeID(), "error", err)
		return
	}
	if !compared {
		return
	}
	recovered, err := r.cfg.Store.RecoveredExecs(ctx, db.RecoveredExecsParams{OrgID: link.OrgID(), NodeID: link.NodeID(), Ids: ids})
	if err != nil {
		r.cfg.Log.Warn("cannot tell which commands of a node were recovered after a restore", "node_id", link.NodeID(), "error", err)
		return
	}
	started, err := r.cfg.Store.StartedExecs(ctx, db.StartedExecsParams{OrgID: link.OrgID(), Ids: ids, Steps: steps})
	if err != nil {
		r.cfg.Log.Warn("cannot tell which commands of a node are wanted", "node_id", link.NodeID(), "error", err)
		return
	}
	jobs, err := r.cfg.Store.WantedJobs(ctx, db.WantedJobsParams{OrgID: link.OrgID(), Ids: ids})
	if err != nil {
		r.cfg.Log.Warn("cannot tell which jobs of a node are wanted", "node_id", link.NodeID(), "error", err)
		return
	}
	wanted := make(map[string]bool, len(started)+len(jobs)+len(recovered))
	for _, id := range slices.Concat(started, jobs, recovered) {
		wanted[id] = true
	}
	for _, id := range ids {
		if wanted[id] {
			continue
		}
		if _, err := link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: id, By: "hub: its step has ended"}); err != nil {
			r.cfg.Log.Warn("cannot end a command whose step has ended", "exec_id", id, "node_id", link.NodeID(), "error", err)
			continue
		}
		r.cfg.Log.Info("ended a command whose step had ended", "exec_id", id, "node_id", link.NodeID())
	}
}

// taskEnded stops the jail of a task that had one of its own, and otherwise ends the
// task's jobs and MCP servers in the jail that others use too. The workspace is kept for people
// to inspect.
func (r *Reconciler) taskEnded(t db.Task) {
	if t.NodeID == nil || t.StartedAt == nil {
		return
	}
	end := r.endRest
	if t.WorkspaceScope == string(persona.ScopeTask) {
		end = r.stopJail
	}
	r.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		end(ctx, t)
	})
}

// stopJail stops a task's jail. If the node cannot be reached, it stops idle jails by
// itself.
func (r *Reconciler) stopJail(ctx context.Context, t db.Task) {
	link, err := r.cfg.Edge.Node(*t.NodeID)
	if err != nil {
		return
	}
	if _, err := link.Jails().StopJail(ctx, &nodev1.StopJailRequest{JailId: t.JailID}); err != nil {
		r.cfg.Log.Info("the jail of an ended task was not stopped", "task_id", t.ID, "reason", err)
	}
}

// endRest ends what goes on in a jail for a task that has ended.
func (r *Reconciler) endRest(ctx context.Context, t db.Task) {
	r.cfg.Jobs.EndOf(ctx, t)
	r.endServers(ctx, t)
}

// endServers ends the MCP servers and the browser of a task that has ended. If its node
// cannot be reached they end by themselves, because they receive no more requests.
func (r *Reconciler) endServers(ctx context.Context, t db.Task) {
	p, err := r.cfg.Agents.PersonaOf(ctx, r.cfg.Store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil || len(p.MCP) == 0 && !tool.HasBrowser(p) {
		return
	}
	link, err := r.cfg.Node(*t.NodeID)
	if err == nil && len(p.MCP) > 0 {
		err = tool.EndMCP(ctx, link, t.JailID, t.ID)
	}
	if err == nil && tool.HasBrowser(p) {
		err = tool.EndBrowser(ctx, link, t.JailID, t.ID)
	}
	if err != nil {
		r.cfg.Log.Info("the MCP servers or the browser of an ended task were not ended", "task_id", t.ID, "reason", err)
	}
}
