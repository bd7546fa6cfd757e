package files

import (
	"github.com/bmatcuk/doublestar/v4"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxAlternatives limits how many patterns the braces of one pattern expand
	// to, and maxPatternBytes their total length. Matching a pattern without
	// braces costs at most its length times that of the name.
	maxAlternatives = 64
	maxPatternBytes = 8 << 10
)

// pattern is a pattern of paths whose braces are written out, since the matcher
// tries the alternatives of all its groups in every combination.
type pattern []string

// newPattern parses a pattern in the syntax of doublestar.
func newPattern(text string) (pattern, error) {
	if !doublestar.ValidatePattern(text) {
		return nil, fault.New(fault.Invalid, "pattern %q cannot be read", text).WithFix("write it as in src/**/*.go")
	}
	var p pattern
	size := 0
	for rest := []string{text}; len(rest) > 0; {
		one := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		before, alternatives, after := firstGroup(one)
		if alternatives == nil {
			p = append(p, one)
			size += len(one)
		}
		if len(p)+len(rest)+len(alternatives) > maxAlternatives || size > maxPatternBytes {
			return nil, fault.New(fault.Invalid, "pattern: its braces stand for more than %d patterns or %d bytes", maxAlternatives, maxPatternBytes).
				WithFix("name several patterns with fewer braces each")
		}
		for _, each := range alternatives {
			rest = append(rest, before+each+after)
		}
	}
	return p, nil
}

// match reports whether a path matches.
func (p pattern) match(name string) bool {
	for _, one := range p {
		if doublestar.MatchUnvalidated(one, name) {
			return true
		}
	}
	return false
}

// firstGroup returns the alternatives of the first group of braces in a valid
// pattern with what is before and after it; none if it has no braces.
func firstGroup(text string) (before string, alternatives []string, after string) {
	depth, open, from := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			i += classEnd(text[i+1:]) + 1
		case '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case ',':
			if depth == 1 {
				alternatives = append(alternatives, text[from:i])
				from = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				return text[:open], append(alternatives, text[from:i]), text[i+1:]
			}
		}
	}
	return text, nil, ""
}

// classEnd returns where the class of characters ends that begins with text.
func classEnd(text string) int {
	i := 0
	for ; i < len(text) && text[i] != ']'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
