package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// onlyAdministrators is what others get in place of the diff of a machine's file.
const onlyAdministrators = "only administrators see what a file of a machine contains"

func (h *Workspaces) nameOfNode(ctx context.Context, id string) (string, error) {
	row, err := h.Files.Store.NodeByID(ctx, id)
	if err != nil {
		return "", fmt.Errorf("load node %s: %w", id, err)
	}
	return row.Name, nil
}

// diffOfMachine streams what a task changed in folders of a machine. If the node cannot be asked,
// or the caller may not see contents, it streams the names that are on record.
func (h *Workspaces) diffOfMachine(ctx context.Context, req *deckhandv1.DiffChangesRequest, at changesAt, out *connect.ServerStream[deckhandv1.DiffChangesResponse]) error {
	name, err := h.nameOfNode(ctx, at.nodeID)
	if err != nil {
		return err
	}
	why := onlyAdministrators
	if auth.From(ctx).Role == auth.Admin {
		node, err := h.Files.Node(at.nodeID)
		sent := false
		if err == nil {
			sent, err = h.diffFolders(ctx, req, at, name, node.Snapshots(), out)
		}
		if err == nil || sent || ctx.Err() != nil {
			return err
		}
		why = "its diff cannot be shown: " + maskOf(ctx, h.Files.Redact).String(err.Error())
	}
	seen := map[string]bool{}
	for _, raw := range at.recorded {
		var changes []workspace.Recorded
		if err := json.Unmarshal(raw, &changes); err != nil {
			return fmt.Errorf("read the changes of a machine: %w", err)
		}
		for _, c := range changes {
			if seen[c.Path] || !belowPath(c.Path, req.GetPath()) {
				continue
			}
			seen[c.Path] = true
			if err := out.Send(&deckhandv1.DiffChangesResponse{Change: recordedChange(c), Summary: why, Machine: name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// belowPath reports whether a path is another, or below it; empty has all.
func belowPath(path, of string) bool {
	of = strings.TrimSuffix(of, "/")
	return of == "" || path == of || strings.HasPrefix(path, of+"/")
}

// diffFolders streams the diffs of the folders of a machine, and reports whether it sent any.
func (h *Workspaces) diffFolders(ctx context.Context, req *deckhandv1.DiffChangesRequest, at changesAt, name string, node nodev1.SnapshotServiceClient, out *connect.ServerStream[deckhandv1.DiffChangesResponse]) (sent bool, err error) {
	t, err := h.task(ctx, req.GetTaskId())
	if err != nil {
		return false, err
	}
	folders, err := step.MachineFolders(ctx, h.Steps, t)
	if err != nil {
		return false, err
	}
	mask := maskOf(ctx, h.Files.Redact)
	for _, dir := range folders {
		ask := &nodev1.DiffChangesRequest{JailId: nodelink.HostFolder + dir, Range: at.span, ContextLines: req.GetContextLines()}
		switch path := strings.TrimSuffix(req.GetPath(), "/"); {
		case belowPath(dir, path): // the whole folder
		case belowPath(path, dir):
			ask.Path = []byte(strings.TrimPrefix(path, dir+"/"))
		default:
			continue
		}
		stream, err := node.DiffChanges(ctx, ask)
		if err != nil {
			return sent, fault.FromGRPC(err)
		}
		for {
			one, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return sent, fault.FromGRPC(err)
			}
			one.GetChange().Path = append([]byte(dir+"/"), one.GetChange().GetPath()...)
			unified := withAbsoluteNames(one.GetUnified(), dir)
			mask.Mask(unified)
			if err := out.Send(&deckhandv1.DiffChangesResponse{
				Change: h.change(ctx, one.GetChange()), Unified: unified, Summary: mask.String(one.GetSummary()),
				AddedLines: one.GetAddedLines(), DeletedLines: one.GetDeletedLines(), Machine: name,
			}); err != nil {
				return sent, err
			}
			sent = true
		}
	}
	return sent, nil
}

// withAbsoluteNames puts the folder into the two names with which a unified diff begins.
func withAbsoluteNames(unified []byte, dir string) []byte {
	lines := bytes.SplitAfterN(unified, []byte("\n"), 3)
	for i, line := range lines[:min(len(lines), 2)] {
		for _, side := range []string{"--- ", "+++ "} {
			for _, quote := range []string{"", `"`} {
				for _, of := range []string{"a/", "b/"} {
					if rest, ok := bytes.CutPrefix(line, []byte(side+quote+of)); ok {
						lines[i] = append([]byte(side+quote+of[:1]+dir+"/"), rest...)
					}
				}
			}
		}
	}
	return bytes.Join(lines, nil)
}
