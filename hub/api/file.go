package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Files serves FileService.
type Files struct {
	// Store records that a call with an idempotency key changes something.
	Store  *store.Store
	Agents *agent.Service
	Tasks  *task.Service
	Nodes  *node.Nodes
	Redact *redact.Redactor
	// Recorder stores who uploaded what.
	Recorder *event.Recorder
	Steps    *step.Steps
	// Changes finds what the workspace of a task was like after a step.
	Changes *workspace.Workspaces
	// Artifacts copies files from one workspace into another.
	Artifacts *artifact.Artifacts
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
}

// purpose is what a call wants of a workspace.
type purpose int

const (
	toRead purpose = iota
	toWrite
)

// mayAccess refuses callers who may not read, or write, the workspace of a task that they
// see. Commands in it write.
func mayAccess(ctx context.Context, agents *agent.Service, t db.Task, to purpose) error {
	if to == toWrite {
		return agents.ChangesTask(ctx, viewer(ctx), t)
	}
	return agents.ReadsWorkspace(ctx, viewer(ctx), t)
}

// workspace returns the node and jail of the workspace of an agent, a task or a jail;
// exactly one of the three is named.
func (h *Files) workspace(ctx context.Context, to purpose, agentRef, taskRef string, jail *deckhandv1.JailRef) (node machine.Link, jailID string, err error) {
	org := auth.From(ctx).OrgID
	if jail != nil {
		return h.jail(ctx, org, jail)
	}
	var nodeID *string
	var id string
	if taskRef != "" {
		if id, err = h.Tasks.Find(ctx, viewer(ctx), taskRef); err != nil {
			return nil, "", err
		}
		row, err := h.Tasks.Get(ctx, org, id)
		if err != nil {
			return nil, "", err
		}
		if err := mayAccess(ctx, h.Agents, row.Task, to); err != nil {
			return nil, "", err
		}
		nodeID, jailID = row.Task.NodeID, row.Task.JailID
	} else {
		if id, err = h.Agents.Find(ctx, viewer(ctx), agentRef); err != nil {
			return nil, "", err
		}
		row, err := h.Agents.Get(ctx, org, id)
		if err != nil {
			return nil, "", err
		}
		if err := h.Agents.OwnsWorkspace(ctx, viewer(ctx), row); err != nil {
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

// jail returns a jail's node. A node and all its jails belong to one organisation.
func (h *Files) jail(ctx context.Context, org string, ref *deckhandv1.JailRef) (machine.Link, string, error) {
	nodeID, err := h.Nodes.Find(ctx, org, ref.GetNodeId())
	if err != nil {
		return nil, "", err
	}
	if ref.GetJailId() == nodelink.HostJail {
		return nil, "", fault.New(fault.Denied, "the machine's own files are not shown here").WithCode(fault.PermissionDenied).
			WithFix("look at them with a command: deckhand node exec %s --host -- cat FILE", ref.GetNodeId())
	}
	if !viewer(ctx).All {
		return nil, "", fault.New(fault.Denied, "a jail is looked into by its number by administrators only").WithCode(fault.PermissionDenied).
			WithFix("name a task or an agent of yours")
	}
	link, err := h.Node(nodeID)
	return link, ref.GetJailId(), err
}

const (
	// readBytes is how much of a file is answered unless more is asked for.
	readBytes = 1 << 20
	// mostRead is the most that a node returns at once.
	mostRead = 4 << 20
)

// ReadFile returns a range of a file. Secrets in it are masked with as many
// bytes as they have, also those that begin before the range or end behind it:
// so much more is read.
func (h *Files) ReadFile(ctx context.Context, req *deckhandv1.ReadFileRequest) (*deckhandv1.ReadFileResponse, error) {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return nil, err
	}
	if req.GetStepId() != "" {
		return h.readAfter(ctx, req)
	}
	from, most, cut := maskedWindow(maskOf(ctx, h.Redact), req.GetOffset(), req.GetLimit())
	res, err := node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: jailID, Path: req.GetPath(), Offset: from, Limit: most})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", req.GetPath(), fault.FromGRPC(err))
	}
	return &deckhandv1.ReadFileResponse{Content: cut(res.GetContent()), Size: res.GetSize(), Digest: res.GetDigest()}, nil
}

// maskedWindow returns which range of a file is to be read for a requested one, and what makes
// the requested range of it, with secrets masked. A limit of 0 is readBytes.
func maskedWindow(mask *redact.Redactor, offset, limit int64) (from, most int64, cut func([]byte) []byte) {
	limit = min(cmp.Or(limit, readBytes), mostRead-2*redact.MaskReach)
	lead := min(offset, redact.MaskReach)
	return offset - lead, lead + limit + redact.MaskReach, func(content []byte) []byte {
		mask.Mask(content)
		content = content[min(lead, int64(len(content))):]
		return content[:min(limit, int64(len(content)))]
	}
}

const maxListed = 10_000

// ListFiles returns a folder's entries.
func (h *Files) ListFiles(ctx context.Context, req *deckhandv1.ListFilesRequest) (*deckhandv1.ListFilesResponse, error) {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return nil, err
	}
	if req.GetStepId() != "" {
		return h.listAfter(ctx, req)
	}
	res, err := node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{
		JailId: jailID, Path: req.GetPath(), Recursive: req.GetRecursive(), Limit: maxListed,
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", req.GetPath(), fault.FromGRPC(err))
	}
	files, next, err := filesPage(fileInfos(res), req)
	return &deckhandv1.ListFilesResponse{Files: files, Truncated: res.GetTruncated(), NextPageToken: next}, err
}

func fileInfos(res *nodev1.ListFilesResponse) (out []*deckhandv1.FileInfo) {
	for _, f := range res.GetFiles() {
		out = append(out, &deckhandv1.FileInfo{
			Path: f.GetPath(), Type: f.GetType(), Size: f.GetSize(), Mode: f.GetMode(), ModifiedAt: f.GetModifiedAt(),
		})
	}
	return out
}

// filesPage returns a page of the entries of a folder, and the token of the next: a folder,
// then what is in it, by name.
func filesPage(all []*deckhandv1.FileInfo, req interface {
	GetPageSize() int32
	GetPageToken() string
}) ([]*deckhandv1.FileInfo, string, error) {
	key := func(f *deckhandv1.FileInfo) string { return strings.ReplaceAll(f.GetPath(), "/", "\x01") }
	slices.SortFunc(all, func(a, b *deckhandv1.FileInfo) int { return strings.Compare(key(a), key(b)) })
	return store.PageOf(all, cmp.Or(req.GetPageSize(), maxListed), req.GetPageToken(), key)
}
