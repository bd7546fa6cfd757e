// Package textcut shortens texts that are too long to store, send or show.
//
// The result is never longer than the limit, mark included, and a cut text ends with a
// whole character. What is not UTF-8 is left out of a text that is cut; a text that is
// short enough is returned as it is, and callers that store texts of others make them
// valid first.
package textcut

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns text, or its beginning and mark if it has more than most bytes. The
// length of mark must not be above most.
func Bytes(text string, most int, mark string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}

// WholeRunes returns text, or its beginning if it has more than most bytes, as it is: what is
// not UTF-8 stays in it.
func WholeRunes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Runes returns text, or its beginning and mark if it has more than most characters. The
// length of mark, in characters, must not be above most.
func Runes(text string, most int, mark string) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	n := most - utf8.RuneCountInString(mark)
	for at := range text {
		if n == 0 {
			return strings.ToValidUTF8(text[:at], "") + mark
		}
		n--
	}
	return text
}
