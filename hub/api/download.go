package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// maxDescribed is how many names a node describes at most.
	maxDescribed = 100_000
	// downloadAtOnce is how many files a node is asked for in one call.
	downloadAtOnce = 1000
)

func downloadEntry(e *nodev1.UploadEntry) *deckhandv1.UploadEntry {
	return &deckhandv1.UploadEntry{
		Path: e.GetPath(), Type: e.GetType(), Mode: e.GetMode(), Size: e.GetSize(), Digest: e.GetDigest(), ModifiedAt: e.GetModifiedAt(),
		Target: e.GetTarget(), Offset: e.GetOffset(),
	}
}

// DescribeFiles returns what is at paths, with digests.
func (h *Files) DescribeFiles(ctx context.Context, req *deckhandv1.DescribeFilesRequest, out *connect.ServerStream[deckhandv1.DescribeFilesResponse]) error {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return err
	}
	stream, err := node.Files().DescribeFiles(ctx, &nodev1.DescribeFilesRequest{
		JailId: jailID, Paths: req.GetPaths(), Exact: req.GetExact(), MaxFiles: maxDescribed, MaxBytes: math.MaxInt64,
	})
	if err != nil {
		return fmt.Errorf("describe files: %w", fault.FromGRPC(err))
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("describe files: %w", fault.FromGRPC(err))
		}
		told := &deckhandv1.DescribeFilesResponse{Missing: m.GetMissing(), Skipped: m.GetSkipped()}
		for _, e := range m.GetEntries() {
			told.Entries = append(told.Entries, downloadEntry(e))
		}
		if err := out.Send(told); err != nil {
			return err
		}
	}
}

// DownloadFiles passes files on from the node, message by message.
func (h *Files) DownloadFiles(ctx context.Context, req *deckhandv1.DownloadFilesRequest, out *connect.ServerStream[deckhandv1.DownloadFilesResponse]) error {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return err
	}
	entries := req.GetEntries()
	var bytes int64
	for _, e := range entries {
		bytes += max(0, e.GetSize()-e.GetOffset())
	}
	id := auth.From(ctx)
	// Nothing in it is masked: who took it is on record before it leaves.
	if err := h.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "workspace.downloaded", ObjectKind: "jail", ObjectID: jailID,
			After: map[string]any{"first": entries[0].GetPath(), "files": len(entries), "bytes": bytes},
		})
	}); err != nil {
		return err
	}
	for part := range slices.Chunk(entries, downloadAtOnce) {
		if err := download(ctx, node, jailID, part, out); err != nil {
			return err
		}
	}
	return nil
}

func download(ctx context.Context, node machine.Link, jailID string, entries []*deckhandv1.UploadEntry, out *connect.ServerStream[deckhandv1.DownloadFilesResponse]) error {
	ask := &nodev1.DownloadFilesRequest{JailId: jailID}
	for _, e := range entries {
		ask.Entries = append(ask.Entries, uploadEntry(e))
	}
	stream, err := node.Files().DownloadFiles(ctx, ask)
	if err != nil {
		return fmt.Errorf("download: %w", fault.FromGRPC(err))
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("download: %w", fault.FromGRPC(err))
		}
		piece := &deckhandv1.DownloadFilesResponse{Message: &deckhandv1.DownloadFilesResponse_Data{Data: m.GetData()}}
		if m.GetEntry() != nil {
			piece.Message = &deckhandv1.DownloadFilesResponse_Entry{Entry: downloadEntry(m.GetEntry())}
		}
		if err := out.Send(piece); err != nil {
			return err
		}
	}
}
