package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// A root is one snapshot on top of an image's layers, from which all jails of the
// image start. In it the files belong to the jails' user ids, device nodes are
// gone, and what jails mount over is there as real folders and files: a link at
// such a place could lead init's own program or state to where an agent writes.

// recipe is part of a root's name. Raise it when roots are created differently: the
// next pull of an image then creates another root.
const recipe = "2"

// WithRoot has a container start from an image's root, in a snapshot of its own
// that is deleted with it.
func (s *Store) WithRoot(one Image) client.NewContainerOpts {
	return func(ctx context.Context, c *client.Client, ctr *containers.Container) error {
		if err := s.used(ctx, one.image); err != nil {
			return err
		}
		if _, err := c.SnapshotService(s.cfg.Snapshotter).Prepare(ctx, ctr.ID, one.root); err != nil {
			return fmt.Errorf("prepare the root filesystem from image %s: %w", one.Reference, err)
		}
		ctr.Snapshotter, ctr.SnapshotKey, ctr.Image = s.cfg.Snapshotter, ctr.ID, one.Reference
		return nil
	}
}

// WithImage notes on a container which image it uses, without a snapshot of it: the caller
// gives it the mounts of Below.
func (s *Store) WithImage(one Image) client.NewContainerOpts {
	return func(ctx context.Context, _ *client.Client, ctr *containers.Container) error {
		ctr.Image = one.Reference
		return s.used(ctx, one.image)
	}
}

// Root returns the name of an image's root, which stands for everything in it.
func (i Image) Root() string { return i.root }

// ReadFiles returns those of some files that an image's root has, by their paths in it. A
// path may be a pattern of path/filepath. Links are followed inside of the root.
func (s *Store) ReadFiles(ctx context.Context, one Image, patterns []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := s.view(s.namespaced(ctx), one.root, func(mounts []mount.Mount) error {
		return mount.WithTempMount(ctx, mounts, func(dir string) error { return readFiles(dir, patterns, out) })
	})
	if err != nil {
		return nil, fmt.Errorf("read files of image %s: %w", one.Reference, err)
	}
	return out, nil
}

// maxRead bounds a file that is read from an image, in bytes.
const maxRead = 16 << 20

// readFiles adds those of some files that a root has.
func readFiles(dir string, patterns []string, to map[string][]byte) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, at := range found {
			name := "/" + strings.TrimPrefix(strings.TrimPrefix(at, dir), "/")
			real, err := securejoin.SecureJoin(dir, name)
			if err != nil {
				return err
			}
			info, err := os.Lstat(real)
			if err != nil || !info.Mode().IsRegular() || info.Size() > maxRead {
				continue
			}
			if to[name], err = os.ReadFile(real); err != nil {
				return err
			}
		}
	}
	return nil
}

// Below returns the mounts of an image's root with a writable layer of the caller's on top:
// files is the folder of the layer, work an empty folder beside it.
func (s *Store) Below(ctx context.Context, one Image, files, work string) ([]mount.Mount, error) {
	ctx = s.namespaced(ctx)
	if s.cfg.Snapshotter != DefaultSnapshotter {
		return nil, fault.New(fault.Precondition, "this node cannot make a writable root: its containerd has no %s", DefaultSnapshotter).
			WithCode(fault.ImageUnavailable).WithFix("put containerd's folder on a file system that supports overlays, such as ext4, or use a read-only root")
	}
	var mounts []mount.Mount
	// The view only tells where the layers are. They stay while the image does.
	if err := s.view(ctx, one.root, func(all []mount.Mount) error { mounts = all; return nil }); err != nil {
		return nil, fmt.Errorf("look for the layers of image %s: %w", one.Reference, err)
	}
	if len(mounts) != 1 {
		return nil, fmt.Errorf("the root of image %s has %d mounts", one.Reference, len(mounts))
	}
	below := mounts[0].Source // of a single layer
	if mounts[0].Type == "overlay" {
		at := slices.IndexFunc(mounts[0].Options, func(option string) bool { return strings.HasPrefix(option, lowerDir) })
		if at < 0 {
			return nil, fmt.Errorf("the root of image %s has no layers: %v", one.Reference, mounts[0].Options)
		}
		below = strings.TrimPrefix(mounts[0].Options[at], lowerDir)
	}
	return []mount.Mount{{Type: "overlay", Source: "overlay", Options: []string{"index=off", "workdir=" + work, "upperdir=" + files, lowerDir + below}}}, nil
}

// lowerDir begins the option of an overlay that names its layers.
const lowerDir = "lowerdir="

// Repair puts folders and files where jails mount something, in a root that commands may
// have changed, unless they are there.
func (s *Store) Repair(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, point := range s.cfg.MountPoints {
		if isThere(root, point) {
			continue
		}
		if err := place(root, point); err != nil {
			return fmt.Errorf("make %s: %w", point, err)
		}
	}
	return nil
}

