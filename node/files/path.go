package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/workpath"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// clean returns a caller's path relative to the workspace: "." for the
// workspace itself, never absolute, never beginning with "..". Symbolic links
// are os.Root's to judge.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fault.New(fault.Invalid, "path %q has a NUL byte", name).WithFix("name a file")
	}
	rel := workpath.Rel(name)
	if workpath.Outside(rel) {
		return "", violation(name)
	}
	return rel, nil
}

func violation(name string) *fault.Error {
	return fault.New(fault.Denied, "path %q leads out of the workspace", name).
		WithCode(fault.SandboxViolation).WithFix("name a file below %s", workpath.Mount)
}

// workspace is one opened workspace.
type workspace struct {
	root     *os.Root
	uid, gid int
	// keepOwner reports that a file that is replaced keeps its owner: it is a folder of the
	// machine, whose files are of many users.
	keepOwner bool
	// browsed is the folder of the machine that it is; empty for a jail's workspace.
	browsed string
}

func (w *workspace) close() { _ = w.root.Close() }

// follow returns where a path leads if its last part is a symbolic link, so
// that a write changes the link's target and keeps the link. The result may be
// replaced by another link afterwards, so the caller must open it through the
// root again.
func (w *workspace) follow(name string) (string, fs.FileInfo, error) {
	for range maxLinks {
		info, err := w.root.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, info, err
		}
		target, err := w.root.Readlink(name)
		if err != nil {
			return name, nil, err
		}
		if path.IsAbs(target) {
			return name, nil, violation(name)
		}
		// Not cleaned: ".." after a link is its target's parent.
		dir, _ := path.Split(name)
		name = dir + target
	}
	return name, nil, syscall.ELOOP
}

// explain makes an error of the file system a fault that names the path as the
// caller knows it.
func explain(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.As(err) != nil:
		return err
	case escapes(err):
		return violation(name).WithCause(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "no file %q in the workspace", name).WithCause(err)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.New(fault.Precondition, "a part of path %q is not a folder", name).WithCause(err)
	case errors.Is(err, syscall.ELOOP):
		return fault.New(fault.Precondition, "path %q goes through too many symbolic links", name).WithCause(err)
	case errors.Is(err, syscall.EISDIR):
		return fault.New(fault.Precondition, "%q is a folder", name).WithCause(err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.New(fault.Invalid, "path %q is too long", name).WithFix("shorten it").WithCause(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.New(fault.Exhausted, "the workspace has no room for %q", name).
			WithFix("delete files, or give the persona a larger workspace").WithCause(err)
	}
	return err
}

// escapes knows os.Root's refusal, which has no exported name. A test holds
// the text.
func escapes(err error) bool {
	for err != nil {
		if err.Error() == "path escapes from parent" {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// printable returns a path as it can be shown, and whether it had to be quoted
// for that.
func printable(name string) (string, bool) {
	if utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0 {
		return name, false
	}
	return strconv.Quote(name), true
}
