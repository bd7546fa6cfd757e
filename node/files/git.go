package files

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // Git names objects by it
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/deckhand-sh/deckhand/node/gitignore"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// maxIndex is the size of a .git/index that is read, maxHead that of a .git/HEAD, in
	// bytes.
	maxIndex = 8 << 20
	maxHead  = 1 << 10
	// maxCompared is how much content is read to tell whether files have changed.
	maxCompared = 64 << 20
	// maxSeen is how many files and folders are looked at.
	maxSeen = 200_000
	// maxNamed is how many paths of a kind are named.
	maxNamed = 20
)

// GitStatus implements nodev1.FileServiceServer. It reads the index and runs nothing: Git
// itself would run programs that the repository's configuration names.
func (s *Service) GitStatus(ctx context.Context, req *nodev1.GitStatusRequest) (*nodev1.GitStatusResponse, error) {
	w, _, err := s.open(req.GetJailId(), "")
	if err != nil {
		return nil, err
	}
	defer w.close()
	head, err := w.begin(".git/HEAD", maxHead)
	if err != nil {
		return &nodev1.GitStatusResponse{}, nil // no repository
	}
	branch := branchOf(string(head))
	if branch == "" {
		return &nodev1.GitStatusResponse{}, nil
	}
	tracked, err := w.index()
	if err != nil {
		return &nodev1.GitStatusResponse{Branch: branch}, nil // of a kind that this cannot read
	}
	st := status{w: w, out: &nodev1.GitStatusResponse{Branch: branch, Compared: true}, folders: map[string]bool{}}
	err = st.compare(ctx, tracked)
	if err == nil {
		err = st.find(ctx, tracked)
	}
	if errors.Is(err, errTooMuch) {
		return &nodev1.GitStatusResponse{Branch: branch}, nil
	}
	return st.out, explain("", err)
}

var commit = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// branchOf reads a .git/HEAD.
func branchOf(head string) string {
	head = strings.TrimSpace(head)
	if branch, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok && !strings.ContainsAny(branch, "\n\r") {
		return strings.ToValidUTF8(branch, "\uFFFD")
	}
	if commit.MatchString(head) {
		const short = 12
		return "detached at " + head[:short]
	}
	return ""
}

// index returns what .git/index says of the tracked files, by their paths.
func (w *workspace) index() (map[string]*index.Entry, error) {
	f, info, err := w.openRegular(".git/index", os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was added yet
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxIndex {
		return nil, fmt.Errorf("the index has %d bytes", info.Size())
	}
	read, err := decode(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	tracked := make(map[string]*index.Entry, len(read.Entries))
	for _, e := range read.Entries {
		if e.Mode == filemode.Dir {
			return nil, errors.New("a sparse index") // its folders stand for files that it does not name
		}
		tracked[e.Name] = e
	}
	return tracked, nil
}

// decode reads an index, which may be hostile. In version 4 a few bytes stand for a name of
// any length, so that a small file could fill the memory: that version is not read.
func decode(in io.Reader) (read index.Index, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the index is damaged: %v", r)
		}
	}()
	head := bufio.NewReader(in)
	const beforeVersion, withVersion = 4, 8
	begin, err := head.Peek(withVersion)
	if err != nil {
		return read, err
	}
	if version := binary.BigEndian.Uint32(begin[beforeVersion:]); version > 3 {
		return read, fmt.Errorf("version %d", version)
	}
	err = index.NewDecoder(head).Decode(&read)
	return read, err
}

// status compares a workspace with the index of its repository.
type status struct {
	w       *workspace
	out     *nodev1.GitStatusResponse
	folders map[string]bool // those with tracked files
	read    int64
	seen    int
}

// errTooMuch ends a comparison that would take too long.
var errTooMuch = errors.New("too much to compare")

// add counts a path, and names it among the first ones.
func add(to **nodev1.GitStatusResponse_Paths, name string) {
	if *to == nil {
		*to = &nodev1.GitStatusResponse_Paths{}
	}
	(*to).Count++
	if shown, _ := printable(name); len((*to).Paths) < maxNamed {
		(*to).Paths = append((*to).Paths, shown)
	}
}

