package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot/patch"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	defaultEntries = 1000
	maxEntries     = 10_000
	defaultRead    = 1 << 20
	maxRead        = 4 << 20
)

// since returns what was, at a state, at the paths that have changed after it. All other
// paths are as in the newest state.
func (sp *space) since(at *nodev1.StateRef) (map[string]*tree.Entry, error) {
	if want := at.GetRecord(); want != "" && want != sp.state.name {
		return nil, fault.New(fault.NotFound, "the workspace of %s was created again: its earlier states are gone", sp.jailID).WithObject(sp.jailID)
	}
	state := at.GetState()
	if state > sp.state.seq {
		return nil, fault.New(fault.NotFound, "the workspace of %s has states up to %d, not %d", sp.jailID, sp.state.seq, state).WithObject(sp.jailID)
	}
	oldest, err := sp.history.Oldest()
	if err != nil {
		return nil, err
	}
	if state < oldest {
		return nil, sp.forgotten(state, oldest)
	}
	deltas, err := sp.history.Deltas(state, sp.state.seq)
	if err != nil {
		return nil, err
	}
	before := map[string]*tree.Entry{}
	for _, d := range deltas {
		for _, c := range d.Changes {
			if _, known := before[c.Path]; !known {
				before[c.Path] = c.Before
			}
		}
	}
	return before, nil
}

// below returns a path as the record has it: relative, and tree.Root for the workspace.
func below(p []byte) string {
	text := strings.TrimPrefix(strings.TrimPrefix(path.Clean("/"+string(p)), "/workspace"), "/")
	if text == "" {
		return tree.Root
	}
	return text
}

// ListState implements the service.
func (s *Service) ListState(ctx context.Context, req *nodev1.ListStateRequest) (*nodev1.ListStateResponse, error) {
	folder, out := below(req.GetPath()), &nodev1.ListStateResponse{}
	limit := int(req.GetLimit())
	if limit <= 0 {
		limit = defaultEntries
	}
	err := s.about(ctx, req.GetAt().GetJailId(), func(sp *space) error {
		before, err := sp.since(req.GetAt())
		if err != nil {
			return err
		}
		var items []patch.Item
		add := func(name string, e *tree.Entry) {
			inside := name != tree.Root && name != folder && (folder == tree.Root || tree.Below(name, folder))
			if dir, _ := tree.Split(name); inside && e != nil && (req.GetRecursive() || dir == folder) {
				items = append(items, patch.Item{Path: name, Entry: e})
			}
		}
		sp.state.tree.Walk(func(name string, e *tree.Entry) bool {
			if _, changed := before[name]; !changed {
				add(name, e)
			}
			return true
		})
		for name, e := range before {
			add(name, e)
		}
		slices.SortFunc(items, func(a, b patch.Item) int { return strings.Compare(a.Path, b.Path) })
		most := min(limit, maxEntries)
		out.Truncated = len(items) > most
		for _, item := range items[:min(len(items), most)] {
			out.Entries = append(out.Entries, &nodev1.StateEntry{
				Path: []byte(item.Path), State: describeEntry(item.Entry), ModifiedAt: timestamppb.New(time.Unix(0, item.Entry.MTime)),
			})
		}
		return nil
	})
	if err != nil {
		return nil, s.fail("list a state", err)
	}
	return out, nil
}

// ReadState implements the service.
func (s *Service) ReadState(ctx context.Context, req *nodev1.ReadStateRequest) (*nodev1.ReadStateResponse, error) {
	name := below(req.GetPath())
	var entry *tree.Entry
	r, err := s.reading(ctx, req.GetAt().GetJailId(), func(sp *space, _ *reader) error {
		before, err := sp.since(req.GetAt())
		if err != nil {
			return err
		}
		e, changed := before[name]
		if !changed {
			e = sp.state.tree.Get(name)
		}
		entry, err = readable(name, e)
		return err
	})
	if err != nil {
		return nil, s.fail("read a state", err)
	}
	defer r.done()
	out := &nodev1.ReadStateResponse{Size: entry.Size, Digest: describeEntry(entry).GetDigest()}
	if req.GetOffset() >= entry.Size {
		return out, nil
	}
	limit := req.GetLimit()
	if limit == 0 {
		limit = defaultRead
	}
	f, err := r.blobs.OpenContent(entry.Content)
	if err != nil {
		return nil, s.fail("read a state", err)
	}
	defer f.Close()
	out.Content = make([]byte, min(limit, maxRead, entry.Size-req.GetOffset()))
	if n, err := f.ReadAt(out.Content, req.GetOffset()); err != nil && !errors.Is(err, io.EOF) {
		return nil, s.fail("read a state", fmt.Errorf("read %q: %w", name, err))
	} else {
		out.Content = out.Content[:n]
	}
	return out, nil
}

// readable returns the entry of a file whose content is kept, or why there is none to
// read.
func readable(name string, e *tree.Entry) (*tree.Entry, error) {
	switch {
	case e == nil:
		return nil, fault.New(fault.NotFound, "there was no %q in the workspace then", name).WithObject(name)
	case e.Kind != tree.File:
		return nil, fault.New(fault.Invalid, "%q was a %s then, not a file", name, e.Kind).WithFix("list it instead").WithObject(name)
	case e.Unkept != tree.Kept:
		return nil, fault.New(fault.Precondition, "the content of %q is not kept: %s", name, e.Unkept).
			WithFix("read the file as it is now").WithObject(name)
	}
	return e, nil
}
