package subtask

import (
	"context"
	"path"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/workpath"
)

// artifacts returns a function that promises the target the files that a manifest names,
// and updates the manifest with where the target finds them: copies in its working_dir,
// and read-only files in its shared_dir. Files that the run has deleted are left out. A
// manifest that names no files stands for its folder, unless that is the whole workspace.
func (s *Service) artifacts(ctx context.Context, t db.Task, m *tool.Manifest) (task.WithTask, *fault.Error, error) {
	dir := below(m.Artifacts.WorkingDir)
	copied, shared := m.Artifacts.FilesChanged, m.Artifacts.FilesShared
	if len(copied) == 0 && len(shared) == 0 && dir != "" {
		copied = []string{dir}
	}
	if t.NodeID == nil {
		return nil, nil, nil
	}
	var with []*artifact.Collection
	var folders []string
	for _, one := range []struct {
		named  []string
		shared bool
	}{{shared, true}, {copied, false}} {
		c, refused, err := s.collect(ctx, t, dir, one.named)
		if err != nil || refused != nil {
			return nil, refused, err
		}
		if c != nil && len(with) > 0 {
			c.Without(with[0])
		}
		if c == nil || len(c.Entries) == 0 {
			continue
		}
		c.Shared = one.shared
		folder := path.Join("handoff", m.HandoffID)
		if c.Shared {
			folder = path.Join("shared", m.HandoffID)
			m.Artifacts.SharedDir = path.Join(workpath.Mount, folder)
		}
		// What was copied is what the target works on.
		m.Artifacts.WorkingDir = path.Join(workpath.Mount, folder, dir)
		with, folders = append(with, c), append(folders, folder)
	}
	if len(with) == 0 {
		return nil, nil, nil
	}
	return func(ctx context.Context, tx *event.Tx, to db.Task) error {
		for i, c := range with {
			if err := s.cfg.Artifacts.Promise(ctx, tx, c, to, folders[i], event.Hub); err != nil {
				return err
			}
		}
		return nil
	}, nil, nil
}

// collect describes the files that names of a manifest match; nil for none.
func (s *Service) collect(ctx context.Context, t db.Task, dir string, named []string) (*artifact.Collection, *fault.Error, error) {
	if len(named) == 0 {
		return nil, nil, nil
	}
	place, err := s.cfg.Artifacts.PlaceOf(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	// Agents write them as they see them: from the workspace, or from the folder
	// that they work in.
	all := named
	for _, name := range named {
		if dir != "" && !path.IsAbs(name) {
			all = append(all[:len(all):len(all)], path.Join(dir, name))
		}
	}
	c, err := s.cfg.Artifacts.Collect(ctx, t.OrgID, t.ID, place, all)
	if e := fault.As(err); e != nil && (e.Kind == fault.Denied || e.Kind == fault.Invalid || e.Kind == fault.Exhausted || e.Kind == fault.Precondition) {
		return nil, e, nil
	}
	if err != nil || len(c.Entries) == 0 {
		return nil, nil, err
	}
	return c, nil, nil
}

// below returns a folder relative to the workspace; empty for the workspace
// itself, or for one that is not in it.
func below(dir string) string {
	dir = workpath.Rel(dir)
	if dir == "." || workpath.Outside(dir) {
		return ""
	}
	return dir
}
