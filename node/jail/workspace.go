package jail

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// workspaceOf returns the volume that a jail shows as /workspace.
func (m *Manager) workspaceOf(p paths) volume {
	uid, gid := m.agent()
	return volume{noun: "workspace", dir: p.workspace, image: p.image, mode: 0o700, uid: uid, gid: gid}
}

// ensureWorkspace makes the workspace of a jail, or finds it, mounted, and says whether
// its limit is hard.
func (m *Manager) ensureWorkspace(ctx context.Context, p paths, spec *nodev1.JailSpec) (hard bool, err error) {
	v := m.workspaceOf(p)
	if hard, err = m.ensureVolume(ctx, v, spec.GetWorkspaceBytes()); err != nil {
		return hard, err
	}
	// It may have been another user's, and Git refuses a folder that is.
	uid, gid := m.ownerOf(spec)
	if err := os.Lchown(v.dir, uid, gid); err != nil {
		return hard, fmt.Errorf("give the workspace to the jail's user: %w", err)
	}
	return hard, nil
}

// beginWorkspace begins to make a jail's workspace, or to find it, while its container is
// made. The function that it returns waits for the workspace, and corrects the record if
// its limit is not as the record says; it must be called.
func (m *Manager) beginWorkspace(ctx context.Context, p paths, rec *nodev1.JailRecord) func() error {
	var hard bool
	var work errgroup.Group
	spec := rec.GetSpec()
	work.Go(func() (err error) {
		hard, err = m.ensureWorkspace(ctx, p, spec)
		return err
	})
	return sync.OnceValue(func() error {
		if err := work.Wait(); err != nil || hard == rec.GetWorkspaceLimitHard() {
			return err
		}
		rec.WorkspaceLimitHard = hard
		return m.writeRecord(p.record, rec)
	})
}

// Workspace returns the folder on the host that is a jail's /workspace,
// whether the jail runs or not.
func (m *Manager) Workspace(id string) (string, error) {
	if dir, ok := hostFolder(id); ok {
		if err := m.allowsHost(HostID); err != nil {
			return "", err
		}
		return checkHostFolder(m.cfg.DataDir, dir, "name another folder in host.paths of the persona")
	}
	p, rec, err := m.known(id)
	if err != nil {
		return "", err
	}
	if id == HostID {
		return "", fault.New(fault.Precondition, "host mode has no workspace: it is the whole machine").
			WithFix("read and write files there by commands").WithObject(id)
	}
	if rec.GetWorkspaceLimitHard() {
		e := m.entry(id)
		e.mu.Lock()
		defer e.mu.Unlock()
		if err := m.workspaceOf(p).mount(); err != nil {
			return "", err
		}
	}
	return p.workspace, nil
}

// WorkspaceUse returns how many bytes of a jail's workspace are used, and its
// size; bounded is false for one that is a plain folder, or not mounted.
func (m *Manager) WorkspaceUse(id string) (used, size int64, bounded bool) {
	if !jailID.MatchString(id) {
		return 0, 0, false
	}
	p := m.paths(id)
	if mounted, err := isMountPoint(p.workspace); err != nil || !mounted {
		return 0, 0, false
	}
	var st unix.Statfs_t
	if err := unix.Statfs(p.workspace, &st); err != nil {
		return 0, 0, false
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Blocks) * st.Bsize, true
}

// known returns a jail's paths and record, or that there is no such jail.
func (m *Manager) known(id string) (paths, *nodev1.JailRecord, error) {
	if !jailID.MatchString(id) {
		return paths{}, nil, notFound(id)
	}
	p := m.paths(id)
	rec, err := readRecord(p.record)
	if err != nil {
		return paths{}, nil, err
	}
	if rec == nil {
		return paths{}, nil, notFound(id)
	}
	return p, rec, nil
}

func notFound(id string) error {
	return fault.New(fault.NotFound, "no jail %q on this node", id).WithObject(id)
}
