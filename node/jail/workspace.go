package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The size limit of a workspace is enforced by making it a file system of that
// size, in a sparse file that is loop-mounted: it uses only the disk space that
// is written. If the machine does not support that, the workspace is a plain
// folder, and the jail reports that its limit is not hard.

// ensureWorkspace makes the workspace of a jail, or finds it, mounted, and
// says whether its limit is hard. Once made it stays what it is.
func (m *Manager) ensureWorkspace(ctx context.Context, p paths, size int64) (hard bool, err error) {
	_, err = os.Stat(p.image)
	switch {
	case err == nil:
		return true, m.mountWorkspace(p)
	case !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("find the workspace: %w", err)
	case m.hardWorkspaces && !isDir(p.workspace):
		if err := m.makeImage(ctx, p.image, size); err != nil {
			return false, err
		}
		err := m.mountWorkspace(p)
		if err == nil {
			return true, nil
		}
		// Without loop devices, for example in a container: a plain folder then.
		if rerr := os.Remove(p.image); rerr != nil {
			return false, errors.Join(err, rerr)
		}
		m.cfg.Log.Warn("a workspace's limit is not hard", "workspace", p.workspace, "cause", err)
	}
	if err := os.MkdirAll(p.workspace, 0o700); err != nil {
		return false, fmt.Errorf("make the workspace: %w", err)
	}
	uid, gid := m.Owner()
	if err := os.Chown(p.workspace, uid, gid); err != nil {
		return false, fmt.Errorf("make the workspace: %w", err)
	}
	return false, nil
}

// makeImage makes a sparse file with an empty ext4 in it.
func (m *Manager) makeImage(ctx context.Context, path string, size int64) (err error) {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make the workspace's image: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	err = f.Truncate(size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("make the workspace's image: %w", err)
	}
	uid, gid := m.Owner()
	// Reserve nothing, because there is no root in a jail. Initialise lazily,
	// so that the file stays sparse.
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0",
		"-O", "^resize_inode", "-E", fmt.Sprintf("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=%d:%d", uid, gid),
		temp).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the workspace's file system: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("make the workspace's image: %w", err)
	}
	return nil
}

// mountWorkspace mounts the image unless it is mounted.
func (m *Manager) mountWorkspace(p paths) error {
	mounted, err := isMountPoint(p.workspace)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(p.workspace, 0o700); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	img := mount.Mount{Type: "ext4", Source: p.image, Options: []string{"loop", "nosuid", "nodev", "noatime", "noinit_itable"}}
	if err := img.Mount(p.workspace); err != nil {
		return fmt.Errorf("mount the workspace: %w", err)
	}
	// An agent that lists its workspace looks for its own files only.
	if err := os.Remove(filepath.Join(p.workspace, "lost+found")); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("clear the new workspace: %w", err)
	}
	if err := os.Chmod(p.workspace, 0o700); err != nil {
		return fmt.Errorf("mount the workspace: %w", err)
	}
	return nil
}

// removeWorkspace deletes a workspace with all that is in it.
func (m *Manager) removeWorkspace(p paths) error {
	mounted, err := isMountPoint(p.workspace)
	if err != nil {
		return err
	}
	if mounted {
		if err := mount.UnmountAll(p.workspace, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the workspace: %w", err)
		}
	}
	if err := os.RemoveAll(p.workspace); err != nil {
		return fmt.Errorf("delete the workspace: %w", err)
	}
	return nil
}

// isMountPoint reports whether something is mounted on a folder.
func isMountPoint(dir string) (bool, error) {
	var at, above unix.Stat_t
	if err := unix.Lstat(dir, &at); errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, fmt.Errorf("look at %s: %w", filepath.Dir(dir), err)
	}
	return at.Dev != above.Dev, nil
}

// Workspace returns the folder on the host that is a jail's /workspace,
// whether the jail runs or not.
func (m *Manager) Workspace(id string) (string, error) {
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
		if err := m.mountWorkspace(p); err != nil {
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
