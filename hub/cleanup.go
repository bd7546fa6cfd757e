package hub

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// This file ends on nodes what has ended in the hub.

// stopStep ends the command of a cancelled step and keeps what is known of its
// end. Where the node cannot be reached, reconcile does it when it returns.
func (h *Hub) stopStep(s db.Step, by string) {
	if record := h.tools.Get(s.Tool); s.NodeID == nil || record == nil || !record.Runs() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	link, err := h.edge.Node(*s.NodeID)
	var killed *nodev1.KillExecResponse
	if err == nil {
		killed, err = link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: s.ExecID, By: by})
	}
	if err == nil {
		err = h.store.SetCancelledStepLog(ctx, db.SetCancelledStepLogParams{
			OrgID: s.OrgID, ID: s.ID, LogBytes: killed.GetExec().GetLogBytes(), Outcome: tool.OutcomeOf(killed.GetExec()),
		})
		h.recorded(*s.NodeID, s.ID)
	}
	if err != nil {
		h.cfg.Log.Info("a cancelled step's command was not killed; it will be when its node connects", "step_id", s.ID, "reason", err)
	}
}

// reconcile tells a node that has connected what changed while it was away. Of
// most nodes of a fleet that comes back nothing has: one look, which is nil when
// it failed, tells.
func (h *Hub) reconcile(link *edge.Link, standing *db.NodeStandingRow) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if standing == nil || standing.Kills {
		if err := h.kills.Reconcile(ctx, link.OrgID(), link.NodeID()); err != nil {
			h.cfg.Log.Warn("cannot give a node its kill orders; will try again", "node_id", link.NodeID(), "error", err)
		}
	}
	h.endUnwanted(ctx, link)
	if standing == nil || standing.Tasks || len(link.Hello().GetJails()) > 0 {
		h.refreeze(ctx, link)
	}
}

// endUnwanted ends the commands that a node still runs for steps that have
// ended here, or that nobody here knows.
func (h *Hub) endUnwanted(ctx context.Context, link *edge.Link) {
	var ids, steps []string
	for _, e := range link.Hello().GetExecs() {
		if strings.HasPrefix(e.GetExecId(), "step_") && e.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
			ids = append(ids, e.GetExecId())
			steps = append(steps, step.OfExec(e.GetExecId()))
		}
	}
	if len(ids) == 0 {
		return
	}
	started, err := h.store.StartedExecs(ctx, db.StartedExecsParams{OrgID: link.OrgID(), Ids: ids, Steps: steps})
	if err != nil {
		h.cfg.Log.Warn("cannot tell which commands of a node are wanted", "node_id", link.NodeID(), "error", err)
		return
	}
	wanted := make(map[string]bool, len(started))
	for _, id := range started {
		wanted[id] = true
	}
	for _, id := range ids {
		if wanted[id] {
			continue
		}
		if _, err := link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: id, By: "hub: its step has ended"}); err != nil {
			h.cfg.Log.Warn("cannot end a command whose step has ended", "step_id", id, "error", err)
			continue
		}
		h.cfg.Log.Info("ended a command whose step had ended", "step_id", id, "node_id", link.NodeID())
	}
}

// offlineGrace returns how long a task's commands go on while their node is cut
// off.
func (h *Hub) offlineGrace(ctx context.Context, orgID, taskID string) (time.Duration, error) {
	row, err := h.store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return 0, fmt.Errorf("load task %s: %w", taskID, err)
	}
	p, err := h.agents.PersonaOf(ctx, h.store.Queries, orgID, row.Task.AgentID, row.Task.AgentVersion)
	if err != nil {
		return 0, fmt.Errorf("load the persona of task %s: %w", taskID, err)
	}
	return cmp.Or(p.OfflineGrace, offlineGrace), nil
}

// taskKilled is told of a task as it stood when the kill switch ended it.
func (h *Hub) taskKilled(t db.Task) {
	h.taskEnded(t)
	if task.State(t.State).Parked() {
		t.State = string(task.Cancelled)
		h.taskParked(t)
	}
}

// taskEnded ends the MCP servers of a task, and stops the jail of one that had a
// jail of its own; the workspace stays for people to look at.
func (h *Hub) taskEnded(t db.Task) {
	h.metrics.Ended(t)
	h.endServers(t)
	if trigger.Started(t) {
		h.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
			defer cancel()
			h.triggers.Ended(ctx, t)
		})
	}
	if t.WorkspaceScope != string(persona.ScopeTask) || t.NodeID == nil || t.StartedAt == nil {
		return
	}
	h.background.Go(func() {
		link, err := h.edge.Node(*t.NodeID)
		if err != nil {
			return // the node stops idle jails by itself
		}
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		if _, err := link.Jails().StopJail(ctx, &nodev1.StopJailRequest{JailId: t.JailID}); err != nil {
			h.cfg.Log.Info("the jail of an ended task was not stopped", "task_id", t.ID, "reason", err)
		}
	})
}

// endServers ends the MCP servers of a task that has ended. Where its node cannot
// be reached they end by themselves, since nobody asks them any more.
func (h *Hub) endServers(t db.Task) {
	if t.NodeID == nil || t.StartedAt == nil || t.WorkspaceScope == string(persona.ScopeTask) {
		return
	}
	h.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		p, err := h.agents.PersonaOf(ctx, h.store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
		if err != nil || len(p.MCP) == 0 {
			return
		}
		link, err := h.node(*t.NodeID)
		if err == nil {
			err = tool.EndMCP(ctx, link, t.JailID, t.ID)
		}
		if err != nil {
			h.cfg.Log.Info("the MCP servers of an ended task were not ended", "task_id", t.ID, "reason", err)
		}
	})
}
