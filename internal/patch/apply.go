package patch

import (
	"slices"
	"strings"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Apply returns what an updated file contains after its hunks. What stays is as it was in
// the file, also where the patch has it with other white space. An error is a fault of kind
// Precondition that names the hunk; the text that was looked for is in Missing.
func (f File) Apply(content string) (string, error) {
	if len(f.Hunks) == 0 {
		return content, nil
	}
	ending := "\n"
	if i := strings.IndexByte(content, '\n'); i > 0 && content[i-1] == '\r' {
		ending = "\r\n"
	}
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	if content == "" {
		lines = nil
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	var out []string
	done := 0 // lines of the file that are in out
	for i := range f.Hunks {
		h := &f.Hunks[i]
		at, err := h.find(lines, done, f.Path)
		if err != nil {
			return "", err
		}
		out = append(out, lines[done:at]...)
		done = at
		for _, line := range h.linesAt(lines, at) {
			switch line.Change {
			case '+':
				out = append(out, line.Text)
			case ' ':
				out = append(out, lines[done])
				done++
			case '-':
				done++
			}
		}
	}
	out = append(out, lines[done:]...)
	if len(out) == 0 {
		return "", nil
	}
	return strings.Join(out, ending) + ending, nil
}

// linesAt returns the lines of a hunk that is at a place. An empty line at its end which
// the file does not have there is none of it: models add one before what follows.
func (h *Hunk) linesAt(lines []string, at int) []Line {
	if n := len(h.Lines); n > 0 && h.Lines[n-1] == (Line{' ', ""}) && !slices.ContainsFunc(alike, func(same alikeFunc) bool { return matches(lines, at, h.old(), same) }) {
		return h.Lines[:n-1]
	}
	return h.Lines
}

// Texts returns what the hunk replaces, and by what, each with its line ends.
func (h *Hunk) Texts() (was, is string) {
	for _, line := range h.Lines {
		if line.Change != '+' {
			was += line.Text + "\n"
		}
		if line.Change != '-' {
			is += line.Text + "\n"
		}
	}
	return was, is
}

// old returns the lines that the file has before.
func (h *Hunk) old() (out []string) {
	for _, line := range h.Lines {
		if line.Change != '+' {
			out = append(out, line.Text)
		}
	}
	return out
}

// find returns on which line of the file, from 0, a hunk is, from a line on.
func (h *Hunk) find(lines []string, from int, path string) (int, error) {
	for _, header := range h.After {
		at := seek(lines, []string{header}, from, false)
		if at < 0 {
			return 0, h.missing(path, []string{header}, "the line %q, which it comes after, is not in the file, or not below the hunk before", header)
		}
		from = at + 1
	}
	old := h.old()
	if len(old) == 0 {
		return len(lines), nil // only adds: to the end
	}
	at := seek(lines, old, from, h.AtEnd)
	if n := len(old); at < 0 && n > 1 && old[n-1] == "" {
		at = seek(lines, old[:n-1], from, h.AtEnd)
	}
	if at < 0 {
		return 0, h.missing(path, old, "its lines are not in the file, or not below the hunk before")
	}
	return at, nil
}

// Missing is the error of a hunk that has no place in the file.
type Missing struct {
	Fault *fault.Error
	// Text is what was looked for.
	Text string
}

// Error implements error.
func (m *Missing) Error() string { return m.Fault.Error() }

// Unwrap returns the fault.
func (m *Missing) Unwrap() error { return m.Fault }

func (h *Hunk) missing(path string, text []string, format string, args ...any) error {
	e := fault.New(fault.Precondition, "%q, the hunk on line %d of the patch: "+format, append([]any{path, h.Line}, args...)...).
		WithCode(fault.FileConflict).WithFix("read the file, and write the lines as they are there")
	return &Missing{Fault: e, Text: strings.Join(text, "\n")}
}

type alikeFunc func(a, b string) bool

// alike compare a line of the file with one of the patch, the strictest first.
var alike = []alikeFunc{
	func(a, b string) bool { return a == b },
	func(a, b string) bool {
		return strings.TrimRightFunc(a, unicode.IsSpace) == strings.TrimRightFunc(b, unicode.IsSpace)
	},
	func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) },
	func(a, b string) bool {
		return plain.Replace(strings.TrimSpace(a)) == plain.Replace(strings.TrimSpace(b))
	},
}

// plain writes characters that models write for others as those.
var plain = strings.NewReplacer(
	"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2015", "-", "\u2212", "-",
	"\u2018", "'", "\u2019", "'", "\u201A", "'", "\u201B", "'", "\u201C", `"`, "\u201D", `"`, "\u201E", `"`, "\u201F", `"`,
	"\u00A0", " ", "\u2002", " ", "\u2003", " ", "\u2009", " ", "\u202F", " ", "\u3000", " ",
)

// seek returns where lines are in a file, from a line on; -1 if they are not. At the end they
// are looked for there first.
func seek(lines, wanted []string, from int, atEnd bool) int {
	for _, same := range alike {
		if last := len(lines) - len(wanted); atEnd && last >= from && matches(lines, last, wanted, same) {
			return last
		}
		for at := from; at+len(wanted) <= len(lines); at++ {
			if matches(lines, at, wanted, same) {
				return at
			}
		}
	}
	return -1
}

func matches(lines []string, at int, wanted []string, same alikeFunc) bool {
	if at+len(wanted) > len(lines) {
		return false
	}
	for i, text := range wanted {
		if !same(lines[at+i], text) {
			return false
		}
	}
	return true
}
