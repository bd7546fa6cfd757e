// Package restore restores paths of a workspace to an earlier state. A Job
// first prepares all contents in a separate folder in the same file system, so
// that a full disk is detected before anything has changed. It then puts
// everything in place by renames. That second part can be repeated after an
// interruption at any point, with the same result.
package restore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/snapshot/blob"
	"github.com/deckhand-sh/deckhand/node/snapshot/nofollow"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// StagePrefix begins the name of the folder in which contents are made ready.
const StagePrefix = ".deckhand-undo-"

// Job is what is to be made so.
type Job struct {
	Workspace *nofollow.Dir
	Contents  *blob.Store
	// Stage is the name of the folder for contents, directly in the workspace.
	Stage string
	// Changes by path: each path is to be what After says.
	Changes []tree.Change
	// Host is set for a folder of the machine, whose files have attributes that a
	// jail's have not: capabilities, security labels, and trusted ones.
	Host bool
	// Tolerant leaves a folder that has something unknown in it, and what has no
	// folder to be in: the job is finished after a crash, and others may have
	// worked here in the meantime.
	Tolerant bool
}

func (j *Job) staged(i int) string { return j.Stage + "/" + strconv.Itoa(i) }

// Ready makes contents, links and pipes ready. Nothing of the workspace is
// touched yet; what fails leaves nothing behind.
func (j *Job) Ready() (err error) {
	if !j.needsStage() {
		return nil
	}
	if err := j.Workspace.Mkdir(j.Stage, 0o700); err != nil {
		return fmt.Errorf("prepare the files to restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Workspace.RemoveAll(j.Stage))
		}
	}()
	for i, c := range j.Changes {
		if c.After == nil || c.After.Link != "" {
			continue
		}
		ready := j.ready
		if c.After.Kind == tree.Dir {
			if !privileged(c.After) {
				continue
			}
			ready = j.tryFolder
		}
		if err := ready(j.staged(i), c.After); err != nil {
			return fmt.Errorf("make %q ready: %w", c.Path, err)
		}
	}
	if err := j.sync(); err != nil {
		return fmt.Errorf("flush the files to restore: %w", err)
	}
	return nil
}

func (j *Job) needsStage() bool {
	return slices.ContainsFunc(j.Changes, func(c tree.Change) bool {
		return c.After != nil && (c.After.Kind != tree.Dir || privileged(c.After))
	})
}

