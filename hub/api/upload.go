package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"connectrpc.com/connect"
	"github.com/zeebo/blake3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func uploadEntry(e *deckhandv1.UploadEntry) *nodev1.UploadEntry {
	return &nodev1.UploadEntry{
		Path: e.GetPath(), Type: e.GetType(), Mode: e.GetMode(), Size: e.GetSize(), Digest: e.GetDigest(), ModifiedAt: e.GetModifiedAt(),
		Target: e.GetTarget(), Offset: e.GetOffset(),
	}
}

// CompareFiles returns which of some files an upload has to send.
func (h *Files) CompareFiles(ctx context.Context, req *deckhandv1.CompareFilesRequest) (*deckhandv1.CompareFilesResponse, error) {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return nil, err
	}
	ask := &nodev1.CompareFilesRequest{JailId: jailID, Path: req.GetPath()}
	for _, e := range req.GetEntries() {
		ask.Entries = append(ask.Entries, uploadEntry(e))
	}
	res, err := node.Files().CompareFiles(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("compare files: %w", fault.FromGRPC(err))
	}
	return &deckhandv1.CompareFilesResponse{SendFrom: res.GetSendFrom()}, nil
}

// UploadFiles passes a tree on to the node, message by message.
func (h *Files) UploadFiles(ctx context.Context, in *connect.ClientStream[deckhandv1.UploadFilesRequest]) (*deckhandv1.UploadFilesResponse, error) {
	if !in.Receive() {
		if in.Err() != nil {
			return nil, in.Err()
		}
		return nil, fault.New(fault.Invalid, "the upload is empty").WithFix("begin with begin")
	}
	begin := in.Msg().GetBegin()
	if begin == nil {
		return nil, fault.New(fault.Invalid, "the upload does not begin with begin").WithFix("name the workspace first")
	}
	node, jailID, err := h.workspace(ctx, toWrite, begin.GetAgentId(), begin.GetTaskId(), begin.GetJail())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	operation := ident.New("upload")
	out, err := beginUpload(ctx, node, jailID, begin.GetPath(), operation)
	if err != nil {
		return nil, err
	}
	for err == nil && in.Receive() {
		m := &nodev1.UploadFilesRequest{}
		switch {
		case in.Msg().GetEntry() != nil:
			m.Message = &nodev1.UploadFilesRequest_Entry{Entry: uploadEntry(in.Msg().GetEntry())}
		case in.Msg().GetBegin() != nil:
			return nil, fault.New(fault.Invalid, "the upload begins twice").WithFix("send entries and data after begin")
		default:
			m.Message = &nodev1.UploadFilesRequest_Data{Data: in.Msg().GetData()}
		}
		err = out.Send(m)
	}
	if in.Err() != nil {
		return nil, in.Err() // what was sent of a file is kept
	}
	res, err := h.endUpload(ctx, out, err, jailID, begin.GetPath(), operation)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UploadFilesResponse{
		Files: res.GetFiles(), Bytes: res.GetBytes(), Changed: res.GetWorkspace().GetFiles(),
	}, nil
}

// uploadMode are the permission bits of a file that a browser sends.
const uploadMode = 0o644

// uploadPiece is how much of a file one message to a node has, in bytes.
const uploadPiece = 1 << 20

// WriteFile uploads one file.
func (h *Files) WriteFile(ctx context.Context, req *deckhandv1.WriteFileRequest) (*deckhandv1.WriteFileResponse, error) {
	m := req
	node, jailID, err := h.workspace(ctx, toWrite, m.GetAgentId(), m.GetTaskId(), m.GetJail())
	if err != nil {
		return nil, err
	}
	if err := h.Store.Touch(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	operation := ident.New("upload")
	out, err := beginUpload(ctx, node, jailID, "", operation)
	if err != nil {
		return nil, err
	}
	digest := blake3.Sum256(m.GetContent())
	err = out.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: &nodev1.UploadEntry{
		Path: m.GetPath(), Type: "file", Mode: uploadMode, Size: int64(len(m.GetContent())), Digest: hex.EncodeToString(digest[:]), ModifiedAt: timestamppb.Now(),
	}}})
	for piece := range slices.Chunk(m.GetContent(), uploadPiece) {
		if err != nil {
			break
		}
		err = out.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: piece}})
	}
	res, err := h.endUpload(ctx, out, err, jailID, m.GetPath(), operation)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.WriteFileResponse{Changed: res.GetWorkspace().GetFiles()}, nil
}

type uploadStream = grpc.ClientStreamingClient[nodev1.UploadFilesRequest, nodev1.UploadFilesResponse]

// beginUpload opens the stream of an upload into a folder of a jail's workspace.
func beginUpload(ctx context.Context, node machine.Link, jailID, path, operation string) (uploadStream, error) {
	out, err := node.Files().UploadFiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("upload: %w", fault.FromGRPC(err))
	}
	if err := out.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{Begin: &nodev1.UploadFilesRequest_Begin{
		JailId: jailID, Path: path, OperationId: operation,
	}}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("upload: %w", fault.FromGRPC(err))
	}
	return out, nil
}

// endUpload waits until the node has all of an upload, and audits it. sent is the error of
// the last message.
func (h *Files) endUpload(ctx context.Context, out uploadStream, sent error, jailID, path, operation string) (*nodev1.UploadFilesResponse, error) {
	// The response has the cause of an error of Send.
	res, err := out.CloseAndRecv()
	if err != nil {
		return nil, fmt.Errorf("upload: %w", fault.FromGRPC(err))
	}
	if sent != nil && !errors.Is(sent, io.EOF) {
		return nil, fmt.Errorf("upload: %w", fault.FromGRPC(sent))
	}
	id := auth.From(ctx)
	return res, h.Recorder.Tx(context.WithoutCancel(ctx), func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: id.OrgID, By: actor(id), Action: "workspace.uploaded", ObjectKind: "jail", ObjectID: jailID,
			After: map[string]any{"path": path, "files": res.GetFiles(), "bytes": res.GetBytes(), "operation_id": operation},
		})
	})
}

// WatchFiles reports changes below a folder as they happen.
func (h *Files) WatchFiles(ctx context.Context, req *deckhandv1.WatchFilesRequest, out *connect.ServerStream[deckhandv1.WatchFilesResponse]) error {
	node, jailID, err := h.workspace(ctx, toRead, req.GetAgentId(), req.GetTaskId(), req.GetJail())
	if err != nil {
		return err
	}
	stream, err := node.Files().WatchFiles(ctx, &nodev1.WatchFilesRequest{JailId: jailID, Path: req.GetPath()})
	if err != nil {
		return fmt.Errorf("watch: %w", fault.FromGRPC(err))
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch: %w", fault.FromGRPC(err))
		}
		told := &deckhandv1.WatchFilesResponse{Overflow: m.GetOverflow()}
		for _, e := range m.GetEvents() {
			told.Events = append(told.Events, &deckhandv1.FileEvent{Path: maskOf(ctx, h.Redact).String(e.GetPath()), What: e.GetWhat()})
		}
		if err := out.Send(told); err != nil {
			return err
		}
	}
}
