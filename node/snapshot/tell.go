package snapshot

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot/blob"
	"github.com/deckhand-sh/deckhand/node/snapshot/patch"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// defaultContext is how many lines are shown around a change.
const defaultContext = 3

// reader contains what a stream needs of a space after it has released its
// lock: while it reads, no content is deleted.
type reader struct {
	changes []tree.Change
	items   []patch.Item
	blobs   *blob.Store
	done    func()
}

// reading calls find under the workspace's lock and keeps its contents until
// done.
func (s *Service) reading(ctx context.Context, jailID string, find func(sp *space, r *reader) error) (*reader, error) {
	r := &reader{}
	err := s.about(ctx, jailID, func(sp *space) error {
		if err := find(sp, r); err != nil {
			return err
		}
		r.blobs = sp.blobs
		sp.readers.Add(1)
		r.done = func() { sp.readers.Add(-1) }
		return nil
	})
	return r, err
}

// DiffChanges implements the service.
func (s *Service) DiffChanges(req *nodev1.DiffChangesRequest, out grpc.ServerStreamingServer[nodev1.DiffChangesResponse]) error {
	r, err := s.reading(out.Context(), req.GetJailId(), func(sp *space, r *reader) (err error) {
		r.changes, err = sp.changes(req.GetRange(), string(req.GetPath()))
		return err
	})
	if err != nil {
		return s.fail("compare changes", err)
	}
	defer r.done()
	lines := int(req.GetContextLines())
	if lines == 0 {
		lines = defaultContext
	}
	for _, c := range r.changes {
		d, err := patch.Tell(c, r.blobs, lines)
		if err != nil {
			return s.fail("compare changes", err)
		}
		if err := out.Send(&nodev1.DiffChangesResponse{
			Change: describeChange(c), Unified: []byte(d.Unified), Summary: d.Summary,
			AddedLines: int32(d.Added), DeletedLines: int32(d.Deleted),
		}); err != nil {
			return err
		}
	}
	return nil
}

// pieceBytes is how much of an export travels at once.
const pieceBytes = 256 << 10

// ExportWorkspace implements the service.
func (s *Service) ExportWorkspace(req *nodev1.ExportWorkspaceRequest, out grpc.ServerStreamingServer[nodev1.ExportWorkspaceResponse]) error {
	asPatch := req.GetFormat() == nodev1.ExportFormat_EXPORT_FORMAT_GIT_PATCH
	if asPatch && req.GetRange() == nil {
		return s.fail("export", fault.New(fault.Invalid, "a patch is of changes, and range is empty").WithFix("name steps or states, or ask for a tar"))
	}
	r, err := s.reading(out.Context(), req.GetJailId(), func(sp *space, r *reader) error { return sp.export(out.Context(), req, r) })
	if err != nil {
		return s.fail("export a workspace", err)
	}
	defer r.done()
	w := bufio.NewWriterSize(pieces{out}, pieceBytes)
	var left []string
	if asPatch {
		left, err = patch.Git(w, r.changes, r.blobs)
	} else {
		left, err = patch.Tar(w, r.items, r.blobs)
	}
	if err == nil && len(left) > 0 {
		err = fault.New(fault.Precondition, "%d files are not in it: %s", len(left), strings.Join(left[:min(len(left), 10)], "; ")).
			WithFix("the rest of the output is complete")
	}
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if err != nil {
		return s.fail("export a workspace", err)
	}
	return nil
}

// export finds what is to be written: changes, or what is there.
func (sp *space) export(ctx context.Context, req *nodev1.ExportWorkspaceRequest, r *reader) (err error) {
	below := string(req.GetPath())
	if req.GetRange() != nil {
		if r.changes, err = sp.changes(req.GetRange(), below); err != nil {
			return err
		}
		for _, c := range r.changes {
			r.items = append(r.items, patch.Item{Path: c.Path, Entry: c.After})
		}
		return nil
	}
	if !sp.state.clean {
		if _, err := sp.look(ctx, false); err != nil {
			return err
		}
	}
	sp.state.tree.Walk(func(path string, e *tree.Entry) bool {
		if below == "" || tree.Below(path, below) {
			r.items = append(r.items, patch.Item{Path: path, Entry: e})
		}
		return true
	})
	if below != "" && len(r.items) == 0 {
		return fault.New(fault.NotFound, "there is no %q in the workspace", below)
	}
	return nil
}

// pieces sends what is written.
type pieces struct {
	out grpc.ServerStreamingServer[nodev1.ExportWorkspaceResponse]
}

var _ io.Writer = pieces{}

func (p pieces) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), pieceBytes)
		if err := p.out.Send(&nodev1.ExportWorkspaceResponse{Data: rest[:n]}); err != nil {
			return 0, fmt.Errorf("send an export: %w", err)
		}
		rest = rest[n:]
	}
	return len(b), nil
}
