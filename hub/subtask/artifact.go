package subtask

import (
	"context"
	"path"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// mount is where a jail sees its workspace.
const mount = "/workspace"

// artifacts answers what has the target begin with the files that a manifest
// names, and makes the manifest's working_dir the folder that the target finds
// them in. Those that are not there, since the run deleted them, are left out. A
// manifest that names no files means its folder, where that is not the whole
// workspace.
func (s *Service) artifacts(ctx context.Context, t db.Task, m *tool.Manifest) (task.WithTask, *fault.Error, error) {
	dir := below(m.Artifacts.WorkingDir)
	named := m.Artifacts.FilesChanged
	if len(named) == 0 && dir != "" {
		named = []string{dir}
	}
	if len(named) == 0 || t.NodeID == nil {
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
	folder := path.Join("handoff", m.HandoffID)
	m.Artifacts.WorkingDir = path.Join(mount, folder, dir)
	return func(ctx context.Context, tx *event.Tx, to db.Task) error {
		return s.cfg.Artifacts.Promise(ctx, tx, c, to, folder, event.Hub)
	}, nil, nil
}

// below answers a folder relative to the workspace; empty for the workspace
// itself, or for one that is not in it.
func below(dir string) string {
	dir = path.Clean(strings.TrimPrefix(strings.TrimPrefix(dir, mount), "/"))
	if dir == "." || dir == ".." || strings.HasPrefix(dir, "../") {
		return ""
	}
	return dir
}
