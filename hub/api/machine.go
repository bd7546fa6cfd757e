package api

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Machines serves MachineService. What may be seen is decided on the node, by its operator's
// configuration.
type Machines struct {
	Nodes    *node.Nodes
	Recorder *event.Recorder
	Redact   *redact.Redactor
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
}

// link returns the link to a node that can show its machine.
func (h *Machines) link(ctx context.Context, ref string) (machine.Link, string, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Nodes.Find(ctx, org, ref)
	if err != nil {
		return nil, "", err
	}
	row, err := h.Nodes.Get(ctx, org, id)
	if err != nil {
		return nil, "", err
	}
	if err := node.Require(row.Node, nodelink.Browsing, "show its machine"); err != nil {
		return nil, "", err
	}
	link, err := h.Node(id)
	return link, id, err
}

// record audits that the caller reads something of a machine, before it leaves.
func (h *Machines) record(ctx context.Context, nodeID, action string, what map[string]any) error {
	id := auth.From(ctx)
	return h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: action, ObjectKind: "node", ObjectID: nodeID, After: what,
		})
	})
}

// failed returns the error of a look at a machine, and audits it if the node refused: an operator
// wants to know who tried what is not to be seen.
func (h *Machines) failed(ctx context.Context, nodeID string, what map[string]any, err error) error {
	if !fault.Is(err, fault.Denied) {
		return err
	}
	what["reason"] = fault.As(err).Message
	if failed := h.record(ctx, nodeID, "node.look_refused", what); failed != nil {
		return failed
	}
	return err
}

// GetMachine returns what a machine is, and what its operator shows of it.
func (h *Machines) GetMachine(ctx context.Context, req *deckhandv1.GetMachineRequest) (*deckhandv1.GetMachineResponse, error) {
	link, _, err := h.link(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	res, err := link.Node().GetMachine(ctx, &nodev1.GetMachineRequest{})
	if err != nil {
		return nil, fmt.Errorf("look at the machine: %w", fault.FromGRPC(err))
	}
	m := res.GetMachine()
	return &deckhandv1.GetMachineResponse{
		Os: m.GetOs(), Kernel: m.GetKernel(), Architecture: m.GetArchitecture(), Systemd: m.GetSystemd(),
		JournalUnits: m.GetJournalUnits(), Folders: m.GetBrowsePaths(),
	}, nil
}

// ReadJournal returns entries of the daemon's own log or of a unit's journal.
func (h *Machines) ReadJournal(ctx context.Context, req *deckhandv1.ReadJournalRequest) (*deckhandv1.ReadJournalResponse, error) {
	link, id, err := h.link(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	res, err := link.Node().ReadJournal(ctx, &nodev1.ReadJournalRequest{
		Unit: req.GetUnit(), Since: req.GetSince(), Until: req.GetUntil(), Grep: req.GetGrep(), Lines: req.GetPageSize(), Before: req.GetPageToken(),
	})
	if err != nil {
		return nil, h.failed(ctx, id, map[string]any{"unit": req.GetUnit(), "grep": req.GetGrep()}, fmt.Errorf("read the journal: %w", fault.FromGRPC(err)))
	}
	if err := h.record(ctx, id, "node.journal_read", map[string]any{"unit": req.GetUnit(), "grep": req.GetGrep(), "entries": len(res.GetEntries())}); err != nil {
		return nil, err
	}
	mask := maskOf(ctx, h.Redact)
	out := &deckhandv1.ReadJournalResponse{}
	if res.GetMore() {
		out.NextPageToken = res.GetNextCursor()
	}
	for _, e := range res.GetEntries() {
		entry := &deckhandv1.JournalEntry{Cursor: e.GetCursor(), Time: e.GetTime(), Message: mask.String(e.GetMessage()), Cut: e.GetCut()}
		for key, value := range e.GetFields() {
			if entry.Fields == nil {
				entry.Fields = map[string]string{}
			}
			entry.Fields[key] = mask.String(value)
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

// ListMachineFiles returns the entries of a folder of a machine.
func (h *Machines) ListMachineFiles(ctx context.Context, req *deckhandv1.ListMachineFilesRequest) (*deckhandv1.ListMachineFilesResponse, error) {
	link, id, err := h.link(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	res, err := link.Files().ListFiles(ctx, &nodev1.ListFilesRequest{JailId: nodelink.BrowsedFiles, Path: req.GetPath(), Limit: maxListed})
	if err != nil {
		return nil, h.failed(ctx, id, map[string]any{"path": req.GetPath()}, fmt.Errorf("list %s: %w", req.GetPath(), fault.FromGRPC(err)))
	}
	if err := h.record(ctx, id, "node.folder_listed", map[string]any{"path": req.GetPath()}); err != nil {
		return nil, err
	}
	files, next, err := filesPage(fileInfos(res), req)
	return &deckhandv1.ListMachineFilesResponse{Files: files, Truncated: res.GetTruncated(), NextPageToken: next}, err
}

// ReadMachineFile returns a range of a file of a machine.
func (h *Machines) ReadMachineFile(ctx context.Context, req *deckhandv1.ReadMachineFileRequest) (*deckhandv1.ReadMachineFileResponse, error) {
	link, id, err := h.link(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	from, most, cut := maskedWindow(maskOf(ctx, h.Redact), req.GetOffset(), req.GetLimit())
	res, err := link.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: nodelink.BrowsedFiles, Path: req.GetPath(), Offset: from, Limit: most})
	if err != nil {
		return nil, h.failed(ctx, id, map[string]any{"path": req.GetPath()}, fmt.Errorf("read %s: %w", req.GetPath(), fault.FromGRPC(err)))
	}
	content := cut(res.GetContent())
	if err := h.record(ctx, id, "node.file_read", map[string]any{"path": req.GetPath(), "offset": req.GetOffset(), "bytes": len(content), "sha256": res.GetDigest()}); err != nil {
		return nil, err
	}
	return &deckhandv1.ReadMachineFileResponse{Content: content, Size: res.GetSize()}, nil
}
