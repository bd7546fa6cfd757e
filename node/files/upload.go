package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/zeebo/blake3"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// PartPrefix begins the name, in a workspace's own folder, of what has been
// uploaded of a file that is not complete. It is root's.
const PartPrefix = ".deckhand-upload-"

// CompareFiles implements nodev1.FileServiceServer.
func (s *Service) CompareFiles(ctx context.Context, req *nodev1.CompareFilesRequest) (*nodev1.CompareFilesResponse, error) {
	w, into, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	out := &nodev1.CompareFilesResponse{}
	for _, e := range req.GetEntries() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, err := w.sendFrom(into, e)
		if err != nil {
			return nil, explain(e.GetPath(), err)
		}
		out.SendFrom = append(out.SendFrom, from)
	}
	return out, nil
}

func (w *workspace) sendFrom(into string, e *nodev1.UploadEntry) (int64, error) {
	if e.GetType() != "file" {
		return 0, nil
	}
	name, err := below(into, e.GetPath())
	if err != nil {
		return 0, err
	}
	f, info, err := w.openRegular(name, os.O_RDONLY)
	if err == nil {
		defer f.Close()
		if info.Size() == e.GetSize() && info.Mode().Perm() == fs.FileMode(e.GetMode()) {
			hash := blake3.New()
			if _, err := io.Copy(hash, f); err != nil {
				return 0, err
			}
			if hex.EncodeToString(hash.Sum(nil)) == e.GetDigest() {
				return -1, nil
			}
		}
	}
	part, err := w.root.Lstat(partName(e))
	if err != nil || !part.Mode().IsRegular() || part.Size() > e.GetSize() {
		return 0, nil //nolint:nilerr // there is nothing to go on from
	}
	return part.Size(), nil
}

// below returns a path in a folder of the workspace, refusing one that leaves
// that folder.
func below(into, name string) (string, error) {
	rel, err := clean(name)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "/") || rel == "." {
		return "", fault.New(fault.Invalid, "path %q is not below the folder that is uploaded", name).WithFix("use relative paths")
	}
	return path.Join(into, rel), nil
}

// partName derives the name of a partial file from its final content and path:
// the same content at two paths is uploaded twice.
func partName(e *nodev1.UploadEntry) string {
	sum := sha256.Sum256([]byte(e.GetDigest() + "\x00" + e.GetPath()))
	return PartPrefix + hex.EncodeToString(sum[:16])
}

// UploadFiles implements nodev1.FileServiceServer.
func (s *Service) UploadFiles(stream grpc.ClientStreamingServer[nodev1.UploadFilesRequest, nodev1.UploadFilesResponse]) error {
	out, err := s.upload(stream)
	if err != nil {
		return fault.ToGRPC(err)
	}
	return stream.SendAndClose(out)
}

func (s *Service) upload(stream grpc.ClientStreamingServer[nodev1.UploadFilesRequest, nodev1.UploadFilesResponse]) (*nodev1.UploadFilesResponse, error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	begin := first.GetBegin()
	if begin == nil {
		return nil, fault.New(fault.Invalid, "an upload begins with begin")
	}
	w, into, err := s.open(begin.GetJailId(), begin.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	if begin.GetShared() && into == "." {
		return nil, fault.New(fault.Invalid, "the workspace itself cannot be shared").WithFix("name a folder for the shared files")
	}
	u := &upload{w: w, into: into, shared: begin.GetShared(), lock: s.lock(begin.GetJailId())}
	id := begin.GetOperationId()
	if s.cfg.Changes != nil {
		keep := id != ""
		if !keep {
			id = ident.New("files")
		}
		if err := s.cfg.Changes.Begin(stream.Context(), begin.GetJailId(), id, keep); err != nil {
			return nil, err
		}
		defer func() {
			u.out.Workspace = s.cfg.Changes.End(context.WithoutCancel(stream.Context()), begin.GetJailId(), id, keep)
		}()
	}
	u.small = newWriters(u)
	stopped := false
	stop := func() error {
		stopped = true
		files, err := u.small.stop()
		u.out.Files += files
		return err
	}
	defer func() {
		u.close()
		if !stopped {
			_ = stop() // the first error is said already
		}
	}()
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			if err := errors.Join(u.finish(), stop()); err != nil {
				return nil, err
			}
			u.setModes()
			return &u.out, nil
		case err != nil:
			return nil, err
		case m.GetEntry() != nil:
			err = u.entry(m.GetEntry())
		default:
			err = u.data(m.GetData())
		}
		if err != nil {
			return nil, err
		}
	}
}

