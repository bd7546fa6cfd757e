package hub

import (
	"context"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// This file keeps what runs of a task frozen while the task waits for a person:
// paused, or with a question that must not change under the person who answers
// it. The task's state says what is wanted and the node is told after each
// change; where it cannot be reached it is told when it connects, and before the
// next attempt begins.

// taskMoved is told of a task that others gave, or that gave others.
func (h *Hub) taskMoved(t db.Task) { h.subtasks.Moved(t) }

// taskParked freezes or thaws the jail of a task that began or ended to wait.
func (h *Hub) taskParked(t db.Task) {
	if t.NodeID == nil || t.StartedAt == nil {
		return
	}
	h.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		link, err := h.edge.Node(*t.NodeID)
		if err == nil {
			err = h.freezeJail(ctx, link, t.OrgID, t.ID, t.JailID)
		}
		if err == nil && task.State(t.State) == task.AwaitingApproval {
			// An answer that comes before this is bound to the workspace by itself.
			if err := h.steps.RecordWorkspace(ctx, t, link, false); err != nil {
				h.cfg.Log.Info("an approval is not bound to the workspace", "task_id", t.ID, "reason", err)
			}
		}
		if err == nil || !task.State(t.State).Parked() {
			return // one that goes on is thawed before it does, and else when its node connects
		}
		h.cfg.Log.Info("the jail of a task that waits for a person was not frozen; it will be when its node connects",
			"task_id", t.ID, "reason", err)
		ctx, cancel = context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		if err := h.recorder.Tx(ctx, func(tx *event.Tx) error {
			return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.JailNotFrozen, Payload: map[string]any{
				"jail_id": t.JailID, "node_id": *t.NodeID, "reason": fault.FromGRPC(err).Error(),
			}})
		}); err != nil {
			h.cfg.Log.Warn("cannot say that a jail was not frozen", "task_id", t.ID, "error", err)
		}
	})
}

// freezeJail makes a jail frozen for a task, or not, as the task stands. It looks
// again after it has acted: the last to act has seen the newest state.
func (h *Hub) freezeJail(ctx context.Context, link machine.Link, orgID, taskID, jailID string) error {
	for told, frozen := false, false; ; told = true {
		states, err := h.store.TaskStates(ctx, db.TaskStatesParams{OrgID: orgID, Ids: []string{taskID}})
		if err != nil {
			return err
		}
		want := len(states) > 0 && task.State(states[0].State).Parked()
		if told && want == frozen {
			return nil
		}
		if want {
			_, err = link.Jails().FreezeJail(ctx, &nodev1.FreezeJailRequest{JailId: jailID, Holder: step.Holder(taskID)})
			if fault.Is(fault.FromGRPC(err), fault.NotFound) {
				err = nil // without the jail nothing runs
			}
		} else {
			err = step.Thaw(ctx, link, jailID, taskID)
		}
		if err != nil {
			return err
		}
		frozen = want
	}
}

// refreeze has a node's jails follow the states of their tasks after it was
// away.
func (h *Hub) refreeze(ctx context.Context, link *edge.Link) {
	jails := map[string]string{} // by task
	for _, jail := range link.Hello().GetJails() {
		for _, holder := range jail.GetFrozenBy() {
			if id, ok := strings.CutPrefix(holder, step.Holder("")); ok {
				jails[id] = jail.GetJailId()
			}
		}
	}
	parked, err := h.store.ParkedTasks(ctx, db.ParkedTasksParams{OrgID: link.OrgID(), NodeID: link.NodeID()})
	if err != nil {
		h.cfg.Log.Warn("cannot tell which jails of a node are to be frozen", "node_id", link.NodeID(), "error", err)
		return
	}
	for _, t := range parked {
		jails[t.ID] = t.JailID
	}
	for id, jail := range jails {
		if err := h.freezeJail(ctx, link, link.OrgID(), id, jail); err != nil {
			h.cfg.Log.Warn("cannot freeze or thaw a jail", "node_id", link.NodeID(), "jail_id", jail, "task_id", id, "error", err)
		}
	}
	// What was asked while the node was away is about the workspace as it is now.
	for _, t := range parked {
		if task.State(t.State) != task.AwaitingApproval {
			continue
		}
		if err := h.steps.RecordWorkspace(ctx, t, link, true); err != nil {
			h.cfg.Log.Info("an approval is not bound to the workspace", "task_id", t.ID, "reason", err)
		}
	}
}
