package credential

import "strings"

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
