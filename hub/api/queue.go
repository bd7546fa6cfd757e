package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Queue serves QueueService.
type Queue struct {
	Tasks  *task.Service
	Agents *agent.Service
	Leases *lease.Leases
}

// nobody is the assignee of a task that waits to be assigned.
const nobody = "none"

// assignee reads "@agent:NAME", "@human:NAME" or "none".
func assignee(ctx context.Context, agents *agent.Service, tasks *task.Service, orgID, text string) (task.Assignee, error) {
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case text == nobody:
		return task.Assignee{}, nil
	case kind == "@agent" && name != "":
		id, err := agents.Find(ctx, viewer(ctx), name)
		return task.Assignee{AgentID: id}, err
	case kind == "@human" && name != "":
		user, err := tasks.FindUser(ctx, orgID, name)
		return task.Assignee{Human: user}, err
	}
	return task.Assignee{}, fault.New(fault.Invalid, "assign_to is %q", text).WithFix("use @agent:NAME, @human:NAME or none")
}

// standing returns a task's position as a message; nil for a task without one.
func standing(s task.QueuePosition, ok bool) *deckhandv1.Standing {
	if !ok {
		return nil
	}
	m := &deckhandv1.Standing{Place: s.Place, Basis: s.Basis}
	if s.Wait >= 0 {
		m.Wait = durationpb.New(s.Wait)
	}
	return m
}

// assigneeOf names who is to do a task.
func assigneeOf(t db.Task, agentName string) string {
	switch {
	case t.Assignee != "":
		return "@human:" + t.Assignee
	case t.AgentID != "":
		return "@agent:" + agentName
	}
	return ""
}

// conversation returns a stored conversation.
func conversation(data json.RawMessage) []*deckhandv1.ConversationMessage {
	var said []task.Message
	// The column is written from such a list only.
	_ = json.Unmarshal(data, &said)
	out := make([]*deckhandv1.ConversationMessage, len(said))
	for i, m := range said {
		out[i] = &deckhandv1.ConversationMessage{Role: m.Role, Text: m.Text}
	}
	return out
}

// shown returns a task with what is known of it besides its row.
func shown(ctx context.Context, tasks *task.Service, row db.GetTaskRow) (*deckhandv1.Task, error) {
	m := taskRow(row)
	standings, err := tasks.Standings(ctx, row.Task.OrgID, row.Task)
	if err != nil {
		return nil, err
	}
	st, ok := standings[row.Task.ID]
	m.Standing = standing(st, ok)
	after, err := tasks.Dependencies(ctx, row.Task.OrgID, row.Task.ID)
	if err != nil {
		return nil, fmt.Errorf("load what %s waits for: %w", row.Task.ID, err)
	}
	for _, dep := range after {
		m.After = append(m.After, dep.ID)
	}
	return m, nil
}

