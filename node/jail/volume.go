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
)

// volume is a folder of a jail that its commands write to. If the machine supports
// it, the folder is a file system of its size, in a sparse file that is loop-mounted:
// it uses only the disk space that is written. Otherwise it is a plain folder, and the
// jail reports that its limit is not hard.
type volume struct {
	noun     string // what it is, for errors
	dir      string // where it is mounted, or the folder
	image    string // the file
	mode     os.FileMode
	uid, gid int
}

// ensureVolume makes a volume, or finds it, mounted, and says whether its limit is hard.
// Once made it stays what it is.
func (m *Manager) ensureVolume(ctx context.Context, v volume, size int64) (hard bool, err error) {
	_, err = os.Stat(v.image)
	switch {
	case err == nil:
		return true, v.mount()
	case !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("find the %s: %w", v.noun, err)
	case m.hardWorkspaces && !isDir(v.dir):
		if err := v.format(ctx, size); err != nil {
			return false, err
		}
		err := v.mount()
		if err == nil {
			return true, nil
		}
		// Without loop devices, for example in a container: a plain folder then.
		if rerr := os.Remove(v.image); rerr != nil {
			return false, errors.Join(err, rerr)
		}
		m.cfg.Log.Warn("the limit of a "+v.noun+" is not hard", "folder", v.dir, "cause", err)
	}
	if err := os.MkdirAll(v.dir, v.mode); err != nil {
		return false, fmt.Errorf("make the %s: %w", v.noun, err)
	}
	if err := os.Chown(v.dir, v.uid, v.gid); err != nil {
		return false, fmt.Errorf("make the %s: %w", v.noun, err)
	}
	return false, nil
}

// format makes the sparse file with an empty ext4 in it.
func (v volume) format(ctx context.Context, size int64) (err error) {
	temp := v.image + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make the file of the %s: %w", v.noun, err)
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
		return fmt.Errorf("make the file of the %s: %w", v.noun, err)
	}
	// Reserve nothing, because there is no root in a jail. Initialise lazily,
	// so that the file stays sparse.
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0",
		"-O", "^resize_inode", "-E", fmt.Sprintf("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=%d:%d", v.uid, v.gid),
		temp).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the file system of the %s: %w: %s", v.noun, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(temp, v.image); err != nil {
		return fmt.Errorf("make the file of the %s: %w", v.noun, err)
	}
	return nil
}

// mount mounts the file unless it is mounted.
func (v volume) mount() error {
	mounted, err := isMountPoint(v.dir)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(v.dir, v.mode); err != nil {
		return fmt.Errorf("make the %s: %w", v.noun, err)
	}
	img := mount.Mount{Type: "ext4", Source: v.image, Options: []string{"loop", "nosuid", "nodev", "noatime", "noinit_itable"}}
	if err := img.Mount(v.dir); err != nil {
		return fmt.Errorf("mount the %s: %w", v.noun, err)
	}
	// An agent that lists its workspace looks for its own files only.
	if err := os.Remove(filepath.Join(v.dir, "lost+found")); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("clear the new %s: %w", v.noun, err)
	}
	if err := os.Chmod(v.dir, v.mode); err != nil {
		return fmt.Errorf("mount the %s: %w", v.noun, err)
	}
	return nil
}

// unmount unmounts the file if it is mounted.
func (v volume) unmount(flags int) error {
	mounted, err := isMountPoint(v.dir)
	if err != nil || !mounted {
		return err
	}
	if err := mount.UnmountAll(v.dir, flags); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount the %s %s: %w", v.noun, v.dir, err)
	}
	return nil
}

// remove deletes the volume with all that is in it.
func (v volume) remove() error {
	if err := v.unmount(unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.RemoveAll(v.dir); err != nil {
		return fmt.Errorf("delete the %s: %w", v.noun, err)
	}
	if err := os.RemoveAll(v.image); err != nil {
		return fmt.Errorf("delete the %s: %w", v.noun, err)
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
