package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// DefaultShowPaths is what a spec's read_only_paths may name unless the node's
// operator says otherwise.
var DefaultShowPaths = []string{"/var/log"}

// maxShown is how many names a folder that is shown may have below it.
const maxShown = 200_000

// mayShow refuses a host folder that the node's operator does not let be shown,
// or that no jail may be shown, by its name or by what its name leads to.
func (m *Manager) mayShow(path string) error {
	at := path
	for {
		if err := checkShown(at); err != nil {
			return fault.New(fault.Denied, "read_only_paths: %v", err).WithCode(fault.SandboxViolation)
		}
		if err := m.notOurs(at); err != nil {
			return err
		}
		if !slices.ContainsFunc(m.cfg.ShowPaths, func(dir string) bool { return within(at, dir) || within(at, realPath(dir)) }) {
			return fault.New(fault.Denied, "read_only_paths: this node does not show %q; it shows: %s", path, orNothing(m.cfg.ShowPaths)).
				WithCode(fault.SandboxViolation).WithFix("have the node's operator add it to show-paths in node.yaml")
		}
		real, err := filepath.EvalSymlinks(at)
		if err != nil {
			return fault.New(fault.Precondition, "read_only_paths: %q is not on this node", path).WithCause(err)
		}
		if real == at {
			return noChannels(path, real)
		}
		at = real
	}
}

func orNothing(paths []string) string {
	if len(paths) == 0 {
		return "nothing"
	}
	return strings.Join(paths, ", ")
}

// realPath returns what a path leads to; itself where nothing is there.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// noChannels rejects a folder that contains sockets, pipes or devices: a
// read-only mount does not prevent communication through them.
func noChannels(path, real string) error {
	left := maxShown
	err := filepath.WalkDir(real, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		if left--; left < 0 {
			return fault.New(fault.Exhausted, "read_only_paths: %q has more than %d files, too many to look through for sockets", path, maxShown).
				WithFix("name a folder with fewer")
		}
		if entry.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice) != 0 {
			return fault.New(fault.Denied, "read_only_paths: %q contains %q, which can be used to communicate with the machine", path, name).
				WithCode(fault.SandboxViolation).WithFix("name folders that contain only regular files")
		}
		return nil
	})
	if fault.As(err) != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("look through %s: %w", path, err)
	}
	return nil
}

// recursive reports whether this kernel can make a mount and all below it
// read-only at once: since 5.12.
func recursive() bool {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	return !errors.Is(err, unix.ENOSYS)
}

// nobodyOf is the only id that the owners of what is shown are mapped from: no
// file has it.
const nobodyOf = "4294967294:4294967294:1"

// show returns the mounts by which a jail sees host folders, and what to call
// once it has them. Each is a mount of its own in which the kernel knows no owner
// of any file. What everybody may read is read all the same, but nothing can be
// written, and no socket or pipe opened that a service makes there later: those
// ask for the right to write, which a read-only mount does not refuse. A jail with a
// kernel of its own has no way to the machine's sockets and pipes, and gets plain
// mounts.
func (m *Manager) show(p paths, s *nodev1.JailSpec, shown []string) (mounts []specs.Mount, done func(), err error) {
	done = func() {
		if err := hide(p); err != nil {
			m.cfg.Log.Warn("cannot unmount the folders of a removed jail; will try again with the next", "error", err)
		}
	}
	if err := hide(p); err != nil || len(shown) == 0 {
		return nil, done, err
	}
	if classes[s.GetRuntime()].ownKernel {
		for _, path := range shown {
			mounts = append(mounts, bind(path, path))
		}
		return mounts, done, nil
	}
	ids, err := mount.GetUsernsFD(nobodyOf, nobodyOf)
	if err != nil {
		return nil, done, fmt.Errorf("make a user namespace for shown folders: %w", err)
	}
	defer ids.Close()
	for i, path := range shown {
		at := filepath.Join(p.shown, strconv.Itoa(i))
		if err := mountOn(at, path); err != nil {
			return nil, done, err
		}
		err := mount.IDMapMountWithAttrs(path, at, int(ids.Fd()), unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			// A kernel or a file system without such mounts.
			m.cfg.Log.Warn("sockets that services create in a shown folder from now on are accessible in the jail", "path", path, "error", err)
			at, err = path, nil
		}
		if err != nil {
			return nil, done, fmt.Errorf("show %s: %w", path, err)
		}
		mounts = append(mounts, bind(at, path))
	}
	return mounts, done, nil
}

// mountOn makes what a path is mounted on.
func mountOn(at, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if info.IsDir() {
		err = os.Mkdir(at, 0o700)
	} else {
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	return nil
}

// hide ends the mounts of show, also those of a daemon that died.
func hide(p paths) error {
	all, err := os.ReadDir(p.shown)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the jail's shown folders: %w", err)
	}
	for _, one := range all {
		at := filepath.Join(p.shown, one.Name())
		if err := mount.UnmountAll(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount the jail's shown folders: %w", err)
		}
		// Never what is below: it would be the machine's own.
		if err := os.Remove(at); err != nil {
			return fmt.Errorf("remove the jail's shown folders: %w", err)
		}
	}
	return os.Remove(p.shown)
}