// tryFolder gives a folder in the stage the attributes of one in the workspace, so that a
// kernel that refuses one of them is known before anything has changed.
func (j *Job) tryFolder(name string, e *tree.Entry) error {
	if err := j.Workspace.Mkdir(name, 0o700); err != nil {
		return err
	}
	f, err := j.Workspace.OpenFile(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return j.dress(f, e)
}

// ready makes an entry under a name in the stage.
func (j *Job) ready(name string, e *tree.Entry) error {
	switch e.Kind {
	case tree.Symlink:
		if err := j.Workspace.Symlink(e.Content, name); err != nil {
			return err
		}
		if err := j.Workspace.Lchown(name, e.UID, e.GID); err != nil || !j.Host {
			return err
		}
		f, err := j.Workspace.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return setXattrs(LinkAttributes(f), e.Xattrs, j.Host)
	case tree.Fifo:
		if err := j.Workspace.Mknod(name, unix.S_IFIFO|0o600); err != nil {
			return err
		}
		f, err := j.Workspace.OpenFile(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return j.dress(f, e)
	case tree.File:
	default:
		return fmt.Errorf("a %s cannot be made", e.Kind)
	}
	f, err := j.Workspace.OpenFile(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := j.Contents.Restore(e.Content, f); err != nil {
		return err
	}
	if err := j.dress(f, e); err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(e.MTime)}
	return unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
}

// syncEach is up to how many files are synced one by one.
const syncEach = 16

// sync brings what was made ready to disk, before the record says that it is
// restored.
func (j *Job) sync() error {
	var files []string
	for i, c := range j.Changes {
		if c.After != nil && c.After.Kind == tree.File && c.After.Link == "" {
			files = append(files, j.staged(i))
		}
	}
	if len(files) > syncEach {
		return unix.Syncfs(j.Workspace.Fd())
	}
	for _, name := range files {
		f, err := j.Workspace.OpenFile(name, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		err = unix.Fdatasync(int(f.Fd()))
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// dress gives what is open its owner, attributes and mode.
func (j *Job) dress(f *os.File, e *tree.Entry) error {
	fd := int(f.Fd())
	if err := unix.Fchown(fd, int(e.UID), int(e.GID)); err != nil {
		return err
	}
	// After the owner too, which clears capabilities.
	if err := setXattrs(Attributes(f), e.Xattrs, j.Host); err != nil {
		return err
	}
	// After the owner, which clears set-id, and the access list, which is part
	// of it.
	return unix.Fchmod(fd, e.Mode)
}

// Place puts everything in its place. It may be called again after a crash in
// its middle.
func (j *Job) Place() error {
	if j.needsStage() {
		if err := j.Workspace.Mkdir(j.Stage, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("prepare the files to restore: %w", err)
		}
	}
	for _, c := range slices.Backward(j.Changes) {
		if err := j.clear(c); err != nil && !j.tolerates(err) {
			return fmt.Errorf("take away %q: %w", c.Path, err)
		}
	}
	for i, c := range j.Changes {
		if err := j.place(i, c); err != nil && !j.tolerates(err) {
			return fmt.Errorf("restore %q: %w", c.Path, err)
		}
	}
	for i, c := range j.Changes {
		if c.After != nil && c.After.Link != "" {
			if err := j.link(j.staged(i), c); err != nil && !j.tolerates(err) {
				return fmt.Errorf("restore %q: %w", c.Path, err)
			}
		}
	}
	// Folders last and deepest first: one may be closed to writing.
	for _, c := range slices.Backward(j.Changes) {
		if c.After != nil && c.After.Kind == tree.Dir {
			if err := j.finish(c); err != nil && !j.tolerates(err) {
				return fmt.Errorf("restore %q: %w", c.Path, err)
			}
		}
	}
	return j.Workspace.RemoveAll(j.Stage)
}

func (j *Job) tolerates(err error) bool {
	return j.Tolerant && (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ELOOP))
}

// clear removes what must not exist, or must be of another kind.
func (j *Job) clear(c tree.Change) error {
	st, err := j.Workspace.Lstat(c.Path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // nor what is above it; a link that stands there goes as itself
	}
	if err != nil {
		return err
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if c.After != nil && isDir == (c.After.Kind == tree.Dir) {
		return nil // replaced as a whole, or changed in its place
	}
	if err := j.Workspace.Remove(c.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Job) place(i int, c tree.Change) error {
	switch {
	case c.After == nil || c.After.Link != "":
		return nil
	case c.After.Kind == tree.Dir:
		if err := j.Workspace.Mkdir(c.Path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	}
	err := j.Workspace.Rename(j.staged(i), c.Path)
	if errors.Is(err, os.ErrNotExist) {
		// It was put in its place before the crash, or its folder is missing.
		if _, serr := j.Workspace.Lstat(c.Path); serr == nil {
			return nil
		}
	}
	return err
}

// link makes a further name of a file that is in its place.
func (j *Job) link(temp string, c tree.Change) error {
	if err := j.Workspace.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := j.Workspace.Link(c.After.Link, temp); err != nil {
		return err
	}
	// Renaming onto another name of the same file does nothing at all.
	if err := j.Workspace.Rename(temp, c.Path); err != nil {
		return err
	}
	if err := j.Workspace.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Job) finish(c tree.Change) error {
	f, err := j.Workspace.OpenFile(c.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return j.dress(f, c.After)
}

// uploadPrefix is node/files' PartPrefix.
const uploadPrefix = ".deckhand-upload-"

// uploadAge is how long what was uploaded of a file is kept, to continue from.
const uploadAge = 24 * time.Hour

// Ours reports whether a name in a workspace is the node's own: root's, who makes
// nothing else there.
func Ours(w *nofollow.Dir, name string, owner uint32) bool {
	if !strings.HasPrefix(name, StagePrefix) && !strings.HasPrefix(name, uploadPrefix) {
		return false
	}
	st, err := w.Lstat(name)
	return err == nil && st.Uid == uint32(os.Geteuid()) && st.Uid != owner
}

// Leftover reports whether one of our files is not needed any more: a stage
// that a daemon left behind, or an old part of an upload.
func Leftover(w *nofollow.Dir, name string, owner uint32, now time.Time) bool {
	if !Ours(w, name, owner) {
		return false
	}
	st, err := w.Lstat(name)
	return err == nil && (strings.HasPrefix(name, StagePrefix) || now.Sub(time.Unix(st.Mtime.Sec, 0)) > uploadAge)
}

// StageName returns a name for a stage.
func StageName(now time.Time) string {
	return StagePrefix + strconv.FormatInt(now.UnixNano(), 36)
}