// upload is a tree that is being received.
type upload struct {
	w    *workspace
	into string
	// shared says that what comes is for reading only.
	shared bool
	lock   interface {
		Lock()
		Unlock()
	}
	out nodev1.UploadFilesResponse
	// made is the folder that was made last: most files are in the same one.
	made string
	dirs []*nodev1.UploadEntry
	// small writes the small files.
	small *writers

	now  *nodev1.UploadEntry // the file whose data comes; nil for none
	name string              // where it goes
	file *os.File            // nil for a small one
	hash hash.Hash
	part []byte // of a small one
	at   int64
}

func (u *upload) close() {
	if u.file != nil {
		_ = u.file.Close() // what there is of it is kept, to go on from
		u.file = nil
	}
}

func (u *upload) entry(e *nodev1.UploadEntry) error {
	if err := u.finish(); err != nil {
		return err
	}
	name, err := below(u.into, e.GetPath())
	if err != nil {
		return err
	}
	if err := u.folders(name, e.GetPath()); err != nil {
		return explain(e.GetPath(), err)
	}
	e = u.dressed(e)
	switch e.GetType() {
	case "dir":
		if u.shared {
			return explain(e.GetPath(), u.w.share(u.into, name+"/"))
		}
		u.dirs = append(u.dirs, e)
		return explain(e.GetPath(), u.w.makeDirs(name+"/"))
	case "symlink":
		return explain(e.GetPath(), u.symlink(name, e))
	case "file":
		u.name = name
		if e.GetSize() <= smallFile && e.GetOffset() == 0 {
			u.now, u.at, u.part = e, 0, nil
			return u.small.failed()
		}
		return explain(e.GetPath(), u.begin(e))
	}
	return fault.New(fault.Invalid, "%q is a %s, which cannot be uploaded", e.GetPath(), e.GetType()).WithFix("send files, folders and links")
}

// folders makes those that a name is in; asked is the name as it came.
func (u *upload) folders(name, asked string) error {
	dir, _ := path.Split(name)
	if dir == u.made {
		return nil
	}
	u.made = dir
	if u.shared {
		return u.w.share(u.into, dir)
	}
	if err := u.w.unshared(name, asked); err != nil {
		return err
	}
	return u.w.makeDirs(dir)
}

// owner is whose what is uploaded is.
func (u *upload) owner() (uid, gid int) {
	if u.shared {
		return 0, 0
	}
	return u.w.uid, u.w.gid
}

func (u *upload) symlink(name string, e *nodev1.UploadEntry) error {
	u.lock.Lock()
	defer u.lock.Unlock()
	temp := PartPrefix + ident.New("link")
	if err := u.w.root.Symlink(e.GetTarget(), temp); err != nil {
		return err
	}
	uid, gid := u.owner()
	err := errors.Join(u.expected(name, e), u.w.root.Lchown(temp, uid, gid))
	var made fs.FileInfo
	if err == nil {
		made, err = u.w.root.Lstat(temp)
	}
	if err == nil {
		err = u.w.root.Rename(temp, name)
	}
	if err != nil {
		_ = u.w.root.Remove(temp)
		return err
	}
	if !u.shared {
		return nil
	}
	if target, err := u.w.root.Readlink(name); err != nil || target != e.GetTarget() {
		return errors.Join(u.w.ours(name, nil), err)
	}
	return u.w.ours(name, made)
}