// isThere reports whether a folder or file is there, and everything above it is a folder.
func isThere(root *os.Root, point string) bool {
	parts := strings.Split(strings.Trim(point, "/"), "/")
	for i := range parts {
		info, err := root.Lstat(path.Join(parts[:i+1]...))
		if err != nil {
			return false
		}
		if i < len(parts)-1 || strings.HasSuffix(point, "/") {
			if !info.IsDir() {
				return false
			}
		} else if !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// contents are what is looked for in a root.
type contents struct{ distribution, shell string }

// makeRoot returns the name of an image's root, which it creates unless it exists, and
// what was found in it.
func (s *Store) makeRoot(ctx context.Context, one client.Image) (key string, found contents, err error) {
	layers, err := one.RootFS(ctx)
	if err != nil {
		return "", found, fmt.Errorf("read the layers of image %s: %w", one.Name(), err)
	}
	parent := identity.ChainID(layers).String()
	key = "deckhand-root-" + digest.FromString(fmt.Sprint(recipe, parent, s.cfg.UIDBase, s.cfg.MountPoints, s.cfg.Files, s.cfg.User, s.cfg.Group)).Encoded()
	look := func(dir string) { found = contents{distribution: distributionIn(dir), shell: shellIn(dir)} }
	_, err = s.cfg.Client.SnapshotService(s.cfg.Snapshotter).Stat(ctx, key)
	switch {
	case err == nil:
		err = s.view(ctx, key, func(mounts []mount.Mount) error {
			return mount.WithTempMount(ctx, mounts, func(dir string) error { look(dir); return nil })
		})
	case errdefs.IsNotFound(err):
		err = s.grow(ctx, key, parent, func(dir string) error {
			if err := s.fill(ctx, one.Name(), dir); err != nil {
				return err
			}
			look(dir)
			return nil
		})
	default:
		return "", found, s.unavailable(err)
	}
	if err != nil {
		return "", found, fmt.Errorf("make the root of image %s: %w", one.Name(), err)
	}
	// The image keeps it: containerd deletes a snapshot that nothing refers to.
	config, err := one.Config(ctx)
	if err != nil {
		return "", found, fmt.Errorf("read the configuration of image %s: %w", one.Name(), err)
	}
	if err := s.refer(ctx, config.Digest, rootReference, key); err != nil {
		return "", found, fmt.Errorf("keep the root of image %s: %w", one.Name(), err)
	}
	return key, found, nil
}

// grow creates a snapshot on top of another, of what fill writes into a folder that shows it.
func (s *Store) grow(ctx context.Context, key, parent string, fill func(dir string) error) error {
	snapshots := s.cfg.Client.SnapshotService(s.cfg.Snapshotter)
	making := key + "-making"
	// A daemon that was killed may have left one.
	if err := snapshots.Remove(ctx, making); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	mounts, err := snapshots.Prepare(ctx, making, parent)
	if err != nil {
		return err
	}
	if err = mount.WithTempMount(ctx, mounts, fill); err == nil {
		err = snapshots.Commit(ctx, key, making)
	}
	if err != nil {
		err = errors.Join(err, snapshots.Remove(context.WithoutCancel(ctx), making))
	}
	return err
}

// view calls fn with the mounts of a snapshot that show it read-only, while fn runs.
func (s *Store) view(ctx context.Context, key string, fn func(mounts []mount.Mount) error) error {
	snapshots, name := s.cfg.Client.SnapshotService(s.cfg.Snapshotter), ident.New("view")
	mounts, err := snapshots.View(ctx, name, key)
	if err != nil {
		return err
	}
	err = fn(mounts)
	// containerd may have deleted it already: nothing refers to it.
	if rerr := snapshots.Remove(context.WithoutCancel(ctx), name); rerr != nil && !errdefs.IsNotFound(rerr) {
		err = errors.Join(err, rerr)
	}
	return err
}

// rootReference is the name of an image's reference to its root.
const rootReference = "deckhand"

// refer has the configuration of an image refer to a snapshot, by a name that it has one
// reference of; an empty key removes it.
func (s *Store) refer(ctx context.Context, config digest.Digest, name, key string) error {
	label := "containerd.io/gc.ref.snapshot." + s.cfg.Snapshotter + "/" + name
	_, err := s.cfg.Client.ContentStore().Update(ctx, content.Info{Digest: config, Labels: map[string]string{label: key}}, "labels."+label)
	return err
}

// fill makes a root of a writable copy of the image's files.
func (s *Store) fill(ctx context.Context, name, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, point := range s.cfg.MountPoints {
		if err := place(root, point); err != nil {
			return fmt.Errorf("make %s: %w", point, err)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(s.cfg.Files)) {
		if err := place(root, file); err != nil {
			return fmt.Errorf("make %s: %w", file, err)
		}
		if err := root.WriteFile(file, []byte(s.cfg.Files[file]), 0o644); err != nil {
			return fmt.Errorf("make %s: %w", file, err)
		}
	}
	for file, line := range map[string]string{"etc/passwd": s.cfg.User, "etc/group": s.cfg.Group} {
		if err := addEntry(root, file, line); err != nil {
			return fmt.Errorf("add the agent to /%s: %w", file, err)
		}
	}
	return filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.shiftOwner(name, dir, at, entry)
	})
}

// shiftOwner changes the owner of a file, which is below dir, to the jails' user ids. It
// deletes device nodes: jails have a /dev of their own. Ids that no jail has are refused and
// not changed to another: programs that ask whose a file is would misbehave, without a word
// of why.
func (s *Store) shiftOwner(name, dir, at string, entry fs.DirEntry) error {
	if entry.Type()&fs.ModeDevice != 0 {
		return os.Remove(at)
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s cannot be read", at)
	}
	uid, given := s.shift(stat.Uid)
	gid, gok := s.shift(stat.Gid)
	if !given || !gok {
		inside := "/" + strings.TrimPrefix(strings.TrimPrefix(at, dir), "/")
		return fault.New(fault.Precondition, "image %s: %q belongs to user %d and group %d, and a jail has the ids 0 to %d only", name, inside, stat.Uid, stat.Gid, s.cfg.IDs-1).
			WithCode(fault.ImageUnavailable).WithFix("give the files to a user below %d when you build the image, for example with a last line RUN chown -R 1000:1000 and the folder", s.cfg.IDs)
	}
	return os.Lchown(at, int(uid), int(gid))
}

// shift maps an id of an image to one of the host. A file with several names may
// have been shifted already under another of them.
func (s *Store) shift(id uint32) (uint32, bool) {
	switch {
	case id < s.cfg.IDs:
		return s.cfg.UIDBase + id, true
	case id >= s.cfg.UIDBase && id-s.cfg.UIDBase < s.cfg.IDs:
		return id, true
	}
	return 0, false
}

// place makes an empty folder (with a slash at the end of its name) or an empty
// file, with the folders above it. What the image has there is deleted, and so is
// what is no folder above it.
func place(root *os.Root, point string) error {
	parts := strings.Split(strings.Trim(point, "/"), "/")
	last := len(parts) - 1
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		info, err := root.Lstat(at)
		if err == nil && i < last && info.IsDir() {
			continue
		}
		if err == nil {
			err = root.RemoveAll(at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if i == last && !strings.HasSuffix(point, "/") {
			return root.WriteFile(at, nil, 0o644)
		}
		if err := root.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := root.Chmod(at, 0o755); err != nil { // whatever the umask is
			return err
		}
	}
	if folder := path.Join(parts...); slices.Contains(worldWritable, folder) {
		return root.Chmod(folder, 0o777|fs.ModeSticky)
	}
	return nil
}

// worldWritable are the mount points that every user may write to: runc gives a
// tmpfs the mode of the folder below it.
var worldWritable = []string{"tmp", "var/tmp"}

// maxAccounts bounds what is read of an image's list of users.
const maxAccounts = 1 << 20

// addEntry appends a line to a list of users or groups, unless the list has a line
// with the same id. It does not change a list that is a link or has more than
// maxAccounts bytes.
func addEntry(root *os.Root, file, line string) error {
	info, err := root.Lstat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxAccounts) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := place(root, file); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	have, err := root.ReadFile(file)
	if err != nil {
		return err
	}
	id := field(line, 2)
	for entry := range strings.Lines(string(have)) {
		if field(entry, 2) == id {
			return nil
		}
	}
	text := string(have)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return root.WriteFile(file, []byte(text+line+"\n"), 0o644)
}

// field returns one of the fields of a line of passwd(5) or group(5).
func field(line string, n int) string {
	fields := strings.Split(strings.TrimSpace(line), ":")
	if n >= len(fields) {
		return ""
	}
	return fields[n]
}

// distributionIn returns the name of the distribution in a root; empty if it has
// none. See os-release(5).
func distributionIn(dir string) string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		f, err := openInside(dir, file)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, 64<<10))
		_ = f.Close()
		if err == nil {
			if name := PrettyName(string(text)); name != "" {
				return name
			}
		}
	}
	return ""
}

// shellIn returns the path of a shell in a root; empty if it has none.
func shellIn(dir string) string {
	for _, file := range []string{"bin/bash", "bin/sh"} {
		f, err := openInside(dir, file)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		_ = f.Close()
		if err == nil && info.Mode().Perm()&0o111 != 0 {
			return "/" + file
		}
	}
	return ""
}

// openInside opens a regular file below a folder, following links as they are
// meant there: absolute ones from that folder, and none out of it.
func openInside(dir, file string) (*os.File, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	fd, err := unix.Openat2(at, file, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), file)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fs.ErrInvalid)
	}
	return f, nil
}

// PrettyName returns the name of the distribution that an os-release file gives.
// Control characters are left out.
func PrettyName(osRelease string) string {
	for line := range strings.Lines(osRelease) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME=")
		if !ok {
			continue
		}
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, strings.ToValidUTF8(strings.Trim(value, `"'`), ""))
	}
	return ""
}
