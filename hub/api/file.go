package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/agent"
	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Files serves FileService.
type Files struct {
	Agents *agent.Service
	Tasks  *task.Service
	// Node answers the live link to a node.
	Node func(nodeID string) (tool.Node, error)
}

// workspace answers where an agent's or a task's workspace is; one of the two
// is named.
func (h *Files) workspace(ctx context.Context, agentRef, taskRef string) (node tool.Node, jailID string, err error) {
	org := auth.From(ctx).OrgID
	var nodeID *string
	var id string
	if taskRef != "" {
		if id, err = h.Tasks.Find(ctx, org, taskRef); err != nil {
			return nil, "", err
		}
		row, err := h.Tasks.Get(ctx, org, id)
		if err != nil {
			return nil, "", err
		}
		nodeID, jailID = row.Task.NodeID, row.Task.JailID
	} else {
		if id, err = h.Agents.Find(ctx, org, agentRef); err != nil {
			return nil, "", err
		}
		row, err := h.Agents.Get(ctx, org, id)
		if err != nil {
			return nil, "", err
		}
		nodeID, jailID = row.Agent.HomeNodeID, task.AgentJail(id)
	}
	if nodeID == nil {
		return nil, "", fault.New(fault.Precondition, "%s has no workspace yet", id).
			WithFix("it is made by the first run; where each task has its own, name the task").WithObject(id)
	}
	node, err = h.Node(*nodeID)
	return node, jailID, err
}

// ReadFile answers a range of a file.
func (h *Files) ReadFile(ctx context.Context, req *connect.Request[deckhandv1.ReadFileRequest]) (*connect.Response[deckhandv1.ReadFileResponse], error) {
	node, jailID, err := h.workspace(ctx, req.Msg.GetAgentId(), req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	res, err := node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{
		JailId: jailID, Path: req.Msg.GetPath(), Offset: req.Msg.GetOffset(), Limit: req.Msg.GetLimit(),
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", req.Msg.GetPath(), fault.FromGRPC(err))
	}
	return connect.NewResponse(&deckhandv1.ReadFileResponse{Content: res.GetContent(), Size: res.GetSize(), Digest: res.GetDigest()}), nil
}

const maxListed = 10_000

// ListFiles answers a folder's entries.
func (h *Files) ListFiles(ctx context.Context, req *connect.Request[deckhandv1.ListFilesRequest]) (*connect.Response[deckhandv1.ListFilesResponse], error) {
	node, jailID, err := h.workspace(ctx, req.Msg.GetAgentId(), req.Msg.GetTaskId())
	if err != nil {
		return nil, err
	}
	res, err := node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{
		JailId: jailID, Path: req.Msg.GetPath(), Recursive: req.Msg.GetRecursive(), Limit: maxListed,
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", req.Msg.GetPath(), fault.FromGRPC(err))
	}
	out := &deckhandv1.ListFilesResponse{Truncated: res.GetTruncated()}
	for _, f := range res.GetFiles() {
		out.Files = append(out.Files, &deckhandv1.FileInfo{
			Path: f.GetPath(), Type: f.GetType(), Size: f.GetSize(), Mode: f.GetMode(), ModifiedAt: f.GetModifiedAt(),
		})
	}
	return connect.NewResponse(out), nil
}
