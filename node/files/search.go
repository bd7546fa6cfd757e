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
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/grep"
	"github.com/deckhand-sh/deckhand/node/gitignore"
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
	// searchTime is for how long one search looks.
	searchTime  = 5 * time.Second
	shownLine   = 400
	binarySniff = 8000
)

type search struct {
	w       *workspace
	match   func(ctx context.Context, line []byte) (bool, error)
	name    string
	skip    bool // what Git ignores
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
	match, err := matcher(req)
	if err != nil {
		return nil, err
	}
	if _, err := path.Match(req.GetName(), ""); err != nil {
		return nil, fault.New(fault.Invalid, "name %q is not a file name pattern", req.GetName()).WithFix(`for example "*.go"`)
	}
	limit := int(req.GetMaxMatches())
	if limit <= 0 {
		limit = defaultMatches
	}
	one := &search{w: w, match: match, skip: req.GetSkipIgnored(), name: req.GetName(), limit: min(limit, maxMatches)}
	release, err := s.searches.Take(ctx, req.GetCaller())
	if errors.Is(err, grep.ErrBusy) {
		return nil, fault.New(fault.Exhausted, "%v", err).WithFix("wait for one to end")
	}
	if err != nil {
		return nil, err
	}
	defer release()
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	if info.IsDir() {
		rules := gitignore.Rules{}
		if one.skip {
			rules, one.skip = w.ignoreRules(name)
		}
		err = one.folder(limited, name, rules, 0)
	} else {
		err = one.file(limited, name)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		one.out.Truncated, err = true, nil
	}
	if err != nil {
		return nil, explain(req.GetPath(), err)
	}
	return &one.out, nil
}

// matcher returns what reports whether a line matches what a request asks for.
func matcher(req *nodev1.SearchFilesRequest) (func(context.Context, []byte) (bool, error), error) {
	text := req.GetPattern()
	if !req.GetRegexp() && !req.GetIgnoreCase() {
		return func(ctx context.Context, line []byte) (bool, error) {
			return bytes.Contains(line, []byte(text)), ctx.Err()
		}, nil
	}
	if !req.GetRegexp() {
		text = regexp.QuoteMeta(text)
	}
	if req.GetIgnoreCase() {
		text = "(?i)" + text
	}
	expression, err := grep.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "pattern: %v", err).WithFix("use a simpler expression, or search for a plain text")
	}
	return expression.Match, nil
}

func (s *search) folder(ctx context.Context, dir string, rules gitignore.Rules, depth int) error {
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
		case s.skip && rules.Ignored(name, info.IsDir()):
			s.out.Ignored++
		case info.IsDir():
			below := rules
			if s.skip {
				below = s.w.ignoreRulesIn(name, rules)
			}
			err = s.folder(ctx, name, below, depth+1)
		case info.Mode().IsRegular():
			err = s.file(ctx, name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !escapes(err) && fault.As(err) == nil {
			return err // anything but what was replaced meanwhile
		}
	}
	return nil
}

// file looks into one file, line by line; a long line is cut.
func (s *search) file(ctx context.Context, name string) error {
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
		found := false
		if begins {
			var stopped error
			if found, stopped = s.match(ctx, bytes.TrimSuffix(line, []byte("\n"))); stopped != nil {
				return stopped
			}
		}
		if found {
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