func (u *upload) begin(e *nodev1.UploadEntry) (err error) {
	temp := partName(e)
	flags := os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if e.GetOffset() == 0 {
		flags |= os.O_TRUNC
	}
	if u.file, err = u.w.root.OpenFile(temp, flags, 0o600); err != nil {
		return err
	}
	info, err := u.file.Stat()
	if err != nil {
		return err
	}
	// A jail may own its workspace's folder, and have put something there.
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return fault.New(fault.Aborted, "the partial upload of %q is not the file that this node wrote", e.GetPath()).
			WithFix("delete %s in the workspace and begin again", temp)
	}
	u.hash = blake3.New()
	if info.Size() < e.GetOffset() {
		return fault.New(fault.Aborted, "%q has %d bytes so far, and the upload continues at %d", e.GetPath(), info.Size(), e.GetOffset()).
			WithFix("compare again, and continue from the offset that is returned")
	}
	if _, err := io.CopyN(u.hash, u.file, e.GetOffset()); err != nil {
		return err
	}
	if err := u.file.Truncate(e.GetOffset()); err != nil {
		return err
	}
	u.now, u.at = e, e.GetOffset()
	return nil
}

func (u *upload) data(data []byte) error {
	if u.now == nil {
		return fault.New(fault.Invalid, "data without a file that it is of").WithFix("send the entry first")
	}
	if u.at+int64(len(data)) > u.now.GetSize() {
		return fault.New(fault.Invalid, "%q was announced with %d bytes, and more were sent", u.now.GetPath(), u.now.GetSize()).
			WithFix("the file changed while it was sent: begin again")
	}
	if u.file == nil {
		u.at += int64(len(data))
		u.out.Bytes += int64(len(data))
		if u.part == nil {
			u.part = data // most come in one piece, which nobody else has
		} else {
			u.part = append(u.part, data...)
		}
		return nil
	}
	_, _ = u.hash.Write(data)
	n, err := u.file.Write(data)
	u.at += int64(n)
	u.out.Bytes += int64(n)
	return explain(u.now.GetPath(), err)
}

// finish puts the file that is being received in its place.
func (u *upload) finish() error {
	e := u.now
	if e == nil {
		return nil
	}
	defer u.close()
	if u.at != e.GetSize() {
		return fault.New(fault.Invalid, "of %q %d bytes came, not %d", e.GetPath(), u.at, e.GetSize()).WithFix("send all of it")
	}
	u.now = nil
	if u.file == nil {
		u.small.queue <- small{e, u.name, u.part}
		return u.small.failed()
	}
	temp := partName(e)
	if have := hex.EncodeToString(u.hash.Sum(nil)); !strings.EqualFold(have, e.GetDigest()) {
		_ = u.w.root.Remove(temp)
		return wrongDigest(e, have)
	}
	written, err := u.complete(u.file, e)
	if err == nil {
		err = u.place(temp, u.name, e, written)
	}
	if fault.As(err) != nil {
		_ = u.w.root.Remove(temp) // it is not wanted there
	}
	if err != nil {
		return explain(e.GetPath(), fmt.Errorf("put an uploaded file in its place: %w", err))
	}
	u.out.Files++
	return nil
}

// place gives a complete file its name, unless something else than what is
// expected is there.
func (u *upload) place(temp, name string, e *nodev1.UploadEntry, written fs.FileInfo) error {
	u.lock.Lock()
	defer u.lock.Unlock()
	if err := u.expected(name, e); err != nil {
		return err
	}
	if err := u.w.root.Rename(temp, name); err != nil || !u.shared {
		return err
	}
	return u.w.ours(name, written)
}

func (u *upload) expected(name string, e *nodev1.UploadEntry) error {
	want := e.GetExpectDigest()
	if want == "" {
		return nil
	}
	have := "something other than a file"
	switch info, err := u.w.root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		have = absent
	case err != nil:
		return err
	case info.Mode().IsRegular():
		f, _, err := u.w.openRegular(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		hash := blake3.New()
		if _, err := io.Copy(hash, f); err != nil {
			return err
		}
		have = hex.EncodeToString(hash.Sum(nil))
	}
	if !strings.EqualFold(have, want) {
		return fault.New(fault.Aborted, "%q is %s, not %s: it was changed in the meantime", e.GetPath(), have, want).
			WithCode(fault.FileConflict).WithFix("look at it and merge")
	}
	return nil
}

// setModes gives folders their modes once nothing more is put into them.
func (u *upload) setModes() {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if name, err := below(u.into, u.dirs[i].GetPath()); err == nil {
			// One that was replaced in the meantime has the mode that its maker
			// chose.
			_ = u.w.root.Chmod(name, fs.FileMode(u.dirs[i].GetMode()).Perm())
		}
	}
}
