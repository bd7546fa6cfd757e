// Package literal renders text that will be executed, written or sent exactly
// as it is, for a person who approves it.
//
// Nothing is removed and no control sequence takes effect. Every character that
// a terminal or browser would interpret, hide, or draw like another one is
// shown as a mark: its picture or its code point in white square brackets, such
// as ⟦␛⟧ for an escape, ⟦U+202E⟧ for a right-to-left override, and ⟦0xFF⟧ for a
// byte that is not UTF-8. The brackets themselves are also shown as marks, so
// that a mark cannot be forged and the original text can be recovered from the
// rendering.
//
// Command output is handled differently: package termsafe drops its styling.
package literal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	openMark  = '⟦'
	closeMark = '⟧'
)

// Block returns s with every misleading character as a mark. Line feeds and tabs
// stay what they are.
func Block(s string) string {
	out, _ := show(s, false)
	return out
}

// Line returns s on one line: line feeds and tabs are marks too.
func Line(s string) string {
	out, _ := show(s, true)
	return out
}

// Marks returns the distinct marks that Block shows in s, in order of their
// first appearance, and how many characters of s they replace.
func Marks(s string) (marks []string, characters int) {
	_, all := show(s, false)
	seen := map[string]bool{}
	for _, m := range all {
		if !seen[m] {
			seen[m] = true
			marks = append(marks, m)
		}
	}
	return marks, len(all)
}

// Note returns a sentence that warns of the marks in s; "" when it has none.
func Note(s string) string {
	marks, n := Marks(s)
	switch {
	case n == 0:
		return ""
	case n == 1:
		return "It contains 1 character that is invisible, or looks like another one. It is shown as " + marks[0] + "."
	}
	const most = 6
	shown := strings.Join(marks[:min(len(marks), most)], " ")
	if len(marks) > most {
		shown += " and others"
	}
	return fmt.Sprintf("It contains %d characters that are invisible, or look like others. They are shown as %s.", n, shown)
}

func show(s string, oneLine bool) (string, []string) {
	if plain(s, oneLine) {
		return s, nil
	}
	var out strings.Builder
	var marks []string
	mark := func(m string) {
		m = string(openMark) + m + string(closeMark)
		out.WriteString(m)
		marks = append(marks, m)
	}
	alike := lookAlikes(s)
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			mark(fmt.Sprintf("0x%02X", s[at]))
		case !oneLine && (r == '\n' || r == '\t'):
			out.WriteRune(r)
		case r < 0x20:
			mark(string(0x2400 + r))
		case r == 0x7f:
			mark("\u2421")
		case misleading(r) || alike[at]:
			mark(fmt.Sprintf("U+%04X", r))
		default:
			out.WriteRune(r)
		}
		at += size
	}
	return out.String(), marks
}

// plain reports whether s is printable ASCII, which is shown as it is.
func plain(s string, oneLine bool) bool {
	for i := range len(s) {
		if b := s[i]; b >= 0x7f || b < 0x20 && (oneLine || b != '\n' && b != '\t') {
			return false
		}
	}
	return true
}

// misleading reports whether a character is invisible, controls how others are
// drawn, has no drawing of its own, or is another form of ASCII text.
func misleading(r rune) bool {
	if r < utf8.RuneSelf {
		return false
	}
	switch {
	case r == openMark, r == closeMark:
		return true
	case !unicode.IsGraphic(r), unicode.Is(unicode.Zs, r): // controls, formats, separators, private, unassigned, odd spaces
		return true
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	case r == 0x2800: // braille without a dot
		return true
	case r == 0x2044, r == 0x2215, r == 0x29f8, r == 0xa789, r == 0x02d0, r == 0x2236, r == 0x01c3: // like / : and !
		return true
	}
	// Full width, mathematical and other forms of what ASCII has.
	if form := norm.NFKC.String(string(r)); form != string(r) && ascii(form) && unicode.In(r, unicode.Common, unicode.Latin, unicode.Greek) {
		return !unicode.In(r, unicode.No) // ², ½ and ① are read as what they are
	}
	return false
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// resembling are the scripts with letters that look like Latin ones.
var resembling = []*unicode.RangeTable{unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu}

// lookAlikes returns the offsets of letters that resemble Latin ones: those of
// another script within a word that also has Latin letters, and every non-ASCII
// character in the host of a URL.
func lookAlikes(s string) map[int]bool {
	out := map[int]bool{}
	var foreign []int
	latin := false
	end := func() {
		if latin {
			for _, at := range foreign {
				out[at] = true
			}
		}
		foreign, latin = foreign[:0], false
	}
	for at, r := range s {
		switch {
		case unicode.In(r, resembling...):
			foreign = append(foreign, at)
		case unicode.Is(unicode.Latin, r):
			latin = true
		case !unicode.IsDigit(r) && r != '_' && !unicode.Is(unicode.M, r):
			end()
		}
	}
	end()
	for at := 0; ; {
		i := strings.Index(s[at:], "://")
		if i < 0 {
			return out
		}
		at += i + 3
		for j, r := range s[at:] {
			if strings.ContainsRune("/?# \t\r\n\"'`<>|;()", r) {
				break
			}
			if r >= utf8.RuneSelf {
				out[at+j] = true
			}
		}
	}
}
