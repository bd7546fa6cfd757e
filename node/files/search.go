package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Bounds of one search.
const (
	defaultMatches = 100
	maxMatches     = 1000
	// searchFile is up to which size a file is looked into, and searchBytes how
	// much one search reads in all.
	searchFile  = 16 << 20
	searchBytes = 512 << 20
	searchLine  = 64 << 10
	shownLine   = 400
	binarySniff = 8000
)

type search struct {
	w       *workspace
	match   *regexp.Regexp
	name    string
	limit   int
	read    int64
	out     nodev1.SearchFilesResponse
	stopped bool
}

// SearchFiles implements nodev1.FileServiceServer. Binary files are left out,
// links are not followed.
func (s *Service) SearchFiles(ctx context.Context, req *nodev1.SearchFilesRequest) (*nodev1.SearchFilesResponse, error) {
	w, name, err := s.open(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	text := req.GetPattern()
	if !req.GetRegexp() {
		text = regexp.QuoteMeta(text)
	}
	if req.GetIgnoreCase() {
		text = "(?i)" + text
	}
	match, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "pattern is no expression: %v", err).WithFix("use RE2 syntax, or search for a plain text")
	}
	if _, err := path.Match(req.GetName(), ""); err != nil {
		return nil, fault.New(fault.Invalid, "name %q is no pattern of names", req.GetName()).WithFix(`for example "*.go"`)
	}
	limit := int(req.GetMaxMatches())
	if limit <= 0 {
		limit = defaultMatches
	}
	one := &search{w: w, match: match, name: req.GetName(), limit: min(limit, maxMatches)}
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	if info.IsDir() {
		err = one.folder(ctx, name, 0)
	} else {
		err = one.file(name)
	}
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	return &one.out, nil
}

func (s *search) folder(ctx context.Context, dir string, depth int) error {
	if depth > maxDepth {
		s.out.Truncated = true
		return nil
	}
	names, err := (&listing{w: s.w, limit: maxList}).names(dir)
	if err != nil {
		return err
	}
	if len(names) > maxList {
		s.out.Truncated = true
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.stopped {
			return nil
		}
		name := path.Join(dir, base)
		info, err := s.w.root.Lstat(name)
		switch {
		case err != nil:
		case info.IsDir():
			err = s.folder(ctx, name, depth+1)
		case info.Mode().IsRegular():
			err = s.file(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !escapes(err) && fault.As(err) == nil {
			return err // anything but what was replaced meanwhile
		}
	}
	return nil
}

// file looks into one file, line by line; a long line is cut.
func (s *search) file(name string) error {
	if fits, _ := path.Match(s.name, path.Base(name)); s.name != "" && !fits {
		return nil
	}
	f, info, err := s.w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > searchFile || s.read+info.Size() > searchBytes {
		s.out.Truncated = true
		return nil
	}
	s.read += info.Size()
	r := bufio.NewReaderSize(f, searchLine)
	head, err := r.Peek(binarySniff)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	s.out.Files++
	shown, _ := printable(name)
	for number, begins := int32(1), true; ; {
		line, err := r.ReadSlice('\n')
		if begins && s.match.Match(bytes.TrimSuffix(line, []byte("\n"))) {
			if len(s.out.Matches) == s.limit {
				s.out.Truncated, s.stopped = true, true
				return nil
			}
			text := bytes.TrimRight(line, "\r\n")
			s.out.Matches = append(s.out.Matches, &nodev1.FileMatch{
				Path: shown, Line: number, Text: bytes.Clone(text[:min(len(text), shownLine)]),
			})
		}
		switch {
		case err == nil:
			number, begins = number+1, true
		case errors.Is(err, bufio.ErrBufferFull):
			begins = false // the rest of a line that is too long
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}