func (h *Queue) show(ctx context.Context, orgID, id string) (*deckhandv1.Task, error) {
	row, err := h.Tasks.Get(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	return shown(ctx, h.Tasks, row)
}

// ReorderTask puts a queued task to another place.
func (h *Queue) ReorderTask(ctx context.Context, req *deckhandv1.ReorderTaskRequest) (*deckhandv1.ReorderTaskResponse, error) {
	who := auth.From(ctx)
	id, t, err := h.task(ctx, who, req.GetTaskId())
	if err == nil {
		err = h.Agents.ChangesTask(ctx, viewer(ctx), t)
	}
	if err != nil {
		return nil, err
	}
	to := task.Reorder{First: req.GetFirst(), Priority: req.GetPriority()}
	if ref := req.GetBefore(); ref != "" {
		if to.Before, err = h.Tasks.Find(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
	}
	if err := h.Tasks.Reorder(ctx, who.OrgID, id, to, actor(who)); err != nil {
		return nil, err
	}
	m, err := h.show(ctx, who.OrgID, id)
	return &deckhandv1.ReorderTaskResponse{Task: m}, err
}

// task finds a task of the caller's organisation.
func (h *Queue) task(ctx context.Context, who auth.Identity, ref string) (string, db.Task, error) {
	id, err := h.Tasks.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return "", db.Task{}, err
	}
	row, err := h.Tasks.Get(ctx, who.OrgID, id)
	return id, row.Task, err
}

// ownOrGiven refuses callers who may not control a task: its submitter, the person whom
// it is assigned to, and administrators may.
func ownOrGiven(who auth.Identity, t db.Task) error {
	if t.Assignee != "" && t.Assignee == who.UserName {
		return nil
	}
	return own(who, t)
}

// AssignTask assigns a task.
func (h *Queue) AssignTask(ctx context.Context, req *deckhandv1.AssignTaskRequest) (*deckhandv1.AssignTaskResponse, error) {
	who := auth.From(ctx)
	id, t, err := h.task(ctx, who, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	to, err := assignee(ctx, h.Agents, h.Tasks, who.OrgID, req.GetAssignTo())
	if err != nil {
		return nil, err
	}
	// Any user may take a task that is not assigned.
	if taken := t.AgentID == "" && t.Assignee == "" && to.Human == who.UserName; !taken {
		if err := ownOrGiven(who, t); err != nil {
			return nil, err
		}
	}
	if err := h.Tasks.Assign(ctx, who.OrgID, id, to, actor(who), who.Role); err != nil {
		return nil, err
	}
	m, err := h.show(ctx, who.OrgID, id)
	return &deckhandv1.AssignTaskResponse{Task: m}, err
}

// CompleteTask ends a task that a person did by hand.
func (h *Queue) CompleteTask(ctx context.Context, req *deckhandv1.CompleteTaskRequest) (*deckhandv1.CompleteTaskResponse, error) {
	who := auth.From(ctx)
	id, t, err := h.task(ctx, who, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := ownOrGiven(who, t); err != nil {
		return nil, err
	}
	if err := h.Tasks.Complete(ctx, who.OrgID, id, req.GetSummary(), actor(who)); err != nil {
		return nil, err
	}
	m, err := h.show(ctx, who.OrgID, id)
	return &deckhandv1.CompleteTaskResponse{Task: m}, err
}

func workerMessage(w db.Worker, active int64) *deckhandv1.Worker {
	m := &deckhandv1.Worker{
		Id: w.ID, Name: w.Name, Pool: w.Pool, Slots: w.Slots, Active: int32(active), //nolint:gosec // bounded by its slots
		Version: w.Version, Pressure: w.Pressure, RegisteredAt: timestamppb.New(w.RegisteredAt), LastSeenAt: timestamppb.New(w.LastSeenAt),
	}
	if w.DrainedAt != nil {
		m.Drain = &deckhandv1.Worker_Drain{By: w.DrainedBy, Reason: w.DrainReason, Since: timestamp(w.DrainedAt)}
	}
	return m
}

// ListWorkers returns the workers that called recently.
func (h *Queue) ListWorkers(ctx context.Context, req *deckhandv1.ListWorkersRequest) (*deckhandv1.ListWorkersResponse, error) {
	rows, next, err := h.Leases.Workers(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListWorkersResponse{NextPageToken: next}
	for _, row := range rows {
		res.Workers = append(res.Workers, workerMessage(row.Worker, row.Active))
	}
	return res, nil
}

// DrainWorker keeps new tasks off a worker.
func (h *Queue) DrainWorker(ctx context.Context, req *deckhandv1.DrainWorkerRequest) (*deckhandv1.DrainWorkerResponse, error) {
	who := auth.From(ctx)
	w, err := h.Leases.Drain(ctx, who.OrgID, req.GetWorkerId(), actor(who), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.DrainWorkerResponse{Worker: workerMessage(w.Worker, w.Active)}, nil
}

// UndrainWorker lets a worker take tasks again.
func (h *Queue) UndrainWorker(ctx context.Context, req *deckhandv1.UndrainWorkerRequest) (*deckhandv1.UndrainWorkerResponse, error) {
	who := auth.From(ctx)
	w, err := h.Leases.Undrain(ctx, who.OrgID, req.GetWorkerId(), actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UndrainWorkerResponse{Worker: workerMessage(w.Worker, w.Active)}, nil
}
