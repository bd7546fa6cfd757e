// Package patch reads and applies patches in the format of Codex's tool apply_patch, which
// models of OpenAI are trained on:
//
//	*** Begin Patch
//	*** Add File: docs/new.md
//	+# New
//	*** Update File: cmd/main.go
//	*** Move to: cmd/run.go
//	@@ func main() {
//	 	setup()
//	-	run()
//	+	run(ctx)
//	*** Delete File: old.txt
//	*** End Patch
//
// A hunk is found by its lines, not by numbers. Each "@@ LINE" before it names a line that
// it comes after. "*** End of File" after a hunk says that it is the file's end.
package patch

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Kind is what a patch does with a file.
type Kind string

// What a patch does with a file.
const (
	Add    Kind = "add"
	Update Kind = "update"
	Delete Kind = "delete"
)

// File is what a patch does with one file.
type File struct {
	Kind Kind
	Path string
	// To is the path that an updated file gets; empty if it keeps its own.
	To string
	// Content is that of a file that is added.
	Content string
	Hunks   []Hunk
}

// Hunk is one place that is changed.
type Hunk struct {
	// Line is that of the patch on which it begins, from 1.
	Line int
	// After are lines that it comes after, one below the other.
	After []string
	Lines []Line
	// AtEnd: it is the end of the file.
	AtEnd bool
}

// Line is a line of a hunk: ' ' stays, '-' is removed, and '+' is added.
type Line struct {
	Change byte
	Text   string
}

const (
	begin     = "*** Begin Patch"
	end       = "*** End Patch"
	addFile   = "*** Add File: "
	update    = "*** Update File: "
	remove    = "*** Delete File: "
	moveTo    = "*** Move to: "
	endOfFile = "*** End of File"
)

type reader struct {
	lines []string
	at    int
}

// Parse reads a patch. An error is a fault of kind Invalid that names the line.
func Parse(text string) ([]File, error) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	r := &reader{lines: strings.Split(text, "\n")}
	last := len(r.lines) - 1
	if strings.TrimSpace(r.lines[0]) != begin || strings.TrimSpace(r.lines[last]) != end {
		return nil, fault.New(fault.Invalid, "the patch has no %q as its first line, or no %q as its last", begin, end).WithCode(fault.InvalidParameters).
			WithFix("put all files of the patch between the two")
	}
	r.lines, r.at = r.lines[:last], 1
	var files []File
	for r.at < len(r.lines) {
		f, err := r.file()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, r.wrong("the patch changes no file", "add a line such as %q", update+"PATH")
	}
	return files, nil
}

func (r *reader) wrong(what, fix string, args ...any) error {
	return fault.New(fault.Invalid, "line %d of the patch: %s", r.at+1, what).WithCode(fault.InvalidParameters).WithFix(fix, args...)
}

// cut takes the next line if it begins with a marker, and returns the rest of it.
func (r *reader) cut(marker string) (string, bool) {
	if r.at == len(r.lines) {
		return "", false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(r.lines[r.at], " "), marker)
	if !ok {
		return "", false
	}
	r.at++
	return strings.TrimSpace(rest), true
}

// more reports whether a line follows that is no marker of a file.
func (r *reader) more() bool {
	if r.at == len(r.lines) {
		return false
	}
	line := r.lines[r.at]
	return !strings.HasPrefix(line, addFile) && !strings.HasPrefix(line, update) && !strings.HasPrefix(line, remove)
}

func (r *reader) file() (f File, err error) {
	var ok bool
	if f.Path, ok = r.cut(addFile); ok {
		f.Kind = Add
		for r.more() {
			line, ok := strings.CutPrefix(r.lines[r.at], "+")
			if !ok {
				return f, r.wrong("a line of a new file does not begin with +", "begin each line of the file with +")
			}
			f.Content += line + "\n"
			r.at++
		}
	} else if f.Path, ok = r.cut(remove); ok {
		f.Kind = Delete
	} else if f.Path, ok = r.cut(update); ok {
		f.Kind = Update
		f.To, _ = r.cut(moveTo)
		for r.more() {
			h, err := r.hunk(len(f.Hunks) == 0)
			if err != nil {
				return f, err
			}
			f.Hunks = append(f.Hunks, h)
		}
		if len(f.Hunks) == 0 && f.To == "" {
			return f, r.wrong(fmt.Sprintf("nothing is changed in %q", f.Path), "add a hunk: @@, then lines that begin with a space, - or +")
		}
	} else {
		return f, r.wrong(fmt.Sprintf("%q begins no file", r.lines[r.at]), "begin it with %q, %q or %q", addFile, update, remove)
	}
	if f.Path == "" {
		return f, r.wrong("a file has no path", "name it, relative to the workspace")
	}
	return f, nil
}

func (r *reader) hunk(first bool) (h Hunk, err error) {
	h.Line = r.at + 1
	headed := false
	for r.at < len(r.lines) && strings.HasPrefix(r.lines[r.at], "@@") {
		headed = true
		if header := strings.TrimPrefix(strings.TrimPrefix(r.lines[r.at], "@@"), " "); strings.TrimSpace(header) != "" {
			h.After = append(h.After, header)
		}
		r.at++
	}
	if !headed && !first {
		return h, r.wrong(fmt.Sprintf("%q is no part of a hunk", r.lines[r.at]), "begin each line with a space, - or +, and each hunk with @@")
	}
	for r.more() && !strings.HasPrefix(r.lines[r.at], "@@") {
		line := r.lines[r.at]
		switch {
		case strings.TrimRight(line, " ") == endOfFile:
			h.AtEnd = true
			r.at++
			return h, r.full(h)
		case line == "":
			h.Lines = append(h.Lines, Line{' ', ""}) // an empty line without its space
		case strings.IndexByte(" -+", line[0]) >= 0:
			h.Lines = append(h.Lines, Line{line[0], line[1:]})
		default:
			return h, r.wrong(fmt.Sprintf("%q begins with none of a space, - and +", line), "begin each line of a hunk with one of them")
		}
		r.at++
	}
	return h, r.full(h)
}

func (r *reader) full(h Hunk) error {
	if len(h.Lines) > 0 {
		return nil
	}
	return r.wrong("a hunk has no lines", "add lines that begin with a space, - or +")
}
