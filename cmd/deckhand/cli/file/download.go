package file

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/zeebo/blake3"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// download is files on their way out of a workspace.
type download struct {
	client     *sdk.Client
	root       *os.Root
	owner, ref string
	// above is the folder of what was asked for, which the copies are not in.
	above string

	files, there int
	bytes        int64
}

const (
	// partPrefix begins the name, in the local folder itself, of what came of a
	// file that is not complete. Path and digest follow, as one digest: it is
	// never gone on with for another content.
	partPrefix = ".deckhand-download-"
	// partAge is how long it is kept.
	partAge = 24 * time.Hour
	// downloadAtOnce is how many files one call asks for.
	downloadAtOnce = 100_000
)

func (d *download) run(ctx context.Context, e *env.Env, name string) error {
	entries, skipped, err := d.describe(ctx, name)
	if err != nil {
		return err
	}
	d.sweep()
	var wanted, dirs []*deckhandv1.UploadEntry
	for _, x := range entries {
		missing, err := d.prepare(x)
		if err != nil {
			return copying(x, err)
		}
		switch {
		case x.GetType() == "dir":
			dirs = append(dirs, x)
		case missing:
			wanted = append(wanted, x)
		case x.GetType() == "file":
			d.there++
		}
	}
	for part := range slices.Chunk(wanted, downloadAtOnce) {
		if err := d.fetch(ctx, part); err != nil {
			return err
		}
	}
	for _, x := range slices.Backward(dirs) {
		// Once nothing more is put into them; to write oneself is never taken away.
		if err := d.root.Chmod(d.local(x), modeOf(x)|0o700); err != nil {
			return copying(x, err)
		}
	}
	e.Notef("%d files, %d bytes copied; %d were there already", d.files, d.bytes, d.there)
	for _, name := range skipped {
		e.Notef("not copied: %s", termsafe.Line(name))
	}
	return nil
}

func copying(e *deckhandv1.UploadEntry, err error) error {
	return fmt.Errorf("copy %s: %w", termsafe.Line(e.GetPath()), err)
}

