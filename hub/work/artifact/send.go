package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Options control how a collection is copied into a workspace.
type Options struct {
	// Folder of the target that it goes into, its paths kept; empty for the
	// workspace itself.
	Folder string
	// Overwrite replaces files that are there with another content.
	Overwrite bool
	// OperationID names the change of the target's workspace.
	OperationID string
}

// Sent is the result of a transfer.
type Sent struct {
	Files, Unchanged int
	Bytes            int64
	// Workspace is what it changed at the target; nil when nothing was to be sent.
	Workspace *nodev1.WorkspaceChange
}

// compareFrom is the size from which a file that broke off is gone on with.
const compareFrom = 1 << 20

// Send copies a collection into a workspace, whose jail is created if it does not exist.
// If files are in the way, nothing is copied.
func (a *Artifacts) Send(ctx context.Context, c *Collection, to Place, o Options) (Sent, error) {
	var sent Sent
	folder, err := cleanFolder(o.Folder)
	if err != nil {
		return sent, err
	}
	if to.NodeID == c.From.NodeID && to.Jail.GetJailId() == c.From.Jail.GetJailId() && folder == "" {
		return sent, fault.New(fault.Invalid, "source and target are the same workspace").WithFix("name another agent, task, node or folder")
	}
	source, err := a.node(ctx, c.From.NodeID, nodelink.Artifacts, giveFiles)
	if err != nil {
		return sent, err
	}
	needs, todo := int32(nodelink.Artifacts), "take files from other workspaces"
	if c.Shared {
		needs, todo = nodelink.Shares, "share files for reading only"
	}
	target, err := a.node(ctx, to.NodeID, needs, todo)
	if err != nil {
		return sent, err
	}
	if c.Shared && folder == "" {
		return sent, fault.New(fault.Invalid, "the workspace itself cannot be shared").WithFix("name a folder for what is shared")
	}
	if _, err := target.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: to.Jail}); err != nil {
		return sent, fmt.Errorf("make jail %s: %w", to.Jail.GetJailId(), fault.FromGRPC(err))
	}
	wanted, err := a.toSend(ctx, c, target, to, folder, o.Overwrite)
	if err != nil {
		return sent, err
	}
	if all, _ := c.Files(); len(wanted) < len(c.Entries) {
		left, _ := (&Collection{Entries: wanted}).Files()
		sent.Unchanged = all - left
	}
	if len(wanted) == 0 {
		return sent, nil
	}
	if err := resume(ctx, target, to.Jail.GetJailId(), folder, wanted); err != nil {
		return sent, err
	}
	res, err := carry(ctx, source, target, c.From.Jail.GetJailId(), &nodev1.UploadFilesRequest_Begin{
		JailId: to.Jail.GetJailId(), Path: folder, OperationId: o.OperationID, Shared: c.Shared,
	}, wanted)
	if err != nil {
		return sent, err
	}
	sent.Files, sent.Bytes, sent.Workspace = int(res.GetFiles()), res.GetBytes(), res.GetWorkspace()
	return sent, nil
}

func cleanFolder(folder string) (string, error) {
	folder = strings.TrimPrefix(strings.TrimPrefix(folder, "/workspace"), "/")
	clean := path.Clean(folder)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fault.New(fault.Denied, "folder %q leads out of the workspace", folder).WithCode(fault.SandboxViolation).
			WithFix("name a folder below /workspace")
	}
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

// toSend returns the files that are not at the target yet, each with what it may replace.
func (a *Artifacts) toSend(ctx context.Context, c *Collection, target machine.Link, to Place, folder string, overwrite bool) ([]*nodev1.UploadEntry, error) {
	there, err := at(ctx, target, to.Jail.GetJailId(), folder, c.Entries)
	if err != nil {
		return nil, err
	}
	before, err := a.before(ctx, c.OrgID, to)
	if err != nil {
		return nil, err
	}
	var out []*nodev1.UploadEntry
	var conflicts []string
	for _, e := range c.Entries {
		have := there[e.GetPath()]
		// What is shared is put there again: what has its content may not be shared.
		if !c.Shared && alike(have, e) && (have.GetMode() == e.GetMode() || e.GetType() == "symlink") {
			continue
		}
		e = proto.CloneOf(e)
		e.Offset = 0
		switch {
		case e.GetType() == "dir" && (have == nil || have.GetType() == "dir"):
		case e.GetType() == "dir", have.GetType() == "dir":
			conflicts = append(conflicts, path.Join(folder, e.GetPath()))
		case have == nil:
			e.ExpectDigest = "absent"
		case alike(have, e), overwrite, have.GetDigest() != "" && have.GetDigest() == before[path.Join(folder, e.GetPath())]:
			e.ExpectDigest = have.GetDigest() // nothing for a link
		default:
			conflicts = append(conflicts, path.Join(folder, e.GetPath()))
		}
		out = append(out, e)
	}
	if len(conflicts) > 0 {
		return nil, fault.New(fault.Aborted, "there is something else at %s in the target workspace; nothing was copied", some(conflicts)).
			WithCode(fault.FileConflict).WithFix("look at both and merge them, copy into another folder, or overwrite what is there")
	}
	return out, nil
}

