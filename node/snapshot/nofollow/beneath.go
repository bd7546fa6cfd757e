// Package nofollow opens and changes files below a folder without ever
// following a symbolic link and without leaving the folder, even if the
// folder's owner moves things about at the same time.
//
// It is stricter than os.Root, which follows links that stay inside: recording
// and restoring a tree must apply to the names themselves.
package nofollow

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is an open folder.
type Dir struct{ f *os.File }

// Open opens a folder of our own.
func Open(name string) (*Dir, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder %s: %w", name, err)
	}
	return &Dir{os.NewFile(uintptr(fd), name)}, nil
}

// Close closes the folder.
func (d *Dir) Close() error { return d.f.Close() }

// Fd returns the folder's descriptor, which is open as long as d is.
func (d *Dir) Fd() int { return int(d.f.Fd()) }

// resolve is what no name may do.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// OpenFile opens what has the name below d, with flags as in open(2). A link
// on the way is ELOOP, and as the last part unless flags have O_PATH and O_NOFOLLOW.
func (d *Dir) OpenFile(name string, flags int, perm uint32) (*os.File, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NOCTTY
	}
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	for {
		fd, err := unix.Openat2(d.Fd(), name, how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue // somebody renames on the way: the kernel asks to look again
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// in calls fn with the folder that a name is in and its last part.
func (d *Dir) in(op, name string, fn func(fd int, base string) error) error {
	parent, base := path.Split(name)
	if parent = strings.TrimSuffix(parent, "/"); parent == "" {
		return wrap(op, name, fn(d.Fd(), base))
	}
	f, err := d.OpenFile(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return wrap(op, name, fn(int(f.Fd()), base))
}

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// Lstat describes what has the name itself.
func (d *Dir) Lstat(name string) (st unix.Statx_t, err error) {
	err = d.in("stat", name, func(fd int, base string) error {
		return unix.Statx(fd, base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	})
	return st, err
}

// Readlink returns a link's target.
func (d *Dir) Readlink(name string) (target string, err error) {
	err = d.in("readlink", name, func(fd int, base string) error {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, base, buf)
		if err == nil {
			target = string(buf[:n])
		}
		return err
	})
	return target, err
}

// Mkdir makes a folder.
func (d *Dir) Mkdir(name string, perm uint32) error {
	return d.in("mkdir", name, func(fd int, base string) error { return unix.Mkdirat(fd, base, perm) })
}

// Mknod creates a named pipe or another special file.
func (d *Dir) Mknod(name string, mode uint32) error {
	return d.in("mknod", name, func(fd int, base string) error { return unix.Mknodat(fd, base, mode, 0) })
}

// Symlink makes a link to a target.
func (d *Dir) Symlink(target, name string) error {
	return d.in("symlink", name, func(fd int, base string) error { return unix.Symlinkat(target, fd, base) })
}

// Lchown gives what has the name to an owner.
func (d *Dir) Lchown(name string, uid, gid uint32) error {
	return d.in("chown", name, func(fd int, base string) error {
		return unix.Fchownat(fd, base, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Remove removes a file or an empty folder.
func (d *Dir) Remove(name string) error {
	return d.in("remove", name, func(fd int, base string) error {
		err := unix.Unlinkat(fd, base, 0)
		if errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(fd, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// Rename moves what has one name to another, replacing what is there.
func (d *Dir) Rename(from, to string) error {
	return d.two("rename", from, to, func(oldfd int, old string, newfd int, base string) error {
		return unix.Renameat(oldfd, old, newfd, base)
	})
}

// RenameNew moves what has one name to another that nothing has.
func (d *Dir) RenameNew(from, to string) error {
	return d.two("rename", from, to, func(oldfd int, old string, newfd int, base string) error {
		return unix.Renameat2(oldfd, old, newfd, base, unix.RENAME_NOREPLACE)
	})
}

// Link gives a file another name.
func (d *Dir) Link(from, to string) error {
	return d.two("link", from, to, func(oldfd int, old string, newfd int, base string) error {
		return unix.Linkat(oldfd, old, newfd, base, 0)
	})
}

func (d *Dir) two(op, from, to string, fn func(oldfd int, old string, newfd int, base string) error) error {
	var inner error
	err := d.in(op, from, func(oldfd int, old string) error {
		inner = d.in(op, to, func(newfd int, base string) error { return fn(oldfd, old, newfd, base) })
		return nil
	})
	return errors.Join(err, inner)
}

// RemoveAll removes what has the name with all that is in it. Nothing there is
// no error.
func (d *Dir) RemoveAll(name string) error {
	err := d.Remove(name)
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return err
	}
	for {
		f, err := d.OpenFile(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		names, err := f.Readdirnames(1000)
		_ = f.Close()
		if len(names) == 0 {
			if rerr := d.Remove(name); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
				return errors.Join(err, rerr)
			}
			return nil
		}
		for _, one := range names {
			if err := d.RemoveAll(name + "/" + one); err != nil {
				return err
			}
		}
	}
}

// MakeParents makes the folders above a name that are not there, and calls
// made with each.
func (d *Dir) MakeParents(name string, perm uint32, made func(name string) error) error {
	for i := range len(name) {
		if name[i] != '/' || i == 0 {
			continue
		}
		err := d.Mkdir(name[:i], perm)
		if errors.Is(err, os.ErrExist) {
			continue // if it is no folder, the next step says so
		}
		if err == nil {
			err = made(name[:i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
