package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/gitignore"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ListFiles implements nodev1.FileServiceServer. Entries come depth first,
// siblings by name; symbolic links are listed and not entered.
func (s *Service) ListFiles(ctx context.Context, req *nodev1.ListFilesRequest) (*nodev1.ListFilesResponse, error) {
	if req.GetLimit() < 0 {
		return nil, fault.New(fault.Invalid, "limit cannot be negative").WithFix("use 0 or more")
	}
	w, name, err := s.openToRead(req.GetJailId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	defer w.close()
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = defaultList
	}
	l := &listing{w: w, limit: min(limit, maxList), recursive: req.GetRecursive(), skip: req.GetSkipIgnored()}
	if req.GetPattern() != "" {
		if l.pattern, err = newPattern(req.GetPattern()); err != nil {
			return nil, err
		}
		l.recursive, l.top = true, name
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, explainIn(w, req.GetPath(), err)
	}
	if !info.IsDir() {
		l.add(name, info)
		return &l.out, nil
	}
	rules := gitignore.Rules{}
	if l.skip {
		rules, l.skip = w.ignoreRules(name)
	}
	if err := l.folder(ctx, name, rules, 0); err != nil {
		return nil, explainIn(w, req.GetPath(), err)
	}
	return &l.out, nil
}

type listing struct {
	w         *workspace
	limit     int
	recursive bool
	skip      bool // what Git ignores
	full      bool
	pattern   pattern // of paths below top; nil for all
	top       string
	out       nodev1.ListFilesResponse
}

// wanted reports whether an entry is of those that are asked for.
func (l *listing) wanted(name string) bool {
	return l.pattern == nil || l.pattern.match(strings.TrimPrefix(name, l.top+"/"))
}

// add returns false when there is no room for the entry.
func (l *listing) add(name string, info fs.FileInfo) bool {
	if !l.wanted(name) {
		return true
	}
	if len(l.out.Files) == l.limit {
		l.full, l.out.Truncated = true, true
		return false
	}
	shown, quoted := printable(nameIn(l.w, name))
	l.out.Files = append(l.out.Files, &nodev1.FileInfo{
		Path: shown, Quoted: quoted, Type: typeOf(info.Mode()), Size: info.Size(),
		Mode: uint32(info.Mode().Perm()), ModifiedAt: timestamppb.New(info.ModTime()),
	})
	return true
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// maxDepth bounds how far down a listing goes: each entry costs a walk from
// the top.
const maxDepth = 100

// maxNames is how many entries of one folder are matched with a pattern.
const maxNames = 100_000

func (l *listing) folder(ctx context.Context, dir string, rules gitignore.Rules, depth int) error {
	if depth > maxDepth {
		l.out.Truncated = true
		return nil
	}
	names, err := l.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		name = path.Join(dir, name)
		info, err := l.w.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		if l.skip && rules.Ignored(name, info.IsDir()) {
			l.out.Ignored++
			continue
		}
		if !l.add(name, info) {
			return nil
		}
		if !l.recursive || !info.IsDir() {
			continue
		}
		below := rules
		if l.skip {
			below = l.w.ignoreRulesIn(name, rules)
		}
		err = l.folder(ctx, name, below, depth+1)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !escapes(err) {
			return err // anything but a folder that was replaced meanwhile
		}
		if l.full {
			return nil
		}
	}
	return nil
}

// names returns the folder's first names, in order: one more than there is
// room for, so that a folder of millions costs no memory.
func (l *listing) names(dir string) ([]string, error) {
	f, err := l.w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	keep := l.limit - len(l.out.Files) + 1
	switch {
	case l.pattern != nil:
		keep = maxNames // most are left out
	case l.skip:
		keep += maxList // some are
	}
	var names []string
	for {
		more, err := f.Readdirnames(1024)
		names = append(names, more...)
		if len(names) > keep+4096 || errors.Is(err, io.EOF) {
			slices.Sort(names)
			if l.pattern != nil && len(names) > keep {
				l.out.Truncated = true
			}
			names = names[:min(len(names), keep)]
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
