package reconcile

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

// taskWaitChanged freezes or thaws the jail of a task that began or stopped waiting
// for a person. Where the node cannot be reached, the task's events say so, and the
// jail follows when the node connects.
func (r *Reconciler) taskWaitChanged(t db.Task) {
	if t.NodeID == nil || t.StartedAt == nil {
		return
	}
	r.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		link, err := r.cfg.Edge.Node(*t.NodeID)
		if err == nil {
			err = r.freezeJail(ctx, link, t.OrgID, t.ID, t.JailID)
		}
		if err == nil && task.State(t.State) == task.AwaitingApproval {
			// An answer that comes before this is bound to the workspace by itself.
			if err := r.cfg.Steps.RecordWorkspace(ctx, t, link, false); err != nil {
				r.cfg.Log.Info("an approval is not bound to the workspace", "task_id", t.ID, "reason", err)
			}
		}
		if err == nil || !task.State(t.State).Parked() {
			return // one that goes on is thawed before it does, and else when its node connects
		}
		r.cfg.Log.Info("the jail of a task that waits for a person was not frozen; it will be when its node connects",
			"task_id", t.ID, "reason", err)
		ctx, cancel = context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := r.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.JailNotFrozen, Payload: map[string]any{
				"jail_id": t.JailID, "node_id": *t.NodeID, "reason": fault.FromGRPC(err).Error(),
			}})
		}); err != nil {
			r.cfg.Log.Warn("cannot say that a jail was not frozen", "task_id", t.ID, "error", err)
		}
	})
}

// freezeJail freezes a jail for a task, or thaws it, as the task's state in the
// database requires. It reads the state again after it has acted, so that of several
// callers the last one to act has seen the newest state.
func (r *Reconciler) freezeJail(ctx context.Context, link machine.Link, orgID, taskID, jailID string) error {
	for told, frozen := false, false; ; told = true {
		states, err := r.cfg.Store.TaskStates(ctx, db.TaskStatesParams{OrgID: orgID, Ids: []string{taskID}})
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

// refreeze freezes and thaws the jails of a node that has connected, as the states of
// their tasks require.
func (r *Reconciler) refreeze(ctx context.Context, link *edge.Link) {
	jails := map[string]string{} // by task
	for _, jail := range link.Hello().GetJails() {
		for _, holder := range jail.GetFrozenBy() {
			if id, ok := strings.CutPrefix(holder, step.Holder("")); ok {
				jails[id] = jail.GetJailId()
			}
		}
	}
	parked, err := r.cfg.Store.ParkedTasks(ctx, db.ParkedTasksParams{OrgID: link.OrgID(), NodeID: link.NodeID()})
	if err != nil {
		r.cfg.Log.Warn("cannot tell which jails of a node are to be frozen", "node_id", link.NodeID(), "error", err)
		return
	}
	for _, t := range parked {
		jails[t.ID] = t.JailID
	}
	for id, jail := range jails {
		if err := r.freezeJail(ctx, link, link.OrgID(), id, jail); err != nil {
			r.cfg.Log.Warn("cannot freeze or thaw a jail", "node_id", link.NodeID(), "jail_id", jail, "task_id", id, "error", err)
		}
	}
	// What was asked while the node was away is about the workspace as it is now.
	for _, t := range parked {
		if task.State(t.State) != task.AwaitingApproval {
			continue
		}
		if err := r.cfg.Steps.RecordWorkspace(ctx, t, link, true); err != nil {
			r.cfg.Log.Info("an approval is not bound to the workspace", "task_id", t.ID, "reason", err)
		}
	}
}
