package snapshot

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// fail is the edge: what is not for callers' eyes is logged here.
func (s *Service) fail(doing string, err error) error {
	if fault.As(err) == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}

// about calls fn for a jail that has a workspace.
func (s *Service) about(ctx context.Context, jailID string, fn func(*space) error) error {
	folder := strings.HasPrefix(jailID, nodelink.HostFolder) // Jails checks its path
	if noWorkspace(jailID) || jailID == "" || !folder && strings.ContainsAny(jailID, "/\x00") {
		return fault.New(fault.NotFound, "jail %q has no workspace", jailID).WithObject(jailID)
	}
	return s.with(ctx, jailID, fn)
}

// TakeSnapshot implements the service.
func (s *Service) TakeSnapshot(ctx context.Context, req *nodev1.TakeSnapshotRequest) (*nodev1.TakeSnapshotResponse, error) {
	out := &nodev1.TakeSnapshotResponse{}
	err := s.about(ctx, req.GetJailId(), func(sp *space) error {
		if err := sp.ready(ctx); err != nil {
			return err
		}
		out.Snapshot, out.Entries, out.Record = sp.state.seq, int32(sp.state.tree.Len()), sp.state.name
		return nil
	})
	if err != nil {
		return nil, s.fail("take a snapshot", err)
	}
	return out, nil
}

const (
	defaultList = 100
	maxList     = 1000
)

// ListSnapshots implements the service.
func (s *Service) ListSnapshots(ctx context.Context, req *nodev1.ListSnapshotsRequest) (*nodev1.ListSnapshotsResponse, error) {
	out := &nodev1.ListSnapshotsResponse{}
	err := s.about(ctx, req.GetJailId(), func(sp *space) error {
		limit := int(req.GetLimit())
		if limit <= 0 {
			limit = defaultList
		}
		deltas, err := sp.history.Newest(req.GetBefore(), min(limit, maxList))
		for _, d := range deltas {
			out.Snapshots = append(out.Snapshots, &nodev1.Snapshot{
				Snapshot: d.Seq, Time: timestamppb.New(time.Unix(0, d.Time)), By: d.By, Undoes: d.Undoes, Files: int32(len(d.Changes)),
			})
		}
		return err
	})
	if err != nil {
		return nil, s.fail("list the snapshots", err)
	}
	return out, nil
}

// changes returns what a range changed, below a path; empty for all.
func (sp *space) changes(r *nodev1.ChangeRange, below string) ([]tree.Change, error) {
	chosen, err := sp.choose(r)
	if err != nil {
		return nil, err
	}
	all := tree.Compose(chosen.chosen())
	if below == "" || below == tree.Root {
		return all, nil
	}
	var out []tree.Change
	for _, c := range all {
		if tree.Below(c.Path, below) {
			out = append(out, c)
		}
	}
	return out, nil
}

// GetChanges implements the service.
func (s *Service) GetChanges(ctx context.Context, req *nodev1.GetChangesRequest) (*nodev1.GetChangesResponse, error) {
	out := &nodev1.GetChangesResponse{}
	err := s.about(ctx, req.GetJailId(), func(sp *space) error {
		all, err := sp.changes(req.GetRange(), "")
		if err != nil {
			return err
		}
		out.Files = int32(len(all))
		written := int32(0)
		for _, c := range all {
			if c.After == nil || c.After.Kind != tree.File || c.After.Link != "" || kindOf(c) == nodev1.ChangeKind_CHANGE_KIND_METADATA {
				continue
			}
			if written++; c.After.Size > out.GetLargestBytes() {
				out.LargestBytes, out.LargestPath = c.After.Size, []byte(c.Path)
			}
		}
		out.Written = &written
		limit := int(req.GetLimit())
		if limit <= 0 {
			limit = maxList
		}
		for _, c := range all {
			if len(req.GetAfter()) > 0 && c.Path <= string(req.GetAfter()) {
				continue
			}
			if len(out.Changes) == min(limit, maxChanges) {
				out.Truncated = true
				break
			}
			out.Changes = append(out.Changes, describeChange(c))
		}
		return nil
	})
	if err != nil {
		return nil, s.fail("find changes", err)
	}
	return out, nil
}

// UndoChanges implements the service.
func (s *Service) UndoChanges(ctx context.Context, req *nodev1.UndoChangesRequest) (*nodev1.UndoChangesResponse, error) {
	var out *nodev1.UndoChangesResponse
	err := s.about(ctx, req.GetJailId(), func(sp *space) (err error) {
		out, err = sp.undo(ctx, req)
		return err
	})
	if err != nil {
		return nil, s.fail("undo changes", err)
	}
	return out, nil
}
