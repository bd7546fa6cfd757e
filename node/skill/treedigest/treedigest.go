// Package treedigest summarises a folder of any size: how many bytes of each
// kind of file it contains, where most of them are, and which files are largest
// and newest.
package treedigest

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	// Path is the folder; empty for the working folder.
	Path string `json:"path"`
	// All counts what .gitignore names too.
	All bool `json:"all"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

// maxGroups is how many folders and kinds of files are counted apart.
const maxGroups = 100_000

type group struct {
	name  string
	files int64
	bytes int64
}

type file struct {
	name  string
	bytes int64
	at    time.Time
}

// top keeps the first few files by an order.
type top struct {
	before func(a, b file) int
	files  []file
}

const topFiles = 8

func (t *top) add(f file) {
	if len(t.files) == topFiles && t.before(f, t.files[topFiles-1]) >= 0 {
		return
	}
	t.files = append(t.files, f)
	slices.SortStableFunc(t.files, t.before)
	t.files = t.files[:min(len(t.files), topFiles)]
}

// Run goes over the tree. It reads no file, so that read is 0.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	if args.Path == "" {
		args.Path = "."
	}
	kinds, folders := map[string]*group{}, map[string]*group{}
	largest := &top{before: func(a, b file) int { return cmp.Compare(b.bytes, a.bytes) }}
	newest := &top{before: func(a, b file) int { return b.at.Compare(a.at) }}
	var bytes int64
	count := func(in map[string]*group, name string, size int64) {
		g := in[name]
		if g == nil {
			if len(in) >= maxGroups {
				name = "(others)"
			}
			if g = in[name]; g == nil {
				g = &group{name: name}
				in[name] = g
			}
		}
		g.files++
		g.bytes += size
	}
	root := input.Name(args.Path)
	tree := &input.Tree{Root: args.Path, All: args.All}
	tree.Each = func(e input.Entry) error {
		size := e.Info.Size()
		bytes += size
		kind := strings.ToLower(filepath.Ext(e.Rel))
		if kind == "" || len(kind) > 12 {
			kind = "(no ending)"
		}
		count(kinds, kind, size)
		// Each folder counts what is below it, three deep.
		parts := strings.Split(filepath.Dir(e.Rel), "/")
		for depth := 1; depth <= min(3, len(parts)) && parts[0] != "."; depth++ {
			count(folders, filepath.Join(root, filepath.Join(parts[:depth]...))+"/", size)
		}
		f := file{input.Name(e.Path), size, e.Info.ModTime()}
		largest.add(f)
		newest.add(f)
		return nil
	}
	if err := tree.Walk(ctx); err != nil {
		return nil, 0, err
	}
	out := report.New(args.MaxBytes)
	out.Line("%s: %s files, %s", report.Clean([]byte(args.Path), 300), report.Count(int64(tree.Files)), report.Bytes(bytes))
	if tree.Files == 0 {
		out.Line("no files")
	}
	section(out, "FOLDERS, most files first", folders, 0.4)
	section(out, "KINDS", kinds, 0.4)
	list(out, "LARGEST", largest, 0.5)
	list(out, "NEWEST", newest, 1)
	if tree.Ignored > 0 {
		out.Note("%d files and folders that .gitignore names, or that tools keep, are left out", tree.Ignored)
	}
	if tree.Links > 0 {
		out.Note("%d links are not followed", tree.Links)
	}
	if len(tree.Unread) > 0 {
		out.Note("%d folders may not be read, such as %s", len(tree.Unread), report.Clean([]byte(tree.Unread[0]), 160))
	}
	if tree.Stopped != "" {
		out.Note("%s", tree.Stopped)
	}
	return out, 0, nil
}

func section(out *report.Answer, title string, groups map[string]*group, part float64) {
	if len(groups) == 0 {
		return
	}
	all := make([]*group, 0, len(groups))
	for _, g := range groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Or(cmp.Compare(b.files, a.files), cmp.Compare(a.name, b.name)) })
	for i, g := range all {
		line := fmt.Sprintf("%s %s files, %s", report.Clean([]byte(g.name), 200), report.Count(g.files), report.Bytes(g.bytes))
		if i == 0 && !out.Begin(part, title, line) || i > 0 && !out.Line("%s", line) {
			out.Note("%s: %d more are not shown", title, len(all)-i)
			return
		}
	}
}

func list(out *report.Answer, title string, t *top, part float64) {
	if len(t.files) == 0 {
		return
	}
	for i, f := range t.files {
		line := fmt.Sprintf("%s %s, %s", report.Clean([]byte(f.name), 300), report.Bytes(f.bytes), f.at.UTC().Format("2006-01-02 15:04:05"))
		if i == 0 && !out.Begin(part, title, line) || i > 0 && !out.Line("%s", line) {
			return
		}
	}
}
