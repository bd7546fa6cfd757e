package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Workspaces serves WorkspaceService.
type Workspaces struct {
	// Files finds workspaces.
	Files    *Files
	Steps    *step.Steps
	Tools    *tool.Registry
	Changes  *workspace.Workspaces
	Execs    *nodeexec.Execs
	Recorder *event.Recorder
}

func (h *Workspaces) task(ctx context.Context, ref string) (db.Task, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Files.Tasks.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return db.Task{}, err
	}
	row, err := h.Files.Tasks.Get(ctx, org, id)
	return row.Task, err
}

// steps returns whole ids of a task's steps and jobs.
func (h *Workspaces) steps(ctx context.Context, t db.Task, refs []string) ([]string, error) {
	var out []string
	for _, ref := range refs {
		if nodelink.IsJobID(ref) {
			out = append(out, ref) // in full
			continue
		}
		id, err := h.Steps.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return nil, err
		}
		one, err := h.Steps.Get(ctx, t.OrgID, id)
		if err != nil {
			return nil, err
		}
		if one.TaskID != t.ID {
			return nil, fault.New(fault.NotFound, "task %s has no step %q", t.ID, ref).WithObject(ref)
		}
		out = append(out, id)
	}
	return out, nil
}

// ListChanges returns which files each step of a task changed.
func (h *Workspaces) ListChanges(ctx context.Context, req *deckhandv1.ListChangesRequest) (*deckhandv1.ListChangesResponse, error) {
	t, err := h.task(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	after, err := store.ParseNumberToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.GetPageSize(), listPage)
	// A page ends with a step: what its job changed is on the same one.
	rows, span, err := h.Changes.ChangesAfter(ctx, t, after, size+2)
	if err != nil {
		return nil, err
	}
	out := &deckhandv1.ListChangesResponse{}
	if end := int(size); len(rows) > end {
		if rows[end].Number == rows[end-1].Number {
			end++
		}
		if len(rows) > end {
			out.NextPageToken = store.NumberToken(rows[end-1].Number)
		}
		rows = rows[:end]
	}
	out.UndoUntil, out.UndoLeft = left(span)
	for _, row := range rows {
		one := &deckhandv1.StepChanges{
			StepId: row.StepChange.StepID, JobId: row.StepChange.JobID, Number: row.Number, Tool: row.Tool, Files: row.StepChange.Files,
			SharedWith: row.StepChange.SharedWith, Unkept: row.StepChange.Unkept,
			UndoneAt: timestamp(row.StepChange.UndoneAt), FinishedAt: timestamp(cmp.Or(row.JobEndedAt, row.FinishedAt)),
		}
		if row.StepChange.UndoID != nil {
			one.UndoId = *row.StepChange.UndoID
		}
		if workspace.OnMachine(row.StepChange) {
			if one.Machine, err = h.nameOfNode(ctx, row.StepChange.NodeID); err != nil {
				return nil, err
			}
		}
		var changes []workspace.Recorded
		if err := json.Unmarshal(row.StepChange.Changes, &changes); err != nil {
			return nil, fmt.Errorf("read the changes of %s: %w", one.GetStepId(), err)
		}
		for _, c := range changes {
			one.Changes = append(one.Changes, recordedChange(c))
		}
		out.Steps = append(out.Steps, one)
	}
	return out, nil
}

func left(span workspace.Span) (*timestamppb.Timestamp, *durationpb.Duration) {
	if span.Until.IsZero() {
		return nil, nil
	}
	return timestamppb.New(span.Until), durationpb.New(span.Left)
}

func recordedChange(c workspace.Recorded) *deckhandv1.FileChange {
	return &deckhandv1.FileChange{
		Path: c.Path, Quoted: c.Quoted, Kind: deckhandv1.ChangeKind(c.Kind), Before: fileState(c.Before), After: fileState(c.After),
	}
}