func (d *download) describe(ctx context.Context, name string) (entries []*deckhandv1.UploadEntry, skipped []string, err error) {
	req := &deckhandv1.DescribeFilesRequest{Paths: []string{name}, Workspace: &deckhandv1.DescribeFilesRequest_AgentId{AgentId: d.ref}}
	if d.owner == "task" {
		req.Workspace = &deckhandv1.DescribeFilesRequest_TaskId{TaskId: d.ref}
	}
	stream, err := d.client.Files.DescribeFiles(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	for stream.Receive() {
		if len(stream.Msg().GetMissing()) > 0 {
			return nil, nil, fault.New(fault.NotFound, "nothing in the workspace is at %q", name).WithFix("see what there is: deckhand %s files ls %s", d.owner, d.ref)
		}
		entries, skipped = append(entries, stream.Msg().GetEntries()...), append(skipped, stream.Msg().GetSkipped()...)
	}
	return entries, skipped, stream.Err()
}

// sweep removes what came of files long ago.
func (d *download) sweep() {
	names, _ := fs.ReadDir(d.root.FS(), ".")
	for _, one := range names {
		info, err := one.Info()
		if err == nil && strings.HasPrefix(one.Name(), partPrefix) && info.Mode().IsRegular() && time.Since(info.ModTime()) > partAge {
			_ = d.root.Remove(one.Name())
		}
	}
}

// local is what an entry is called in the local folder.
func (d *download) local(e *deckhandv1.UploadEntry) string {
	name := path.Clean(e.GetPath())
	if d.above != "." {
		name = strings.TrimPrefix(name, d.above+"/")
	}
	return filepath.FromSlash(name)
}

// prepare makes folders and links, and says of a file whether it is to be sent,
// and from which byte on.
func (d *download) prepare(e *deckhandv1.UploadEntry) (missing bool, err error) {
	name := d.local(e)
	if dir := filepath.Dir(name); dir != "." {
		if err := d.root.MkdirAll(dir, 0o755); err != nil {
			return false, err
		}
	}
	switch e.GetType() {
	case "dir":
		return false, d.root.MkdirAll(name, 0o755)
	case "symlink":
		_ = d.root.Remove(name)
		return false, d.root.Symlink(e.GetTarget(), name)
	case "file":
	default:
		return false, fault.New(fault.Internal, "the hub says that %s is a %q", termsafe.Line(name), e.GetType())
	}
	have, size, err := d.digest(name)
	if err == nil && size == e.GetSize() && have == e.GetDigest() {
		return false, d.root.Chmod(name, modeOf(e))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	e.Offset = 0
	if info, err := d.root.Lstat(partOf(e)); err == nil && info.Size() <= e.GetSize() {
		e.Offset = info.Size()
	}
	return true, nil
}

func partOf(e *deckhandv1.UploadEntry) string {
	sum := blake3.Sum256([]byte(e.GetPath() + "\x00" + e.GetDigest()))
	return partPrefix + hex.EncodeToString(sum[:16])
}

// modeOf is an entry's mode, without the right of others to write.
func modeOf(e *deckhandv1.UploadEntry) fs.FileMode { return fs.FileMode(e.GetMode()).Perm() &^ 0o022 }

func (d *download) digest(name string) (string, int64, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, fs.ErrNotExist
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := blake3.New()
	size, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// fetch receives files.
func (d *download) fetch(ctx context.Context, files []*deckhandv1.UploadEntry) error {
	req := &deckhandv1.DownloadFilesRequest{Workspace: &deckhandv1.DownloadFilesRequest_AgentId{AgentId: d.ref}}
	if d.owner == "task" {
		req.Workspace = &deckhandv1.DownloadFilesRequest_TaskId{TaskId: d.ref}
	}
	for _, e := range files {
		req.Entries = append(req.Entries, &deckhandv1.UploadEntry{Path: e.GetPath(), Type: "file", Size: e.GetSize(), Offset: e.GetOffset()})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.client.Files.DownloadFiles(ctx, req)
	if err != nil {
		return err
	}
	defer stream.Close()
	var now *incoming
	defer func() { now.close() }()
	for next := 0; ; {
		more := stream.Receive()
		if more && stream.Msg().GetEntry() == nil {
			if err := now.write(stream.Msg().GetData()); err != nil {
				return err
			}
			continue
		}
		if err := stream.Err(); err != nil && !connect.IsWireError(err) && ctx.Err() == nil {
			return fault.New(fault.Unavailable, "the copy broke: %v", err).WithFix("give the same command again: it goes on from there")
		} else if err != nil {
			return err
		}
		if err := d.done(now); err != nil {
			return err
		}
		now = nil
		switch {
		case !more && next < len(files):
			return fault.New(fault.Internal, "of %d files the hub sent %d", len(files), next).WithFix("get it again")
		case !more:
			return nil
		case next == len(files):
			return fault.New(fault.Internal, "the hub sent more files than it was asked for")
		}
		// What was asked for, whatever the hub says that it is.
		if now, err = d.begin(files[next]); err != nil {
			return copying(files[next], err)
		}
		next++
	}
}

// incoming is a file that is being received.
type incoming struct {
	entry *deckhandv1.UploadEntry
	file  *os.File
	hash  hash.Hash
	// at is how much of the file there is.
	at int64
}

// begin goes on with what came of a file, which is its own while it is open.
func (d *download) begin(e *deckhandv1.UploadEntry) (*incoming, error) {
	part := partOf(e)
	f, err := d.root.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	in := &incoming{entry: e, file: f, hash: blake3.New()}
	busy := fault.New(fault.Precondition, "another copy of %s into this folder is in progress", termsafe.Line(e.GetPath())).WithFix("wait for it, and get it again")
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		in.close()
		return nil, busy
	}
	// The other copy may have finished since.
	named, err := d.root.Lstat(part)
	if mine, ferr := f.Stat(); err != nil || ferr != nil || !os.SameFile(named, mine) {
		in.close()
		return nil, busy
	}
	in.at, err = io.CopyN(in.hash, f, e.GetOffset())
	if err = errors.Join(err, f.Truncate(in.at)); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (in *incoming) close() {
	if in != nil {
		_ = in.file.Close()
	}
}

func (in *incoming) write(data []byte) error {
	if in == nil {
		return fault.New(fault.Internal, "the hub sent data of no file")
	}
	if in.at+int64(len(data)) > in.entry.GetSize() {
		return fault.New(fault.Internal, "the hub sent more than the %d bytes that %s has", in.entry.GetSize(), termsafe.Line(in.entry.GetPath()))
	}
	_, _ = in.hash.Write(data)
	n, err := in.file.Write(data)
	in.at += int64(n)
	if err != nil {
		return copying(in.entry, err)
	}
	return nil
}

// done puts a file that has come whole in its place; nil for none.
func (d *download) done(in *incoming) error {
	if in == nil {
		return nil
	}
	e, part, name := in.entry, partOf(in.entry), d.local(in.entry)
	if have := hex.EncodeToString(in.hash.Sum(nil)); have != e.GetDigest() || in.at != e.GetSize() {
		in.close()
		_ = d.root.Remove(part)
		return fault.New(fault.Aborted, "%s came with %d bytes of digest %s, not %d of %s", termsafe.Line(e.GetPath()), in.at, have, e.GetSize(), e.GetDigest()).
			WithCode(fault.FileConflict).WithFix("it changed while it was sent, or was damaged on the way: get it again")
	}
	// Renamed while it is locked.
	err := d.root.Rename(part, name)
	if err = errors.Join(err, in.file.Close()); err == nil {
		err = d.root.Chmod(name, modeOf(e))
	}
	if at := e.GetModifiedAt(); err == nil && at != nil {
		err = d.root.Chtimes(name, at.AsTime(), at.AsTime())
	}
	if err != nil {
		return copying(e, err)
	}
	d.files, d.bytes = d.files+1, d.bytes+in.at-e.GetOffset()
	return nil
}
