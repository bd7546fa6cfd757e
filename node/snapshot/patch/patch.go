// Package patch renders changes of a workspace as text: as a unified diff per
// file, for people, or as one patch for `git apply`.
package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// Contents opens contents by their names.
type Contents interface {
	OpenContent(id string) (*os.File, error)
}

const (
	// maxText is up to which size a file is compared line by line.
	maxText = 1 << 20
	// maxLines bounds the work of comparing.
	maxLines = 50_000
	// sniff is how many bytes of a file are examined to distinguish text from
	// other data.
	sniff = 8000
)

// Diff is one change as text.
type Diff struct {
	// Unified is the diff; empty when Summary says what there is instead.
	Unified string
	Summary string
	// Added and Deleted lines.
	Added, Deleted int
}

// Tell returns a change as a unified diff with the given number of context
// lines, or a summary if a diff would not help.
func Tell(c tree.Change, contents Contents, lines int) (Diff, error) {
	before, okBefore, err := text(c.Before, contents)
	if err != nil {
		return Diff{}, err
	}
	after, okAfter, err := text(c.After, contents)
	if err != nil {
		return Diff{}, err
	}
	if !okBefore || !okAfter {
		return Diff{Summary: summary(c)}, nil
	}
	if before == after {
		return Diff{Summary: metadata(c)}, nil
	}
	return unified(label("a/", c.Path, c.Before), label("b/", c.Path, c.After), before, after, lines)
}

func unified(from, to, before, after string, lines int) (Diff, error) {
	hunks, err := udiff.ToUnifiedDiff(from, to, before, udiff.Lines(before, after), lines)
	if err != nil {
		return Diff{}, fmt.Errorf("compare: %w", err)
	}
	d := Diff{Unified: hunks.String()}
	for _, h := range hunks.Hunks {
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				d.Added++
			case udiff.Delete:
				d.Deleted++
			}
		}
	}
	return d, nil
}

func label(side, path string, e *tree.Entry) string {
	if e == nil || e.Kind == tree.Dir {
		return "/dev/null"
	}
	return quote(side + path)
}

// quote writes a path as git does: as it is, or as a C string.
func quote(path string) string {
	odd := func(c byte) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' }
	for i := range len(path) {
		if !odd(path[i]) {
			continue
		}
		var b strings.Builder
		b.WriteByte('"')
		for i := range len(path) {
			switch c := path[i]; {
			case c == '\n':
				b.WriteString(`\n`)
			case c == '\t':
				b.WriteString(`\t`)
			case c == '"' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case odd(c):
				fmt.Fprintf(&b, `\%03o`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
		return b.String()
	}
	return path
}

// text returns what can be compared line by line; nothing there is empty.
func text(e *tree.Entry, contents Contents) (string, bool, error) {
	if e == nil || e.Kind == tree.Dir {
		return "", true, nil
	}
	if e.Kind != tree.File || e.Unkept != tree.Kept || e.Size > maxText || e.Content == "" {
		return "", false, nil
	}
	content, err := read(e, contents)
	if err != nil {
		return "", false, err
	}
	if bytes.IndexByte(content[:min(len(content), sniff)], 0) >= 0 || bytes.Count(content, []byte{'\n'}) > maxLines {
		return "", false, nil
	}
	return string(content), true, nil
}

func read(e *tree.Entry, contents Contents) ([]byte, error) {
	f, err := contents.OpenContent(e.Content)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxBinary+1))
	if err != nil {
		return nil, fmt.Errorf("read a content: %w", err)
	}
	if len(content) > maxBinary {
		return nil, errTooLarge
	}
	return content, nil
}

var errTooLarge = errors.New("too large for a patch")

// summary says in words what a change is that has no lines.
func summary(c tree.Change) string {
	switch {
	case c.Before == nil:
		return describe(c.After) + " was made"
	case c.After == nil:
		return describe(c.Before) + " was deleted"
	}
	if b, a := describe(c.Before), describe(c.After); a != b {
		return b + " became " + a
	}
	return describe(c.After) + " was changed"
}

func describe(e *tree.Entry) string {
	switch e.Kind {
	case tree.File:
		what := "a binary file"
		switch {
		case e.Unkept != tree.Kept:
			what = "a file whose content is not kept (" + e.Unkept.String() + ")"
		case e.Size > maxText:
			what = "a large file"
		}
		return fmt.Sprintf("%s of %d bytes", what, e.Size)
	case tree.Dir:
		return "a folder"
	case tree.Symlink:
		return fmt.Sprintf("a link to %q", e.Content)
	}
	return "a " + e.Kind.String()
}

// metadata says in words what changed besides the content.
func metadata(c tree.Change) string {
	b, a := c.Before, c.After
	if b == nil || a == nil || b.Kind != a.Kind {
		switch {
		case b == nil && a.Kind == tree.Dir:
			return "a folder was made"
		case a == nil && b.Kind == tree.Dir:
			return "a folder was deleted"
		case b == nil:
			return "an empty file was made"
		case a == nil:
			return "an empty file was deleted"
		}
		return describe(b) + " became " + describe(a)
	}
	var out []string
	if b.Mode != a.Mode {
		out = append(out, fmt.Sprintf("mode %04o became %04o", b.Mode, a.Mode))
	}
	if b.UID != a.UID || b.GID != a.GID {
		out = append(out, "its owner changed")
	}
	if b.Link != a.Link {
		out = append(out, "its other names changed")
	}
	if len(out) == 0 {
		out = append(out, "its attributes changed")
	}
	return strings.Join(out, ", ")
}
