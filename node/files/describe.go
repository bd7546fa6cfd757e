package files

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/zeebo/blake3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/gitignore"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	defaultDescribed      = 10_000
	defaultDescribedBytes = 2 << 30
	// describedAtOnce is how many entries one message has.
	describedAtOnce = 500
	// maxSaid bounds what is said of names that cannot be copied.
	maxSaid = 100
)

// DescribeFiles implements nodev1.FileServiceServer.
func (s *Service) DescribeFiles(req *nodev1.DescribeFilesRequest, stream grpc.ServerStreamingServer[nodev1.DescribeFilesResponse]) error {
	if err := s.describe(req, stream); err != nil {
		return fault.ToGRPC(err)
	}
	return nil
}

func (s *Service) describe(req *nodev1.DescribeFilesRequest, stream grpc.ServerStreamingServer[nodev1.DescribeFilesResponse]) error {
	w, _, err := s.open(req.GetJailId(), "")
	if err != nil {
		return err
	}
	defer w.close()
	d := &description{
		ctx: stream.Context(), w: w, found: map[string]*nodev1.UploadEntry{}, skipped: map[string]bool{},
		maxFiles: defaultDescribed, bytesLeft: defaultDescribedBytes, visible: req.GetVisible(), maxFileBytes: req.GetMaxFileBytes(),
	}
	if n := req.GetMaxFiles(); n > 0 {
		d.maxFiles = int(n)
	}
	if n := req.GetMaxBytes(); n > 0 {
		d.bytesLeft = n
	}
	out := &nodev1.DescribeFilesResponse{}
	for _, named := range req.GetPaths() {
		find := d.named
		if req.GetExact() {
			find = d.exact
		}
		there, err := find(named)
		if err != nil {
			return explain(named, err)
		}
		if !there {
			out.Missing = append(out.Missing, named)
		}
	}
	names := make([]string, 0, len(d.found))
	for name := range d.found {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := d.found[name]
		if e.GetType() == "file" {
			err := d.digest(e)
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return explain(name, err)
			}
		}
		out.Entries = append(out.Entries, e)
		if len(out.Entries) == describedAtOnce {
			if err := stream.Send(out); err != nil {
				return err
			}
			out = &nodev1.DescribeFilesResponse{}
		}
	}
	for name := range d.skipped {
		out.Skipped = append(out.Skipped, name)
	}
	slices.Sort(out.Skipped)
	return stream.Send(out)
}

// description is what was found so far.
type description struct {
	ctx context.Context //nolint:containedctx // of one call
	w   *workspace
	// found is what there is, by path.
	found     map[string]*nodev1.UploadEntry
	skipped   map[string]bool
	maxFiles  int
	bytesLeft int64
	// visible leaves out what people do not look at, and maxFileBytes larger files, if it is
	// not 0.
	visible      bool
	maxFileBytes int64
}

// unseen reports whether the name of a file or folder is of those that visible leaves out.
func unseen(name string) bool {
	return name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, ".") && name != gitignore.FileName
}

// named finds the files that a path or pattern matches, and reports whether
// there are any.
func (d *description) named(text string) (bool, error) {
	name, err := clean(text)
	if err != nil {
		return false, err
	}
	if info, err := d.w.root.Lstat(name); err == nil {
		return true, d.tree(name, info, 0, nil)
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return false, err
	}
	if !strings.ContainsAny(name, `*?[{\`) {
		return false, nil
	}
	wanted, err := newPattern(name)
	if err != nil {
		return false, err
	}
	base, _ := doublestar.SplitPattern(name)
	info, err := d.w.root.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	before := len(d.found) + len(d.skipped)
	err = d.tree(base, info, 0, wanted.match)
	return len(d.found)+len(d.skipped) > before, err
}

// exact finds what is at one path.
func (d *description) exact(text string) (bool, error) {
	name, err := clean(text)
	if err != nil {
		return false, err
	}
	info, err := d.w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, d.add(name, info)
}

// tree adds what is at a path and below it; with fits, only what fits and what
// is below that.
func (d *description) tree(name string, info fs.FileInfo, depth int, fits func(string) bool) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return fault.New(fault.Exhausted, "folders are nested more than %d deep at %q", maxDepth, name).WithFix("name a folder further up")
	}
	// Deckhand's own files are not artifacts unless they are named.
	if strings.HasPrefix(name, PartPrefix) || name == ownFolder && depth > 0 {
		return nil
	}
	if fits != nil && name != "." && fits(name) {
		fits = nil
	}
	if name != "." && fits == nil {
		if err := d.add(name, info); err != nil {
			return err
		}
	}
	if !info.IsDir() {
		return nil
	}
	names, err := d.children(name)
	if err != nil {
		return err
	}
	for _, child := range names {
		child = path.Join(name, child)
		info, err := d.w.root.Lstat(child)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		err = d.tree(child, info, depth+1, fits)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !escapes(err) {
			return err // anything but a folder that was replaced meanwhile
		}
	}
	return nil
}

// ownFolder has an agent's notes to itself.
const ownFolder = ".deckhand"

func (d *description) children(dir string) ([]string, error) {
	f, err := d.w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		more, err := f.Readdirnames(1024)
		if d.visible {
			more = slices.DeleteFunc(more, unseen)
		}
		names = append(names, more...)
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		if len(names) > d.maxFiles {
			return nil, d.tooMany()
		}
	}
}

func (d *description) tooMany() error {
	return fault.New(fault.Exhausted, "there are more than %d names", d.maxFiles).WithFix("name fewer files, or pack them into one")
}

func (d *description) add(name string, info fs.FileInfo) error {
	if d.found[name] != nil || d.maxFileBytes > 0 && info.Mode().IsRegular() && info.Size() > d.maxFileBytes {
		return nil
	}
	e := &nodev1.UploadEntry{Path: name, Mode: uint32(info.Mode().Perm())}
	switch mode := info.Mode(); {
	case !utf8.ValidString(name) || !mode.IsRegular() && !mode.IsDir() && mode&fs.ModeSymlink == 0:
		if len(d.skipped) < maxSaid {
			d.skipped[strconv.Quote(name)] = true
		}
		return nil
	case mode.IsDir():
		e.Type = "dir"
	case mode&fs.ModeSymlink != 0:
		target, err := d.w.root.Readlink(name)
		if err != nil {
			return err
		}
		e.Type, e.Target = "symlink", target
		if !utf8.ValidString(target) {
			d.skipped[strconv.Quote(name)] = true
			return nil
		}
	default:
		e.Type, e.Size, e.ModifiedAt = "file", info.Size(), timestamppb.New(info.ModTime())
		if d.bytesLeft -= info.Size(); d.bytesLeft < 0 {
			return fault.New(fault.Exhausted, "the files have more bytes than can be copied at once, with %q", name).WithFix("name fewer files, or pack them into one")
		}
	}
	if len(d.found) == d.maxFiles {
		return d.tooMany()
	}
	d.found[name] = e
	return nil
}

// digest fills in what a file's content is.
func (d *description) digest(e *nodev1.UploadEntry) error {
	f, _, err := d.w.openRegular(e.GetPath(), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := blake3.New()
	size, err := io.Copy(hash, io.LimitReader(&during{d.ctx, f}, e.GetSize()+d.bytesLeft))
	if err != nil {
		return err
	}
	e.Size, e.Digest = size, hex.EncodeToString(hash.Sum(nil))
	return nil
}

// during reads until a context ends.
type during struct {
	ctx context.Context //nolint:containedctx // of one call
	r   io.Reader
}

func (r *during) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
