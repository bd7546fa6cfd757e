package files

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Files that are shared with a workspace are in a folder of it that belongs to
// root, as does everything in it, and that only root may write. The kernel
// therefore keeps the jail's processes from changing, replacing or removing any
// of them. This service runs as root, and unshared enforces the same for it.
// The folder as a whole belongs to the workspace: it can be moved and deleted.

const (
	sharedFile = 0o444
	sharedDir  = 0o555
	// writeBits are the permissions to write.
	writeBits = 0o222
)

// SharedMode returns the mode that a shared file or folder has instead of its
// own.
func SharedMode(mode uint32, dir bool) uint32 {
	switch {
	case dir:
		return sharedDir
	case mode&0o111 != 0:
		return sharedDir // a program
	}
	return sharedFile
}

// unshared refuses a change of what is below a shared folder; asked is the path
// as the caller knows it.
func (w *workspace) unshared(name, asked string) error {
	for i, c := range name {
		if c != '/' || i == 0 {
			continue
		}
		info, err := w.root.Stat(name[:i])
		if err != nil || !info.IsDir() {
			return nil //nolint:nilerr // whoever changes it says so better
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && info.Mode().Perm()&writeBits == 0 {
			return fault.New(fault.Denied, "%q is shared with this workspace for reading only: nothing in %q can be changed", asked, name[:i]).
				WithCode(fault.PermissionDenied).WithFix("copy it to another folder of the workspace, and change the copy")
		}
	}
	return nil
}

// share makes the folders of a path that ends in "/": those that lead to into
// are the jail's, and into with what is below it is shared.
func (w *workspace) share(into, dir string) error {
	parent := into[:strings.LastIndexByte(into, '/')+1]
	if err := w.makeDirs(parent); err != nil {
		return err
	}
	for i, c := range dir {
		if c != '/' || i < len(into) {
			continue
		}
		if err := w.shareDir(dir[:i]); err != nil {
			return err
		}
	}
	return nil
}

// shareDir makes a folder belong to root and writable by no other user.
func (w *workspace) shareDir(name string) error {
	if err := w.root.Mkdir(name, sharedDir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := w.root.Lstat(name); err != nil || !info.IsDir() {
		return errors.Join(syscall.ENOTDIR, err) // not by a link: that folder was not meant
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// The mode too: the umask had its say.
	return errors.Join(f.Chown(0, 0), f.Chmod(sharedDir))
}

// ours makes sure that what was put at a name of a shared folder is what this
// node wrote: the way there leads through the workspace's own folder, in which
// the jail may exchange it.
func (w *workspace) ours(name string, written fs.FileInfo) error {
	info, err := w.root.Lstat(name)
	if err == nil && os.SameFile(info, written) {
		return nil
	}
	return errors.Join(fault.New(fault.Aborted, "something else was put in the place of %q while it was shared", name).
		WithFix("stop the commands that use the workspace, and try again"), err, w.root.RemoveAll(name))
}

// dressed returns an entry as it is put into the workspace.
func (u *upload) dressed(e *nodev1.UploadEntry) *nodev1.UploadEntry {
	if u.shared {
		e.Mode = SharedMode(e.GetMode(), e.GetType() == "dir")
	}
	return e
}
