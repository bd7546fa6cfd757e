package persona

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/nearest"
)

// maxProblems bounds a report: a file with more is wrong as a whole.
const maxProblems = 50

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Line in the file, from 1.
	Line int
	// Message says what is wrong and what to write instead.
	Message string
}

// Problems is the error of a file that cannot be used: everything that is
// wrong with it, in the order of its lines.
type Problems struct {
	File string
	List []Problem
}

// Error is one line for each problem: file:line: message.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, problem := range p.List {
		lines[i] = fmt.Sprintf("%s:%d: %s", p.File, problem.Line, problem.Message)
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) add(line int, format string, args ...any) {
	if len(p.List) < maxProblems {
		p.List = append(p.List, Problem{Line: max(line, 1), Message: fmt.Sprintf(format, args...)})
	}
}

// err returns the problems as an error, or nil when there are none.
func (p *Problems) err() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return p
}

// suggest ends a message: the nearest candidate, or all of them.
func suggest(word string, candidates []string) string {
	if len(candidates) == 0 {
		return "remove it"
	}
	if near := nearest.First(word, candidates); near != "" {
		return fmt.Sprintf("write %q", near)
	}
	return "write one of " + strings.Join(candidates, ", ")
}
