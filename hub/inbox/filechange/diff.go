package filechange

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// contextLines are the unchanged lines around each change of a diff.
const contextLines = 3

// compare adds to a change the diff between two contents of a file.
func compare(out *Change, name, before, after string) {
	out.After = &State{Type: "file", Size: int64(len(after)), Lines: lines(after)}
	if out.Before != nil {
		out.After.Mode = out.Before.Mode
	}
	if binary(before) || binary(after) {
		out.Omitted, out.After.Lines = "the file is no text", 0
		if out.Before != nil {
			out.Before.Lines = 0
		}
		return
	}
	if before == after {
		return
	}
	from := "a/" + name
	if out.Before == nil {
		from = "/dev/null"
	}
	diff, err := udiff.ToUnifiedDiff(from, "b/"+name, before, udiff.Lines(before, after), contextLines)
	if err != nil {
		out.Omitted = "the file cannot be compared"
		return
	}
	for _, h := range diff.Hunks {
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				out.Added++
			case udiff.Delete:
				out.Deleted++
			}
		}
	}
	unified := diff.String()
	if len(unified) > maxUnified {
		out.Omitted = fmt.Sprintf("the diff has %d bytes, and diffs up to %d are kept", len(unified), maxUnified)
		return
	}
	out.Unified = unified
}

// binary reports whether a content is no text that can be compared.
func binary(content string) bool {
	return !utf8.ValidString(content) || strings.Contains(content, "\x00")
}

// lines returns the number of lines of a text; the last one may have no line feed.
func lines(content string) int {
	n := strings.Count(content, "\n")
	if content != "" && !strings.HasSuffix(content, "\n") {
		n++
	}
	return n
}