// compare finds the tracked files that have changed or are gone.
func (s *status) compare(ctx context.Context, tracked map[string]*index.Entry) error {
	names := make([]string, 0, len(tracked))
	for name := range tracked {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		for dir := path.Dir(name); dir != "." && !s.folders[dir]; dir = path.Dir(dir) {
			s.folders[dir] = true
		}
		e := tracked[name]
		if e.SkipWorktree || e.Mode == filemode.Submodule {
			continue
		}
		if e.Stage != 0 {
			add(&s.out.Conflicted, name)
			continue
		}
		info, err := s.w.root.Lstat(name)
		if err != nil { // it, or a folder above it, is gone or something else
			add(&s.out.Deleted, name)
			continue
		}
		differs, err := s.differs(name, e, info)
		if err != nil {
			return err
		}
		if differs {
			add(&s.out.Changed, name)
		}
	}
	return nil
}

// differs reports whether a file is another one than that of the index. One that cannot be
// read is.
func (s *status) differs(name string, e *index.Entry, info fs.FileInfo) (bool, error) {
	const executable = 0o100
	isLink := info.Mode()&fs.ModeSymlink != 0
	switch {
	case isLink != (e.Mode == filemode.Symlink), !isLink && !info.Mode().IsRegular(), uint32(info.Size()) != e.Size:
		return true, nil
	case !isLink && (info.Mode()&executable != 0) != (e.Mode == filemode.Executable):
		return true, nil
	case info.ModTime().Equal(e.ModifiedAt):
		return false, nil
	}
	if s.read += info.Size(); s.read > maxCompared {
		return false, errTooMuch
	}
	sum, err := s.w.object(name, isLink, info.Size())
	return err != nil || sum != e.Hash.String(), nil
}

// object returns the name that Git gives to the content of a file or symbolic link.
func (w *workspace) object(name string, isLink bool, size int64) (string, error) {
	sum := sha1.New() //nolint:gosec // Git names objects by it
	fmt.Fprintf(sum, "blob %d\x00", size)
	if isLink {
		target, err := w.root.Readlink(name)
		_, _ = io.WriteString(sum, target) // a hash takes all
		return hex.EncodeToString(sum.Sum(nil)), err
	}
	f, _, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = io.Copy(sum, io.LimitReader(f, size))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// find finds the files that are not tracked and not ignored. A folder without a tracked
// file stands for all that is in it.
func (s *status) find(ctx context.Context, tracked map[string]*index.Entry) error {
	rules, _ := s.w.ignoreRules(".")
	return s.below(ctx, ".", rules, 0, func(name string, isDir bool, rules gitignore.Rules) (more bool, err error) {
		switch {
		case tracked[name] != nil:
		case isDir && s.folders[name]:
			return true, nil
		case isDir:
			var holds bool
			if holds, err = s.holds(ctx, name, s.w.ignoreRulesIn(name, rules)); holds {
				add(&s.out.Untracked, name+"/")
			}
		default:
			add(&s.out.Untracked, name)
		}
		return false, err
	})
}

var errFound = errors.New("found")

// holds reports whether there is a file below a folder that is not ignored.
func (s *status) holds(ctx context.Context, dir string, rules gitignore.Rules) (bool, error) {
	err := s.below(ctx, dir, rules, 0, func(_ string, isDir bool, _ gitignore.Rules) (bool, error) {
		if !isDir {
			return false, errFound
		}
		return true, nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// below calls fn with what is below a folder and not ignored, and enters the folders for
// which fn returns true. What is replaced meanwhile or cannot be read is left out.
func (s *status) below(ctx context.Context, dir string, rules gitignore.Rules, depth int, fn func(name string, isDir bool, rules gitignore.Rules) (bool, error)) error {
	l := listing{w: s.w, limit: maxList, skip: true}
	names, err := l.names(dir)
	if err != nil || depth > maxDepth {
		return nil //nolint:nilerr // see above
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.seen++; s.seen > maxSeen {
			return errTooMuch
		}
		name = path.Join(dir, name)
		info, err := s.w.root.Lstat(name)
		if err != nil || name == ".git" || rules.Ignored(name, info.IsDir()) {
			continue
		}
		more, err := fn(name, info.IsDir(), rules)
		if err == nil && more && info.IsDir() {
			err = s.below(ctx, name, s.w.ignoreRulesIn(name, rules), depth+1, fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