func fileState(s *workspace.State) *deckhandv1.FileState {
	if s == nil {
		return nil
	}
	return &deckhandv1.FileState{Type: s.Type, Mode: s.Mode, Size: s.Size, Digest: s.Digest, Unkept: s.Unkept}
}

func (h *Workspaces) change(ctx context.Context, c *nodev1.FileChange) *deckhandv1.FileChange {
	return recordedChange(workspace.Describe(c, maskOf(ctx, h.Files.Redact)))
}

// changesAt are changes of a task in one workspace, or in the folders of one machine.
type changesAt struct {
	nodeID, jailID string
	span           *nodev1.ChangeRange
	// recorded are the changes of a machine, as they were stored.
	recorded []json.RawMessage
}

func (c *changesAt) onMachine() bool { return c.jailID == nodelink.HostJail }

// changesOf returns a task's changes, or those of some of its steps, by the
// workspace that they are in; the task's own comes first, and those of machines last.
func (h *Workspaces) changesOf(ctx context.Context, taskRef string, stepRefs []string) (out []changesAt, err error) {
	t, err := h.task(ctx, taskRef)
	if err != nil {
		return nil, err
	}
	ids, err := h.steps(ctx, t, stepRefs)
	if err != nil {
		return nil, err
	}
	rows, _, err := h.Changes.Changes(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		c := row.StepChange
		if len(ids) > 0 && !slices.Contains(ids, workspace.MadeBy(c)) {
			continue
		}
		at := slices.IndexFunc(out, func(a changesAt) bool { return a.nodeID == c.NodeID && a.jailID == c.JailID })
		if at < 0 {
			at = len(out)
			out = append(out, changesAt{nodeID: c.NodeID, jailID: c.JailID, span: &nodev1.ChangeRange{}})
		}
		out[at].span.By = append(out[at].span.By, c.ChangeID)
		if workspace.OnMachine(c) {
			out[at].recorded = append(out[at].recorded, c.Changes)
		}
	}
	slices.SortStableFunc(out, func(a, b changesAt) int {
		own := func(c changesAt) int {
			switch {
			case c.onMachine():
				return 2
			case t.NodeID != nil && c.nodeID == *t.NodeID:
				return 0
			}
			return 1
		}
		return own(a) - own(b)
	})
	return out, nil
}

// DiffChanges streams a task's changes.
func (h *Workspaces) DiffChanges(ctx context.Context, req *deckhandv1.DiffChangesRequest, out *connect.ServerStream[deckhandv1.DiffChangesResponse]) error {
	all, err := h.changesOf(ctx, req.GetTaskId(), req.GetStepIds())
	for _, one := range all {
		switch {
		case err != nil:
		case one.onMachine():
			err = h.diffOfMachine(ctx, req, one, out)
		default:
			err = h.diff(ctx, req, one, out)
		}
	}
	return err
}

func (h *Workspaces) diff(ctx context.Context, req *deckhandv1.DiffChangesRequest, at changesAt, out *connect.ServerStream[deckhandv1.DiffChangesResponse]) error {
	node, err := h.Files.Node(at.nodeID)
	if err != nil {
		return err
	}
	stream, err := node.Snapshots().DiffChanges(ctx, &nodev1.DiffChangesRequest{
		JailId: at.jailID, Range: at.span, Path: []byte(req.GetPath()), ContextLines: req.GetContextLines(),
	})
	if err != nil {
		return fmt.Errorf("compare the changes of %s: %w", req.GetTaskId(), fault.FromGRPC(err))
	}
	for {
		one, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("compare the changes of %s: %w", req.GetTaskId(), fault.FromGRPC(err))
		}
		maskOf(ctx, h.Files.Redact).Mask(one.GetUnified())
		if err := out.Send(&deckhandv1.DiffChangesResponse{
			Change: h.change(ctx, one.GetChange()), Unified: one.GetUnified(), Summary: maskOf(ctx, h.Files.Redact).String(one.GetSummary()),
			AddedLines: one.GetAddedLines(), DeletedLines: one.GetDeletedLines(),
		}); err != nil {
			return err
		}
	}
}

