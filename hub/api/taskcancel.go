package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// cancelledAtOnce is how many tasks CancelTasks ends if the request sets no limit.
const cancelledAtOnce = 100

// CancelTasks ends the tasks that a filter picks, each as CancelTask does.
func (h *Tasks) CancelTasks(ctx context.Context, req *deckhandv1.CancelTasksRequest) (*deckhandv1.CancelTasksResponse, error) {
	id := auth.From(ctx)
	filter, err := pick(ctx, h, req)
	if err != nil {
		return nil, err
	}
	if !filter.Picks() {
		return nil, fault.New(fault.Invalid, "the filter is empty: it would pick every task").
			WithFix("set agent_id, states or another field of it; to end everything there is: deckhand kill")
	}
	if len(filter.States) == 0 {
		for _, name := range task.OpenStates() {
			filter.States = append(filter.States, task.State(name))
		}
	}
	for i, state := range filter.States {
		if state.Final() {
			return nil, fault.New(fault.Invalid, "states[%d] is %s: such a task has ended", i, state).WithFix("pick states in which a task has not ended")
		}
	}
	if id.Role != auth.Admin {
		filter.CreatedBy = id.UserName
	}
	filter.PageSize = cmp.Or(req.GetLimit(), cancelledAtOnce)
	counting, total := store.WithTotal(ctx)
	rows, _, err := h.Tasks.List(counting, viewer(ctx), filter)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.CancelTasksResponse{Left: totalMessage(total)}
	res.Left.Count -= int32(len(rows)) //nolint:gosec // at most a page
	if req.GetDryRun() {
		for _, row := range rows {
			res.Tasks = append(res.Tasks, taskRow(db.GetTaskRow(row)))
		}
		return res, nil
	}
	for _, row := range rows {
		done, err := h.Tasks.Cancel(ctx, id.OrgID, row.Task.ID, req.GetReason(), actor(id))
		if fault.Is(err, fault.Precondition) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, errors.Join(err, auditCancelled(ctx, h.Recorder, req, res.GetTasks()))
		}
		res.Tasks = append(res.Tasks, taskRow(done))
	}
	return res, auditCancelled(ctx, h.Recorder, req, res.GetTasks())
}

// auditCancelled records which filter cancelled which tasks. Each of them has an entry of its
// own as well.
func auditCancelled(ctx context.Context, r *event.Recorder, req *deckhandv1.CancelTasksRequest, tasks []*deckhandv1.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	id, ids, states := auth.From(ctx), make([]string, len(tasks)), make([]string, len(req.GetStates()))
	for i, t := range tasks {
		ids[i] = t.GetId()
	}
	for i, st := range req.GetStates() {
		states[i] = enumWord(st, "TASK_STATE_")
	}
	return r.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "tasks.cancelled", ObjectKind: "organisation", ObjectID: id.OrgID, Reason: req.GetReason(),
			After: map[string]any{
				"agent": req.GetAgentId(), "states": states, "parent": req.GetParentId(), "query": req.GetQuery(), "lineage_of": req.GetLineageOf(), "tasks": ids,
			},
		})
	})
}
