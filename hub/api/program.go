package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The words by which a program in a jail names its own task and the parent of that.
const (
	selfTask   = "self"
	parentTask = "parent"
)

// Programs narrows the calls of programs in jails to their own tasks: what they read must be
// their task or a subtask of it, by its whole id or as "self".
func Programs(q *store.Store) connect.Interceptor { return programs{q} }

type programs struct{ store *store.Store }

func (p programs) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := p.narrow(ctx, req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (programs) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (p programs) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if auth.Known(ctx).Kind != auth.Program {
			return next(ctx, conn)
		}
		return next(ctx, programConn{conn, func(m any) error { return p.narrow(ctx, m) }})
	}
}

// programConn is a stream whose requests are checked as they arrive.
type programConn struct {
	connect.StreamingHandlerConn

	narrow func(m any) error
}

// Receive implements connect.StreamingHandlerConn.
func (c programConn) Receive(m any) error {
	if err := c.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	return c.narrow(m)
}

// narrow refuses a program's request about another task. What it does not know is refused.
func (p programs) narrow(ctx context.Context, request any) (err error) {
	id := auth.Known(ctx)
	if id.Kind != auth.Program {
		return nil
	}
	switch m := request.(type) {
	case *deckhandv1.GetTaskRequest:
		m.TaskId, err = p.own(ctx, id, m.GetTaskId())
	case *deckhandv1.ListStepsRequest:
		m.TaskId, err = p.own(ctx, id, m.GetTaskId())
	case *deckhandv1.ListEventsRequest:
		m.TaskId, err = p.own(ctx, id, m.GetTaskId())
	case *deckhandv1.WatchRequest:
		if len(m.GetTaskIds()) == 0 || len(m.GetAgentIds()) > 0 {
			return fault.New(fault.Denied, "a program watches its own task and its subtasks only").WithCode(fault.PermissionDenied).
				WithFix("name them in task_ids, or %s, and no agent", selfTask)
		}
		for i, ref := range m.GetTaskIds() {
			if m.TaskIds[i], err = p.own(ctx, id, ref); err != nil {
				return err
			}
		}
	case *deckhandv1.SubmitTaskRequest, *deckhandv1.TellTaskRequest: // the handlers check
	default:
		return fault.New(fault.Denied, "a program in a jail may not make this call").WithCode(fault.PermissionDenied)
	}
	return err
}

// own returns the id of a program's task or of one of its subtasks. Others do not exist for it.
func (p programs) own(ctx context.Context, id auth.Identity, ref string) (string, error) {
	if ref == selfTask || ref == id.TaskID {
		return id.TaskID, nil
	}
	row, err := p.store.GetTask(ctx, db.GetTaskParams{OrgID: id.OrgID, ID: ref})
	if err != nil && !store.IsNotFound(err) {
		return "", fmt.Errorf("load task %s: %w", ref, err)
	}
	if err != nil || store.Text(row.Task.ParentID) != id.TaskID {
		return "", fault.New(fault.NotFound, "there is no task %q below this one", ref).WithObject(ref).
			WithFix("use %s for the program's own task, or the whole id of a subtask", selfTask)
	}
	return ref, nil
}

// program is the actor of what a program in the jail of a task does.
func program(id auth.Identity) event.Actor {
	return event.Actor{Kind: string(auth.Program), ID: task.ProgramOf(id.TaskID), Address: id.Address, UserAgent: id.UserAgent}
}

// submitByProgram creates a subtask of a program's task.
func (h *Tasks) submitByProgram(ctx context.Context, id auth.Identity, m *deckhandv1.SubmitTaskRequest) (*deckhandv1.SubmitTaskResponse, error) {
	known := &deckhandv1.SubmitTaskRequest{AgentId: m.GetAgentId(), Goal: m.GetGoal(), Title: m.GetTitle(), Context: m.GetContext(), IdempotencyKey: m.GetIdempotencyKey()}
	if !proto.Equal(known, m) {
		return nil, fault.New(fault.Denied, "a program in a jail gives a subtask agent_id, goal, title, context and idempotency_key only").WithCode(fault.PermissionDenied).
			WithFix("leave the rest out: the subtask takes it from its parent")
	}
	row, err := step.Programs{Steps: h.Steps}.SubmitSubtask(ctx, id.OrgID, id.TaskID, step.Work{
		Agent: m.GetAgentId(), Goal: m.GetGoal(), Title: m.GetTitle(), Context: m.GetContext(), Key: m.GetIdempotencyKey(),
	}, program(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SubmitTaskResponse{Task: taskRow(row)}, nil
}

// tellParent sends the parent of a program's task a message.
func (h *Tasks) tellParent(ctx context.Context, id auth.Identity, m *deckhandv1.TellTaskRequest) (*deckhandv1.TellTaskResponse, error) {
	switch {
	case id.ParentID == "":
		return nil, fault.New(fault.Precondition, "task %s has no parent to send a message to", id.TaskID).WithObject(id.TaskID).
			WithFix("write what you have to say to the output, which the agent reads")
	case m.GetTaskId() != parentTask && m.GetTaskId() != id.ParentID:
		return nil, fault.New(fault.Denied, "a program in a jail sends messages to the parent of its task only").WithCode(fault.PermissionDenied).
			WithFix("use %s as task_id", parentTask)
	case m.GetInterrupt():
		return nil, fault.New(fault.Denied, "interrupt: a program in a jail does not stop its parent").WithCode(fault.PermissionDenied).WithFix("leave it out")
	}
	row, sent, err := task.Messages{Tasks: h.Tasks}.Note(ctx, id.OrgID, id.ParentID, task.Instruction{Text: m.GetText(), IdempotencyKey: m.GetIdempotencyKey()}, program(id))
	if err != nil {
		return nil, err
	}
	// Of the parent it gets to see nothing else.
	return &deckhandv1.TellTaskResponse{Task: &deckhandv1.Task{Id: row.Task.ID, State: taskState(row.Task.State)}, Message: taskMessageOf(sent)}, nil
}
