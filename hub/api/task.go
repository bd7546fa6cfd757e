package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/agent"
	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tasks serves TaskService.
type Tasks struct {
	Store  *store.Store
	Tasks  *task.Service
	Agents *agent.Service
	Steps  *step.Steps
	// Node answers the live link to a node.
	Node func(nodeID string) (tool.Node, error)
}

func actor(id auth.Identity) event.Actor { return event.Actor{Kind: "user", ID: id.UserName} }

// SubmitTask stores a task and lets admission start it.
func (h *Tasks) SubmitTask(ctx context.Context, req *connect.Request[deckhandv1.SubmitTaskRequest]) (*connect.Response[deckhandv1.SubmitTaskResponse], error) {
	id := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, id.OrgID, req.Msg.GetAgentId())
	if err != nil {
		return nil, err
	}
	sub := task.Submission{
		OrgID: id.OrgID, AgentID: agentID, Goal: req.Msg.GetGoal(), Title: req.Msg.GetTitle(), Priority: req.Msg.GetPriority(),
		IdempotencyKey: req.Msg.GetIdempotencyKey(), By: actor(id), Role: id.Role,
	}
	for _, in := range req.Msg.GetInputs() {
		sub.Inputs = append(sub.Inputs, task.Input{Path: in.GetPath(), Content: in.GetContent()})
	}
	row, err := h.Tasks.Submit(ctx, sub)
	if err != nil {
		return nil, err
	}
	position, err := h.Tasks.QueuePosition(ctx, row.Task)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.SubmitTaskResponse{Task: taskRow(row), QueuePosition: position}), nil
}

func taskRow(row db.GetTaskRow) *deckhandv1.Task {
	return taskMessage(row.Task, row.AgentName, row.Provider, row.Model)
}

// GetTask answers one task.
func (h *Tasks) GetTask(ctx context.Context, req *connect.Request[deckhandv1.GetTaskRequest]) (*connect.Response[deckhandv1.GetTaskResponse], error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, org, req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.GetTaskResponse{Task: taskRow(row)}), nil
}

const tasksPage = 20

// ListTasks answers tasks, newest first.
func (h *Tasks) ListTasks(ctx context.Context, req *connect.Request[deckhandv1.ListTasksRequest]) (*connect.Response[deckhandv1.ListTasksResponse], error) {
	org := auth.From(ctx).OrgID
	filter := task.Filter{PageSize: req.Msg.GetPageSize(), PageToken: req.Msg.GetPageToken()}
	if filter.PageSize == 0 {
		filter.PageSize = tasksPage
	}
	if ref := req.Msg.GetAgentId(); ref != "" {
		id, err := h.Agents.Find(ctx, org, ref)
		if err != nil {
			return nil, err
		}
		filter.AgentID = id
	}
	for i, st := range req.Msg.GetStates() {
		word, ok := taskStates[st]
		if !ok {
			return nil, fault.New(fault.Invalid, "states[%d] is not a task state", i).WithFix("use a state of TaskState")
		}
		filter.States = append(filter.States, word)
	}
	rows, next, err := h.Tasks.List(ctx, org, filter)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListTasksResponse{NextPageToken: next}
	for _, row := range rows {
		res.Tasks = append(res.Tasks, taskRow(db.GetTaskRow(row)))
	}
	return connect.NewResponse(res), nil
}

// CancelTask ends a task.
func (h *Tasks) CancelTask(ctx context.Context, req *connect.Request[deckhandv1.CancelTaskRequest]) (*connect.Response[deckhandv1.CancelTaskResponse], error) {
	id := auth.From(ctx)
	taskID, err := h.Tasks.Find(ctx, id.OrgID, req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Cancel(ctx, id.OrgID, taskID, req.Msg.GetReason(), actor(id))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.CancelTaskResponse{Task: taskRow(row)}), nil
}

// ListSteps answers a task's steps in order.
func (h *Tasks) ListSteps(ctx context.Context, req *connect.Request[deckhandv1.ListStepsRequest]) (*connect.Response[deckhandv1.ListStepsResponse], error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, org, req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	rows, err := h.Store.ListSteps(ctx, db.ListStepsParams{OrgID: org, TaskID: id})
	if err != nil {
		return nil, fmt.Errorf("list steps of %s: %w", id, err)
	}
	res := &deckhandv1.ListStepsResponse{}
	for _, row := range rows {
		res.Steps = append(res.Steps, stepMessage(row))
	}
	return connect.NewResponse(res), nil
}

// ReadLog streams a step's output from the node that ran it.
func (h *Tasks) ReadLog(ctx context.Context, req *connect.Request[deckhandv1.ReadLogRequest], out *connect.ServerStream[deckhandv1.ReadLogResponse]) error {
	org := auth.From(ctx).OrgID
	id, err := h.Steps.Find(ctx, org, req.Msg.GetStepId())
	if err != nil {
		return err
	}
	s, err := h.Steps.Get(ctx, org, id)
	if err != nil {
		return err
	}
	if s.StartedAt == nil || s.NodeID == nil {
		return fault.New(fault.Precondition, "step %s has no log: it was never started on a node", id).WithObject(id)
	}
	link, err := h.Node(*s.NodeID)
	if err != nil {
		return err
	}
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: id, Offset: req.Msg.GetOffset(), Follow: req.Msg.GetFollow()})
	if err != nil {
		return fault.FromGRPC(err)
	}
	for {
		piece, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.FromGRPC(err)
		}
		if len(piece.GetData()) == 0 {
			continue // a gap or a new size of the terminal
		}
		if err := out.Send(&deckhandv1.ReadLogResponse{
			Offset: piece.GetOffset(), Stream: strings.ToLower(strings.TrimPrefix(piece.GetStream().String(), "LOG_STREAM_")),
			Data: piece.GetData(), Time: piece.GetTime(),
		}); err != nil {
			return err
		}
	}
}
