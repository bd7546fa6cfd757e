package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// after returns the state of a task's workspace in which a step of it left it, and the
// link to the node that keeps that state.
func (h *Files) after(ctx context.Context, taskRef, stepRef string) (machine.Link, *nodev1.StateRef, error) {
	if taskRef == "" {
		return nil, nil, fault.New(fault.Invalid, "step_id is given without task_id").WithFix("name the task that the step is of")
	}
	org := auth.From(ctx).OrgID
	taskID, err := h.Tasks.Find(ctx, viewer(ctx), taskRef)
	if err != nil {
		return nil, nil, err
	}
	row, err := h.Tasks.Get(ctx, org, taskID)
	if err != nil {
		return nil, nil, err
	}
	id, err := h.Steps.Find(ctx, viewer(ctx), stepRef)
	if err != nil {
		return nil, nil, err
	}
	one, err := h.Steps.Get(ctx, org, id)
	if err != nil {
		return nil, nil, err
	}
	if one.TaskID != taskID {
		return nil, nil, fault.New(fault.NotFound, "task %s has no step %q", taskID, stepRef).WithObject(stepRef)
	}
	at, err := h.Changes.After(ctx, row.Task, one.Number)
	if err != nil {
		return nil, nil, err
	}
	if at == nil {
		return nil, nil, fault.New(fault.Precondition, "no step of %s recorded the state of its workspace", taskID).
			WithFix("look at the files as they are now").WithObject(taskID)
	}
	link, err := h.Node(at.NodeID)
	return link, &nodev1.StateRef{JailId: at.JailID, Record: at.Record, State: at.State}, err
}

// pastErr is the error of a node that could not read a state.
func pastErr(doing string, err error) error {
	if status.Code(err) == codes.Unimplemented {
		return fault.New(fault.Precondition, "the node cannot read earlier states: its deckhand-node is too old").
			WithCode(fault.NodeUnavailable).WithFix("update deckhand-node there, or look at the files as they are now")
	}
	return fmt.Errorf("%s: %w", doing, fault.FromGRPC(err))
}

// readAfter returns a range of a file as it was after a step.
func (h *Files) readAfter(ctx context.Context, req *deckhandv1.ReadFileRequest) (*deckhandv1.ReadFileResponse, error) {
	node, at, err := h.after(ctx, req.GetTaskId(), req.GetStepId())
	if err != nil {
		return nil, err
	}
	from, most, cut := maskedWindow(maskOf(ctx, h.Redact), req.GetOffset(), req.GetLimit())
	res, err := node.Snapshots().ReadState(ctx, &nodev1.ReadStateRequest{At: at, Path: []byte(req.GetPath()), Offset: from, Limit: most})
	if err != nil {
		return nil, pastErr("read "+req.GetPath(), err)
	}
	return &deckhandv1.ReadFileResponse{
		Content: cut(res.GetContent()), Size: res.GetSize(), Digest: res.GetDigest(), State: at.GetState(),
	}, nil
}

// listAfter returns a folder's entries as they were after a step.
func (h *Files) listAfter(ctx context.Context, req *deckhandv1.ListFilesRequest) (*deckhandv1.ListFilesResponse, error) {
	node, at, err := h.after(ctx, req.GetTaskId(), req.GetStepId())
	if err != nil {
		return nil, err
	}
	res, err := node.Snapshots().ListState(ctx, &nodev1.ListStateRequest{
		At: at, Path: []byte(req.GetPath()), Recursive: req.GetRecursive(), Limit: maxListed,
	})
	if err != nil {
		return nil, pastErr("list "+req.GetPath(), err)
	}
	var all []*deckhandv1.FileInfo
	for _, e := range res.GetEntries() {
		shown := workspace.Describe(&nodev1.FileChange{Path: e.GetPath()}, maskOf(ctx, h.Redact))
		kind := e.GetState().GetType()
		if kind != "file" && kind != "dir" && kind != "symlink" {
			kind = "other"
		}
		all = append(all, &deckhandv1.FileInfo{
			Path: shown.Path, Type: kind, Size: e.GetState().GetSize(), Mode: e.GetState().GetMode(), ModifiedAt: e.GetModifiedAt(),
		})
	}
	files, next, err := filesPage(all, req)
	return &deckhandv1.ListFilesResponse{Files: files, Truncated: res.GetTruncated(), State: at.GetState(), NextPageToken: next}, err
}
