package credential

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

// The templates of paths have segments that are literal, {name} for any one segment, and **
// at the end for all the rest, also none.

const restOfPath = "**"

// segments splits a template.
func segments(template string) []string { return strings.Split(strings.TrimPrefix(template, "/"), "/") }

// any1 reports whether a segment of a template stands for any one segment.
func any1(segment string) bool {
	return len(segment) > 2 && segment[0] == '{' && segment[len(segment)-1] == '}' || segment == "*"
}

// overlap reports whether a path may fit both templates.
func overlap(a, b string) bool {
	x, y := segments(a), segments(b)
	for i := 0; ; i++ {
		switch {
		case i < len(x) && x[i] == restOfPath, i < len(y) && y[i] == restOfPath:
			return true
		case i >= len(x) || i >= len(y):
			// "/a/**" also fits "/a".
			return i >= len(x) && i >= len(y)
		case x[i] != y[i] && !any1(x[i]) && !any1(y[i]):
			return false
		}
	}
}

// contains reports whether every path that fits a template fits another one, too.
func contains(outer, inner string) bool {
	x, y := segments(outer), segments(inner)
	for i := 0; ; i++ {
		switch {
		case i < len(x) && x[i] == restOfPath:
			return true
		case i >= len(x) || i >= len(y):
			return i >= len(x) && i >= len(y)
		case y[i] == restOfPath, !any1(x[i]) && x[i] != y[i]:
			return false
		}
	}
}

// split returns the paths that a credential is for, and those that are left out of them.
func split(paths []string) (named, left []string) {
	for _, path := range paths {
		if path, out := strings.CutPrefix(path, httprule.DeniedMark); out {
			left = append(left, path)
		} else {
			named = append(named, path)
		}
	}
	if len(named) == 0 {
		named = []string{"/" + restOfPath}
	}
	return named, left
}

// meet reports whether the paths of two credentials may have one in common. What one leaves out
// counts where it is all that the other is for, or more.
func meet(a, b []string) bool {
	ours, notOurs := split(a)
	theirs, notTheirs := split(b)
	in := func(some []string, path string) bool {
		return slices.ContainsFunc(some, func(outer string) bool { return contains(outer, path) })
	}
	return slices.ContainsFunc(ours, func(x string) bool {
		return !in(notTheirs, x) && slices.ContainsFunc(theirs, func(y string) bool { return !in(notOurs, y) && overlap(x, y) })
	})
}
