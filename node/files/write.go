package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/snapshot/restore"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// absent is the expected digest of a file that is not there.
const absent = "absent"

// Permission bits of what is made, before the owner changes them.
const (
	newFile = 0o644
	newDir  = 0o755
)

// WriteFile implements nodev1.FileServiceServer.
func (s *Service) WriteFile(ctx context.Context, req *nodev1.WriteFileRequest) (*nodev1.WriteFileResponse, error) {
	if len(req.GetContent()) > maxWrite {
		return nil, tooLarge("content", len(req.GetContent()), maxWrite)
	}
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	var out *nodev1.WriteFileResponse
	changed, err := s.change(ctx, req.GetJailId(), req.GetOperationId(), func() (err error) {
		out, err = w.write(name, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Workspace = changed
	return out, nil
}

// write replaces a file's content.
func (w *workspace) write(name string, req *nodev1.WriteFileRequest) (*nodev1.WriteFileResponse, error) {
	name, info, err := w.writable(name)
	if err == nil {
		err = w.unshared(name, req.GetPath())
	}
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	sum := sha256.Sum256(req.GetContent())
	digest := hex.EncodeToString(sum[:])
	if want := req.GetExpectDigest(); want != "" {
		err := w.mustHave(name, req.GetPath(), info != nil, want)
		// A write that is repeated after a crash finds its own content there.
		if fault.Is(err, fault.Aborted) && w.mustHave(name, req.GetPath(), info != nil, digest) == nil {
			return &nodev1.WriteFileResponse{Size: int64(len(req.GetContent())), Digest: digest, Replaced: true}, nil
		}
		if err != nil {
			return nil, explain(req.GetPath(), err)
		}
	}
	mode := fs.FileMode(newFile)
	if info != nil {
		mode = info.Mode().Perm()
		if st, ok := info.Sys().(*syscall.Stat_t); ok && w.keepOwner {
			w.uid, w.gid = int(st.Uid), int(st.Gid)
		}
	}
	if err := w.replace(name, mode, req.GetContent()); err != nil {
		return nil, explain(req.GetPath(), err)
	}
	return &nodev1.WriteFileResponse{Size: int64(len(req.GetContent())), Digest: digest, Replaced: info != nil}, nil
}

// writable returns where a write to name goes and what is there: nothing, or a
// regular file.
func (w *workspace) writable(name string) (string, fs.FileInfo, error) {
	name, info, err := w.follow(name)
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil, nil
	}
	if err != nil {
		return name, nil, err
	}
	return name, info, mustBeRegular(name, info)
}

// mustHave refuses unless the file has the digest; asked is its name as the
// caller knows it.
func (w *workspace) mustHave(name, asked string, exists bool, want string) error {
	have := absent
	if exists {
		f, _, err := w.openRegular(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		hash := sha256.New()
		if _, err := io.Copy(hash, f); err != nil {
			return err
		}
		have = hex.EncodeToString(hash.Sum(nil))
	}
	if !strings.EqualFold(have, want) {
		return fault.New(fault.Aborted, "file %q has digest %s, not %s: it was changed in the meantime", asked, have, want).
			WithCode(fault.FileConflict).WithFix("read it again and merge")
	}
	return nil
}

// replace makes name's content what is given, whole or not at all.
func (w *workspace) replace(name string, mode fs.FileMode, content []byte) (err error) {
	dir, _ := path.Split(name)
	if err := w.makeDirs(dir); err != nil {
		return err
	}
	folder, err := w.root.Open(dir + ".") // not cleaned: ".." after a link is its target's parent
	if err != nil {
		return err
	}
	defer folder.Close()
	temp := dir + "." + ident.New("deckhand")
	f, err := unnamed(folder)
	named := err != nil
	if named { // the file system has no such files
		if f, err = w.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			_ = w.root.Remove(temp)
		}
	}()
	_, err = f.Write(content)
	if err == nil && w.keepOwner {
		err = keepAttributes(w, name, f)
	}
	// On disk before it is seen: what is recorded as done must be.
	err = errors.Join(err, f.Chown(w.uid, w.gid), f.Chmod(mode), f.Sync())
	if err == nil && !named {
		err = link(f, folder, path.Base(temp))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return w.root.Rename(temp, name)
}

// unnamed creates a file in a folder that no name leads to: it ends with the process that
// writes it, unless link names it.
func unnamed(folder *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(folder.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), folder.Name()), nil
}

func link(f, folder *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(folder.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// keepAttributes gives the file that is to replace name the attributes of name, if it exists:
// access lists and security labels.
func keepAttributes(w *workspace, name string, f *os.File) error {
	old, err := w.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer old.Close()
	return restore.CopyXattrs(old, f)
}

// makeDirs makes the folders of a path that ends in "/" or is empty, owned by
// the jail.
func (w *workspace) makeDirs(dir string) error {
	for i, c := range dir {
		if c != '/' || i == 0 {
			continue
		}
		part := dir[:i]
		err := w.root.Mkdir(part, newDir)
		if errors.Is(err, fs.ErrExist) {
			continue // if it is no folder, the next step says so
		}
		if err != nil {
			return err
		}
		// Lchown changes the link itself, in case the file was replaced by one.
		if err := w.root.Lchown(part, w.uid, w.gid); err != nil {
			return fmt.Errorf("change the owner of the folder %s: %w", part, err)
		}
	}
	return nil
}