// before returns the digests of the files that were last copied into a workspace, by
// path: a file that still has this digest was not edited.
func (a *Artifacts) before(ctx context.Context, orgID string, to Place) (map[string]string, error) {
	rows, err := a.cfg.Store.LastArtifactsAt(ctx, db.LastArtifactsAtParams{OrgID: orgID, ToNodeID: &to.NodeID, ToJailID: to.Jail.GetJailId()})
	if err != nil {
		return nil, fmt.Errorf("find what was copied to %s before: %w", to.Jail.GetJailId(), err)
	}
	out := map[string]string{}
	for _, row := range rows {
		entries, err := decode(row.Entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := path.Join(row.Folder, e.GetPath())
			if _, newer := out[name]; !newer {
				out[name] = e.GetDigest()
			}
		}
	}
	return out, nil
}

// resume continues large files where an earlier transfer was interrupted.
func resume(ctx context.Context, target machine.Link, jailID, folder string, entries []*nodev1.UploadEntry) error {
	var large []*nodev1.UploadEntry
	for _, e := range entries {
		if e.GetType() == "file" && e.GetSize() >= compareFrom {
			large = append(large, e)
		}
	}
	for part := range slices.Chunk(large, 1000) {
		res, err := target.Files().CompareFiles(ctx, &nodev1.CompareFilesRequest{JailId: jailID, Path: folder, Entries: part})
		if err != nil {
			return fmt.Errorf("compare files: %w", fault.FromGRPC(err))
		}
		for i, from := range res.GetSendFrom() {
			part[i].Offset = max(0, from)
		}
	}
	return nil
}

// carry streams contents from one node to the other.
func carry(ctx context.Context, source, target machine.Link, from string, begin *nodev1.UploadFilesRequest_Begin, entries []*nodev1.UploadEntry) (*nodev1.UploadFilesResponse, error) {
	to := begin.GetJailId()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := target.Files().UploadFiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("copy files to %s: %w", to, fault.FromGRPC(err))
	}
	err = out.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{Begin: begin}})
	var files []*nodev1.UploadEntry
	for _, e := range entries {
		if e.GetType() == "file" {
			files = append(files, e)
			continue
		}
		if err == nil {
			err = out.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: e}})
		}
	}
	for part := range slices.Chunk(files, 1000) {
		if err == nil {
			err = pass(ctx, source, from, part, out.Send)
		}
	}
	// An error of the source takes precedence over the error that it causes at the
	// target.
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("copy files from %s: %w", from, fault.FromGRPC(err))
	}
	res, err := out.CloseAndRecv()
	if err != nil {
		return nil, fmt.Errorf("copy files to %s: %w", to, fault.FromGRPC(err))
	}
	return res, nil
}

// pass reads files from their node and sends them on.
func pass(ctx context.Context, source machine.Link, jailID string, files []*nodev1.UploadEntry, send func(*nodev1.UploadFilesRequest) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := source.Files().DownloadFiles(ctx, &nodev1.DownloadFilesRequest{JailId: jailID, Entries: files})
	if err != nil {
		return err
	}
	next := 0
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			if next < len(files) {
				return fault.New(fault.Internal, "of %d files the node sent %d", len(files), next)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if m.GetEntry() == nil {
			err = send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: m.GetData()}})
		} else if next == len(files) {
			return fault.New(fault.Internal, "the node sent more files than it was asked for")
		} else {
			// The requested entry, whatever the node reports it to be.
			err = send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: files[next]}})
			next++
		}
		if err != nil {
			return err
		}
	}
}

func encode(entries []*nodev1.UploadEntry) (json.RawMessage, error) {
	data, err := protojson.Marshal(&nodev1.DescribeFilesResponse{Entries: entries})
	if err != nil {
		return nil, fmt.Errorf("encode artifacts: %w", err)
	}
	return data, nil
}

func decode(data json.RawMessage) ([]*nodev1.UploadEntry, error) {
	var out nodev1.DescribeFilesResponse
	if err := protojson.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	return out.GetEntries(), nil
}
