package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// cancelledAtOnce is how many tasks CancelTasks ends if the request sets no limit.
	cancelledAtOnce = 100
	// cancelledTogether is how many of them are ended at the same time: each may wait for a node.
	cancelledTogether = 16
	// auditWithin is how long the record of it may take.
	auditWithin = 10 * time.Second
)

// CancelTasks ends the tasks that a filter picks, each as CancelTask does. Those that could not
// be cancelled are left.
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
	rows, next, err := h.Tasks.List(counting, viewer(ctx), filter)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.CancelTasksResponse{}
	if res.Left, err = totalMessage(total, len(rows), next); err != nil {
		return nil, err
	}
	// A task may have been submitted between the two.
	res.Left.Count = max(0, res.GetLeft().GetCount()-int32(len(rows))) //nolint:gosec // at most a page
	if req.GetDryRun() {
		for _, row := range rows {
			res.Tasks = append(res.Tasks, taskRow(db.GetTaskRow(row)))
		}
		return res, nil
	}
	done, failed := make([]*deckhandv1.Task, len(rows)), make([]error, len(rows))
	var cancelling errgroup.Group
	cancelling.SetLimit(cancelledTogether)
	for i, row := range rows {
		cancelling.Go(func() error {
			if failed[i] = ctx.Err(); failed[i] != nil {
				return nil // nobody waits for the rest
			}
			// What has begun is done and told.
			var cancelled db.GetTaskRow
			if cancelled, failed[i] = h.Tasks.Cancel(context.WithoutCancel(ctx), id.OrgID, row.Task.ID, req.GetReason(), actor(id)); failed[i] == nil {
				done[i] = taskRow(cancelled)
			}
			return nil
		})
	}
	_ = cancelling.Wait() // each error is kept by itself
	var first error
	for i, err := range failed {
		switch {
		case err == nil:
			res.Tasks = append(res.Tasks, done[i])
		case !fault.Is(err, fault.Precondition): // otherwise it has ended meanwhile
			if first == nil {
				first = err
			}
			res.Left.Count++
		}
	}
	if len(res.GetTasks()) == 0 {
		return res, first
	}
	return res, auditCancelled(ctx, h.Recorder, req, res.GetTasks())
}

// auditCancelled records which filter cancelled which tasks. Each of them has an entry of its
// own as well.
func auditCancelled(ctx context.Context, r *event.Recorder, req *deckhandv1.CancelTasksRequest, tasks []*deckhandv1.Task) error {
	id, ids := auth.From(ctx), make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.GetId()
	}
	// All of the filter, and what is added to it.
	filter := proto.CloneOf(req)
	filter.Reason = ""
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(filter)
	if err != nil {
		return fmt.Errorf("encode the filter of cancelled tasks: %w", err)
	}
	var picked map[string]any
	if err := json.Unmarshal(text, &picked); err != nil {
		return fmt.Errorf("read the filter of cancelled tasks: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
	defer cancel()
	return r.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "tasks.cancelled", ObjectKind: "organisation", ObjectID: id.OrgID, Reason: req.GetReason(),
			After: map[string]any{"filter": picked, "tasks": ids},
		})
	})
}
