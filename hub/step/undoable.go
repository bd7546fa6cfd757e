package step

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// maxCounted is the highest number of files that are counted for one deletion.
	maxCounted = 1000
	// maxKept is the size in bytes up to which nodes keep the content of a file in
	// snapshots.
	maxKept = 1 << 30
)

// undoable adds to a call that deletes files how many files it deletes and whether a
// snapshot of the workspace can restore them. If the node cannot be asked, both stay
// unknown, and a rule that depends on them does not match.
func (s *Steps) undoable(ctx context.Context, t db.Task, l *looks, c policy.Call) (policy.Call, error) {
	record := s.cfg.Tools.Get(c.Tool)
	if c.Tool != toolname.FileDelete || record == nil || !record.Reversible || t.NodeID == nil {
		return c, nil
	}
	path, _ := c.Arguments["path"].(string)
	at := lookedAt{jail: t.JailID, path: path}
	look := func(ctx context.Context) {
		l.within(ctx, func(ctx context.Context) { l.noteUndoable(at, s.deletes(ctx, t, path)) })
	}
	if _, ok := l.undoable[at]; !ok && l.ask {
		look(ctx)
	} else if !ok {
		if err := l.later(look); err != nil {
			return c, err
		}
	}
	c.Undoable, c.AffectedFiles = l.undoable[at].undoable, l.undoable[at].files
	return c, nil
}

// deletes asks the node what deleting a path would remove.
func (s *Steps) deletes(ctx context.Context, t db.Task, path string) undone {
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return undone{}
	}
	list, err := node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{JailId: t.JailID, Path: path, Recursive: true, Limit: maxCounted})
	switch err = fault.FromGRPC(err); {
	case fault.Is(err, fault.NotFound):
		return undone{undoable: true, files: 1} // it deletes nothing
	case err != nil || list.GetTruncated():
		return undone{}
	}
	n := 0
	for _, f := range list.GetFiles() {
		if f.GetSize() > maxKept {
			return undone{}
		}
		if f.GetType() != "dir" {
			n++
		}
	}
	return undone{undoable: true, files: max(n, 1)}
}
