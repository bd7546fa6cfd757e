package step

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// undoableTimeout bounds the look at what a call would delete: the task's row is
	// locked meanwhile.
	undoableTimeout = 2 * time.Second
	// maxCounted is how many names are counted of what a call would delete.
	maxCounted = 1000
	// maxKept is the size in bytes up to which nodes keep the content of a file.
	maxKept = 1 << 30
)

// undoable says in a call that deletes files how many those are, and whether a
// snapshot of the workspace can give them back. Where the node cannot say, nobody
// knows: a rule that asks for it does not hold then.
func (s *Steps) undoable(ctx context.Context, t db.Task, c policy.Call) policy.Call {
	record := s.cfg.Tools.Get(c.Tool)
	if c.Tool != "file_delete" || record == nil || !record.Reversible || t.NodeID == nil {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, undoableTimeout)
	defer cancel()
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return c
	}
	path, _ := c.Arguments["path"].(string)
	list, err := node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{JailId: t.JailID, Path: path, Recursive: true, Limit: maxCounted})
	switch err = fault.FromGRPC(err); {
	case fault.Is(err, fault.NotFound):
		c.Undoable, c.AffectedFiles = true, 1 // it deletes nothing
		return c
	case err != nil || list.GetTruncated():
		return c
	}
	n := 0
	for _, f := range list.GetFiles() {
		if f.GetSize() > maxKept {
			return c
		}
		if f.GetType() != "dir" {
			n++
		}
	}
	c.Undoable, c.AffectedFiles = true, max(n, 1)
	return c
}