// maxUndone is how many paths an undo's answer has.
const maxUndone = 1000

// UndoChanges restores the files as they were before some steps of a task.
func (h *Workspaces) UndoChanges(ctx context.Context, req *deckhandv1.UndoChangesRequest) (*deckhandv1.UndoChangesResponse, error) {
	t, err := h.task(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := own(auth.From(ctx), t); err != nil {
		return nil, err
	}
	ids, err := h.steps(ctx, t, req.GetStepIds())
	if err != nil {
		return nil, err
	}
	ask := workspace.Request{
		Task: t, StepIDs: ids, Last: int(req.GetLast()), OnConflict: nodev1.OnConflict(req.GetOnConflict()),
		Preview: req.GetPreview(), ExpectState: req.GetExpectState(), Paths: req.GetPaths(), By: actor(auth.From(ctx)),
	}
	done, onMachine, err := h.undoOnMachine(ctx, ask)
	if err == nil && !onMachine {
		done, err = h.Changes.Undo(ctx, ask)
	}
	if err != nil {
		return nil, err
	}
	return h.undone(ctx, done), nil
}

// undoOnMachine undoes what a named step changed on a machine itself; false if it changed files
// of its workspace. Only administrators change machines.
func (h *Workspaces) undoOnMachine(ctx context.Context, ask workspace.Request) (done workspace.UndoResult, onMachine bool, err error) {
	for _, id := range ask.StepIDs {
		if nodelink.IsJobID(id) {
			continue
		}
		one, err := h.Steps.Get(ctx, ask.Task.OrgID, id)
		if err != nil {
			return done, false, err
		}
		change, found, err := step.MachineChange(ctx, h.Steps, ask.Task, one)
		if err != nil {
			return done, false, err
		}
		if !found {
			continue
		}
		switch {
		case auth.From(ctx).Role != auth.Admin:
			return done, true, fault.New(fault.Denied, "step %s changed a machine itself, and only administrators undo that", id).
				WithCode(fault.PermissionDenied).WithObject(id).WithFix("ask an administrator")
		case len(ask.StepIDs) > 1:
			return done, true, fault.New(fault.Invalid, "step %s changed a machine itself, which is undone one step at a time", id).WithObject(id).
				WithFix("name this step only")
		}
		done, err := h.Changes.UndoOnMachine(ctx, ask, one, change)
		return done, true, err
	}
	return done, false, nil
}

// UndoNodeExec restores the files as they were before a person's command.
func (h *Workspaces) UndoNodeExec(ctx context.Context, req *deckhandv1.UndoNodeExecRequest) (*deckhandv1.UndoNodeExecResponse, error) {
	by := auth.From(ctx)
	id, err := h.Execs.Find(ctx, viewer(ctx), req.GetExecId())
	if err != nil {
		return nil, err
	}
	row, err := h.Execs.Get(ctx, by.OrgID, id)
	if err != nil {
		return nil, err
	}
	done, err := h.Changes.UndoExec(ctx, workspace.ExecRequest{
		Exec: row.NodeExec, OnConflict: nodev1.OnConflict(req.GetOnConflict()), Preview: req.GetPreview(),
		ExpectState: req.GetExpectState(), By: actor(by),
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UndoNodeExecResponse{Undo: h.undone(ctx, done)}, nil
}

// undone returns the result of an undo as a message.
func (h *Workspaces) undone(ctx context.Context, done workspace.UndoResult) *deckhandv1.UndoChangesResponse {
	res := done.Node
	out := &deckhandv1.UndoChangesResponse{
		Applied: res.GetApplied(), UndoId: done.ID, StepIds: done.StepIDs, Files: res.GetFiles(), State: res.GetSnapshot(),
		OriginalDigest: res.GetOriginalDigest(), RestoredDigest: res.GetRestoredDigest(), SharedWith: res.GetSharedWith(), Running: res.GetRunning(),
	}
	for _, s := range done.Irreversible {
		out.Irreversible = append(out.Irreversible, &deckhandv1.IrreversibleStep{
			StepId: s.ID, Number: s.Number, Tool: s.Tool, Why: h.Tools.Get(s.Tool).Irreversible,
		})
	}
	out.UndoUntil, out.UndoLeft = left(done.Span)
	for _, c := range res.GetChanges()[:min(len(res.GetChanges()), maxUndone)] {
		out.Changes = append(out.Changes, h.change(ctx, c))
	}
	out.Conflicts = conflictMessages(res.GetConflicts(), maskOf(ctx, h.Files.Redact))
	return out
}

// conflictMessages returns the first of some conflicts.
func conflictMessages(conflicts []*nodev1.UndoConflict, mask *redact.Redactor) (out []*deckhandv1.UndoConflict) {
	for _, c := range conflicts[:min(len(conflicts), maxUndone)] {
		shown := workspace.Describe(&nodev1.FileChange{Path: c.GetPath()}, mask)
		out = append(out, &deckhandv1.UndoConflict{
			Path: shown.Path, Reason: c.GetReason(), Message: mask.String(c.GetMessage()), Later: c.GetLater(),
		})
	}
	return out
}

// ExportWorkspace streams a workspace, or a task's changes.
func (h *Workspaces) ExportWorkspace(ctx context.Context, req *deckhandv1.ExportWorkspaceRequest, out *connect.ServerStream[deckhandv1.ExportWorkspaceResponse]) error {
	m := req
	format := nodev1.ExportFormat(m.GetFormat())
	ask := &nodev1.ExportWorkspaceRequest{Format: format, Path: []byte(m.GetPath())}
	var node machine.Link
	var err error
	object, kind := m.GetTaskId(), "task"
	switch {
	case m.GetTaskId() != "" && (m.GetChangesOnly() || format == nodev1.ExportFormat_EXPORT_FORMAT_GIT_PATCH):
		var all []changesAt
		all, err = h.changesOf(ctx, m.GetTaskId(), nil)
		all = slices.DeleteFunc(all, func(c changesAt) bool { return c.onMachine() })
		if err == nil && len(all) == 0 {
			return nil // nothing was changed
		}
		if err == nil {
			// A file belongs to one workspace.
			ask.JailId, ask.Range = all[0].jailID, all[0].span
			node, err = h.Files.Node(all[0].nodeID)
		}
	case m.GetChangesOnly() || format == nodev1.ExportFormat_EXPORT_FORMAT_GIT_PATCH:
		return fault.New(fault.Invalid, "changes are a task's, and task_id is empty").WithFix("name the task whose changes you want")
	default:
		if m.GetAgentId() != "" {
			object, kind = m.GetAgentId(), "agent"
		}
		node, ask.JailId, err = h.Files.workspace(ctx, toRead, m.GetAgentId(), m.GetTaskId(), nil)
	}
	if err != nil {
		return err
	}
	id := auth.From(ctx)
	// Nothing in it is masked: who took it is on record before it leaves.
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "workspace.exported", ObjectKind: kind, ObjectID: object,
			After: map[string]any{"format": format.String(), "path": m.GetPath(), "changes_only": ask.GetRange() != nil},
		})
	}); err != nil {
		return err
	}
	stream, err := node.Snapshots().ExportWorkspace(ctx, ask)
	if err != nil {
		return fmt.Errorf("export: %w", fault.FromGRPC(err))
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("export: %w", fault.FromGRPC(err))
		}
		if err := out.Send(&deckhandv1.ExportWorkspaceResponse{Data: piece.GetData()}); err != nil {
			return err
		}
	}
}
