package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// mine returns the id of a task that the caller may control: their own, or any
// as an administrator.
func (h *Tasks) mine(ctx context.Context, ref string) (auth.Identity, string, error) {
	id := auth.From(ctx)
	taskID, err := h.Tasks.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return id, "", err
	}
	row, err := h.Tasks.Get(ctx, id.OrgID, taskID)
	if err != nil {
		return id, "", err
	}
	return id, taskID, own(id, row.Task)
}

// viewer is who calls, as agents and tasks are shown to them.
func viewer(ctx context.Context) visibility.Viewer {
	return visibility.Of(auth.From(ctx))
}

// own refuses callers who may not control a task.
func own(id auth.Identity, t db.Task) error {
	if t.CreatedBy == id.UserName || id.Role == "admin" {
		return nil
	}
	return fault.New(fault.Denied, "task %s is %s's", t.ID, t.CreatedBy).WithCode(fault.PermissionDenied).WithObject(t.ID).
		WithFix("ask them or an administrator")
}

// CancelTask ends a task.
func (h *Tasks) CancelTask(ctx context.Context, req *deckhandv1.CancelTaskRequest) (*deckhandv1.CancelTaskResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Cancel(ctx, id.OrgID, taskID, req.GetReason(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CancelTaskResponse{Task: taskRow(row)}, nil
}

// PauseTask pauses a task.
func (h *Tasks) PauseTask(ctx context.Context, req *deckhandv1.PauseTaskRequest) (*deckhandv1.PauseTaskResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	pause := h.Tasks.Pause
	if req.GetOnNextTool() {
		pause = h.Tasks.PauseNext
	}
	row, err := pause(ctx, id.OrgID, taskID, req.GetReason(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PauseTaskResponse{Task: taskRow(row)}, nil
}

// ResumeTask resumes a paused task.
func (h *Tasks) ResumeTask(ctx context.Context, req *deckhandv1.ResumeTaskRequest) (*deckhandv1.ResumeTaskResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	limits, err := limitsOf(id, req.GetLimits())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Resume(ctx, id.OrgID, taskID, limits, actor(id))
	if err != nil {
		return nil, err
	}
	if row.Task.AgentID != "" {
		if err := h.Agents.ResumeAfter(ctx, row.Task, actor(id)); err != nil {
			return nil, err
		}
	}
	return &deckhandv1.ResumeTaskResponse{Task: taskRow(row)}, nil
}

// TellTask sends a task's agent a message.
func (h *Tasks) TellTask(ctx context.Context, req *deckhandv1.TellTaskRequest) (*deckhandv1.TellTaskResponse, error) {
	if who := auth.From(ctx); who.Kind == auth.Program {
		return h.tellParent(ctx, who, req)
	}
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, m, err := h.Tasks.SendMessage(ctx, id.OrgID, taskID, task.Instruction{
		Text: req.GetText(), IdempotencyKey: req.GetIdempotencyKey(), Interrupt: req.GetInterrupt(),
	}, actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.TellTaskResponse{Task: taskRow(row), Message: taskMessageOf(m)}, nil
}

// WithdrawMessage takes back a message that the agent has not got yet.
func (h *Tasks) WithdrawMessage(ctx context.Context, req *deckhandv1.WithdrawMessageRequest) (*deckhandv1.WithdrawMessageResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, m, err := task.Messages{Tasks: h.Tasks}.Withdraw(ctx, id.OrgID, taskID, req.GetMessageId(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.WithdrawMessageResponse{Task: taskRow(row), Message: taskMessageOf(m)}, nil
}

// again reads how a task is to be run once more.
func (h *Tasks) again(ctx context.Context, id auth.Identity, o *deckhandv1.TaskOverride, key string) (task.RetryOptions, error) {
	override, err := h.Override(ctx, id, o)
	return task.RetryOptions{By: actor(id), Role: id.Role, IdempotencyKey: key, Override: override}, err
}

// Override reads the settings that replace those of a task that is run again.
func (h *Tasks) Override(ctx context.Context, id auth.Identity, o *deckhandv1.TaskOverride) (out task.Override, err error) {
	out = task.Override{MemoryBytes: o.GetMemoryBytes(), Provider: o.GetProvider(), Model: o.GetModel()}
	if err := out.Check(); err != nil {
		return out, err
	}
	if o.GetMode() != "" {
		return out, fault.New(fault.Invalid, "override.mode is %q, and a task that runs once more keeps the mode that it had", o.GetMode()).
			WithFix("leave it out, or submit a new task")
	}
	if out.Limits, err = limitsOf(id, o.GetLimits()); err != nil {
		return out, err
	}
	if ref := o.GetNodeId(); ref != "" {
		out.NodeID, err = h.Nodes.Find(ctx, id.OrgID, ref)
	}
	return out, err
}

// limitsOf reads the limits that an admin lets a run have.
func limitsOf(id auth.Identity, m *deckhandv1.TaskLimits) (task.Limits, error) {
	out := limitsIn(m)
	if out != (task.Limits{}) && id.Role != "admin" {
		return out, fault.New(fault.Denied, "only an admin may raise a run's limits above its persona's").
			WithCode(fault.PermissionDenied).WithFix("ask one, or leave limits out")
	}
	return out, nil
}

// RetryTask runs a task once more.
func (h *Tasks) RetryTask(ctx context.Context, req *deckhandv1.RetryTaskRequest) (*deckhandv1.RetryTaskResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	again, err := h.again(ctx, id, req.GetOverride(), req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Retry(ctx, id.OrgID, taskID, again)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RetryTaskResponse{Task: taskRow(row)}, nil
}

// ResumeTaskFrom creates a task that is resumed from a checkpoint of another.
func (h *Tasks) ResumeTaskFrom(ctx context.Context, req *deckhandv1.ResumeTaskFromRequest) (*deckhandv1.ResumeTaskFromResponse, error) {
	m := req
	id, taskID, err := h.mine(ctx, m.GetTaskId())
	if err != nil {
		return nil, err
	}
	from := task.Point{Iteration: m.GetIteration()}
	switch {
	case m.GetCheckpointId() != "":
		from, err = task.CheckpointAt(ctx, h.Store.Queries, id.OrgID, taskID, m.GetCheckpointId())
	case m.GetName() != "":
		from.Iteration, err = h.Tasks.CheckpointNamed(ctx, id.OrgID, taskID, m.GetName())
	}
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ResumeTaskFromResponse{}
	keep := m.GetWorkspace() == deckhandv1.ResumeWorkspace_RESUME_WORKSPACE_KEEP
	at := func(ctx context.Context, origin db.Task, iteration int32) (*workspace.Restore, error) {
		if keep {
			return nil, nil
		}
		r, err := h.Workspaces.At(ctx, origin, iteration, m.GetWorkspace() == deckhandv1.ResumeWorkspace_RESUME_WORKSPACE_OVERWRITE)
		if r != nil && err == nil {
			res.Workspace = h.restoreMessage(ctx, r)
		}
		return r, err
	}
	if m.GetPreview() {
		row, checkpoint, err := h.Tasks.CheckpointOf(ctx, id.OrgID, taskID, from.Iteration)
		if err == nil {
			_, err = at(ctx, row.Task, checkpoint.Iteration)
		}
		if err != nil {
			return nil, err
		}
		return res, nil
	}
	again, err := h.again(ctx, id, m.GetOverride(), m.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	again.Workspace = func(ctx context.Context, origin db.Task, iteration int32) (task.WithTask, error) {
		r, err := at(ctx, origin, iteration)
		if r == nil || err != nil {
			return nil, err
		}
		if err := r.Refused(again.Override.NodeID); err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx *event.Tx, t db.Task) error { return r.Store(ctx, tx, t, again.By) }, nil
	}
	row, err := h.Tasks.ResumeFrom(ctx, id.OrgID, taskID, from, m.GetMessage(), again)
	if err != nil {
		return nil, err
	}
	res.Task = taskRow(row)
	return res, nil
}

// restoreMessage describes what restoring a workspace changes.
func (h *Tasks) restoreMessage(ctx context.Context, r *workspace.Restore) *deckhandv1.WorkspaceRestore {
	out := &deckhandv1.WorkspaceRestore{
		State: r.State, Files: r.Seen.GetFiles(), Others: r.Others, OriginalDigest: r.Seen.GetOriginalDigest(), RestoredDigest: r.Seen.GetRestoredDigest(),
		Conflicts: conflictMessages(r.Seen.GetConflicts(), maskOf(ctx, h.Redact)),
	}
	for _, c := range r.Seen.GetChanges()[:min(len(r.Seen.GetChanges()), maxUndone)] {
		out.Changes = append(out.Changes, recordedChange(workspace.Describe(c, maskOf(ctx, h.Redact))))
	}
	return out
}

// ListCheckpoints returns a task's checkpoints.
func (h *Tasks) ListCheckpoints(ctx context.Context, req *deckhandv1.ListCheckpointsRequest) (*deckhandv1.ListCheckpointsResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Tasks.Checkpoints(ctx, org, id, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListCheckpointsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Checkpoints = append(res.Checkpoints, checkpointMessage(row))
	}
	return res, nil
}

// KeepCheckpoint keeps a checkpoint for longer.
func (h *Tasks) KeepCheckpoint(ctx context.Context, req *deckhandv1.KeepCheckpointRequest) (*deckhandv1.KeepCheckpointResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	at := task.Point{Iteration: req.GetIteration()}
	if ref := req.GetCheckpointId(); ref != "" {
		if at, err = task.CheckpointAt(ctx, h.Store.Queries, id.OrgID, taskID, ref); err != nil {
			return nil, err
		}
	}
	row, err := h.Tasks.KeepCheckpoint(ctx, id.OrgID, taskID, at, req.GetKeepFor().AsDuration(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.KeepCheckpointResponse{Checkpoint: checkpointMessage(row)}, nil
}

func checkpointMessage(row db.ListCheckpointsRow) *deckhandv1.TaskCheckpoint {
	out := &deckhandv1.TaskCheckpoint{
		Iteration: row.Iteration, Name: row.Name, Reason: row.Reason, CreatedAt: timestamppb.New(row.CreatedAt), ExpiresAt: timestamppb.New(row.ExpiresAt),
		BeforeSteps: row.BeforeSteps, Id: row.ID, Phase: row.Phase,
	}
	browser := &deckhandv1.BrowserState{}
	if protojson.Unmarshal(row.Browser, browser) == nil && len(browser.GetPages())+len(browser.GetCookies())+int(browser.GetStoredItems()) > 0 {
		out.Browser = browser
	}
	return out
}

func taskMessageOf(m db.TaskMessage) *deckhandv1.TaskMessage {
	out := &deckhandv1.TaskMessage{Id: m.ID, Text: m.Content, SaidBy: m.SaidBy, CreatedAt: timestamppb.New(m.CreatedAt)}
	out.FromTask, _ = task.OfProgram(m.SaidBy)
	if m.AfterTurn != nil {
		out.AfterTurn = *m.AfterTurn
	}
	return out
}
