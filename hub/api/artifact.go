package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// place returns a workspace and the task that it belongs to, if any.
func (h *Files) place(ctx context.Context, to purpose, org string, ref *deckhandv1.WorkspaceRef) (artifact.Place, string, error) {
	var t db.Task
	if ref.GetTaskId() != "" {
		id, err := h.Tasks.Find(ctx, viewer(ctx), ref.GetTaskId())
		if err != nil {
			return artifact.Place{}, "", err
		}
		row, err := h.Tasks.Get(ctx, org, id)
		if err != nil {
			return artifact.Place{}, "", err
		}
		t = row.Task
		if err := mayAccess(ctx, h.Agents, t, to); err != nil {
			return artifact.Place{}, "", err
		}
	} else {
		id, err := h.Agents.Find(ctx, viewer(ctx), ref.GetAgentId())
		if err != nil {
			return artifact.Place{}, "", err
		}
		row, err := h.Agents.Get(ctx, org, id)
		if err != nil {
			return artifact.Place{}, "", err
		}
		if err := h.Agents.OwnsWorkspace(ctx, viewer(ctx), row); err != nil {
			return artifact.Place{}, "", err
		}
		if row.Agent.HomeNodeID == nil {
			return artifact.Place{}, "", fault.New(fault.Precondition, "agent %s has no workspace yet", row.Agent.Name).WithObject(id).
				WithFix("it is made by the first run; where each task has its own, name the task")
		}
		t = db.Task{
			OrgID: org, AgentID: id, AgentVersion: row.Agent.CurrentVersion, JailID: task.AgentJail(id), NodeID: row.Agent.HomeNodeID,
		}
	}
	at, err := h.Artifacts.PlaceOf(ctx, t)
	if err != nil {
		return at, "", err
	}
	at, err = h.Artifacts.On(ctx, org, at, ref.GetNodeId())
	return at, t.ID, err
}

// SendFiles copies files from one workspace into another.
func (h *Files) SendFiles(ctx context.Context, req *deckhandv1.SendFilesRequest) (*deckhandv1.SendFilesResponse, error) {
	id := auth.From(ctx)
	from, taskID, err := h.place(ctx, toRead, id.OrgID, req.GetFrom())
	if err != nil {
		return nil, err
	}
	to, _, err := h.place(ctx, toWrite, id.OrgID, req.GetTo())
	if err != nil {
		return nil, err
	}
	c, err := h.Artifacts.Collect(ctx, id.OrgID, taskID, from, req.GetPaths())
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return nil, err
	}
	o := artifact.Options{Folder: req.GetFolder(), Overwrite: req.GetOverwrite(), OperationID: ident.New("upload")}
	sent, err := h.Artifacts.Send(ctx, c, to, o)
	if err != nil {
		return nil, err
	}
	if err := h.Recorder.Tx(context.WithoutCancel(ctx), func(tx *event.Tx) error {
		return h.Artifacts.Done(ctx, tx, c, to, o, sent, actor(id))
	}); err != nil {
		return nil, err
	}
	return &deckhandv1.SendFilesResponse{
		Files: int32(sent.Files), Unchanged: int32(sent.Unchanged), Bytes: sent.Bytes, Skipped: c.Skipped,
	}, nil
}

// shownArtifacts is how many paths of a transfer are answered.
const shownArtifacts = 100

// ListArtifacts returns the files that a task was given by others, and gave to
// them.
func (h *Workspaces) ListArtifacts(ctx context.Context, req *deckhandv1.ListArtifactsRequest) (*deckhandv1.ListArtifactsResponse, error) {
	t, err := h.task(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Files.Artifacts.OfTask(ctx, t.OrgID, t.ID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	out := &deckhandv1.ListArtifactsResponse{NextPageToken: next}
	for _, row := range rows {
		paths, err := artifact.PathsOf(row, shownArtifacts)
		if err != nil {
			return nil, err
		}
		out.Transfers = append(out.Transfers, &deckhandv1.ArtifactTransfer{
			Id: row.ID, FromTaskId: store.Text(row.FromTaskID), ToTaskId: store.Text(row.ToTaskID), FromNodeId: row.FromNodeID, ToNodeId: store.Text(row.ToNodeID),
			Folder: row.Folder, State: row.State, Files: row.Files, Bytes: row.Bytes, Paths: paths, Missing: row.Missing,
			Shared: row.Shared, CreatedBy: row.CreatedBy, CreatedAt: timestamppb.New(row.CreatedAt), FinishedAt: timestamp(row.FinishedAt),
		})
	}
	return out, nil
}

// artifacts returns what stores the files that a new task begins with.
func (h *Tasks) artifacts(ctx context.Context, all []*deckhandv1.TaskArtifacts) (task.WithTask, error) {
	id := auth.From(ctx)
	if len(all) > 0 && !tool.Covers(id.Role, deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE) {
		return nil, fault.New(fault.Denied, "files are copied with the role advanced, and you have the role %s", id.Role).
			WithCode(fault.PermissionDenied).WithFix("submit the task without artifacts, or ask somebody with more rights")
	}
	var found []*artifact.Collection
	for _, one := range all {
		from, err := h.Tasks.Find(ctx, viewer(ctx), one.GetFromTaskId())
		if err != nil {
			return nil, err
		}
		row, err := h.Tasks.Get(ctx, id.OrgID, from)
		if err != nil {
			return nil, err
		}
		if err := mayAccess(ctx, h.Agents, row.Task, toRead); err != nil {
			return nil, err
		}
		place, err := h.Artifacts.PlaceOf(ctx, row.Task)
		if err != nil {
			return nil, err
		}
		c, err := h.Artifacts.Collect(ctx, id.OrgID, from, place, one.GetPaths())
		if err == nil {
			err = c.Complete()
		}
		if err != nil {
			return nil, err
		}
		c.Shared = one.GetShared()
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return func(ctx context.Context, tx *event.Tx, t db.Task) error {
		for i, c := range found {
			folder := "artifacts/" + c.TaskID
			if c.Shared {
				folder = "shared/" + c.TaskID
			}
			folder = cmp.Or(all[i].GetFolder(), folder)
			if err := h.Artifacts.Promise(ctx, tx, c, t, folder, actor(id)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
