// Package termsafe makes untrusted text safe to show on a terminal. What an
// agent, a command or a file says may hold escape sequences that move the
// cursor, rename the window, fill the clipboard or hide what came before; all
// text that others wrote passes through here before a person sees it.
//
// Styling sequences (CSI) are dropped. Every other control character is shown
// as its picture (U+2400 and on) or as U+FFFD, so that nothing is hidden and
// nothing is obeyed. Only line feeds and tabs pass.
package termsafe

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/transform"
)

// maxCSI bounds a styling sequence, in bytes; a longer one is shown, not
// dropped, so that text cannot be hidden in its parameters.
const maxCSI = 64

// Text returns s with lines and tabs kept and all other control taken out.
func Text(s string) string {
	// The filter fails for nothing but lack of room, which String provides.
	out, _, _ := transform.String(&filter{}, s)
	return out
}

// Line is Text on one line: every run of white space becomes one space.
func Line(s string) string {
	return strings.Join(strings.Fields(Text(s)), " ")
}

// Writer filters what is written to it and passes it on to w, whole
// characters and sequences at a time. Close passes on what was held back; it
// does not close w.
func Writer(w io.Writer) io.WriteCloser { return transform.NewWriter(w, &filter{}) }

// JSON returns a JSON text with every character that a terminal or a reader
// could be misled by written as \uXXXX: the same value, safe to print.
func JSON(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		if r >= utf8.RuneSelf && r != utf8.RuneError && misleading(r) || r == 0x7f {
			writeEscaped(&out, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

func writeEscaped(out *bytes.Buffer, r rune) {
	const hex = "0123456789abcdef"
	for _, unit := range utf16Units(r) {
		out.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			out.WriteByte(hex[unit>>shift&0xf])
		}
	}
}

func utf16Units(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	r -= 0x10000
	return []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
}

// misleading reports whether r is a control, a line separator of Unicode, or an
// invisible formatting character such as those that reverse the direction of
// what follows. The two joiners stay: scripts and emoji need them.
func misleading(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == nonJoiner || r == joiner:
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

// filter is Text as a stream: it holds no state, but asks for more input where
// a character or a sequence is cut.
type filter struct{ transform.NopResetter }

func (f *filter) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		out, n := next(src[nSrc:], atEOF)
		if n == 0 {
			return nDst, nSrc, transform.ErrShortSrc
		}
		if nDst+len(out) > len(dst) {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += copy(dst[nDst:], out)
		nSrc += n
	}
	return nDst, nSrc, nil
}

// next returns what to show for the first thing in src and how many bytes that
// thing has; 0 when more input is needed to tell.
func next(src []byte, atEOF bool) (out string, n int) {
	if !atEOF && !utf8.FullRune(src) {
		return "", 0
	}
	r, size := utf8.DecodeRune(src)
	switch {
	case r == '\n' || r == '\t':
		return string(r), size
	case r == '\r':
		return carriageReturn(src, atEOF)
	case r == 0x1b:
		return escape(src, atEOF)
	case r == 0x7f:
		return "\u2421", size
	case r < 0x20:
		return string(0x2400 + r), size
	case misleading(r):
		return string(utf8.RuneError), size
	}
	return string(r), size
}

// carriageReturn becomes a line feed, alone or before one: it would otherwise
// let a line overwrite itself.
func carriageReturn(src []byte, atEOF bool) (string, int) {
	switch {
	case len(src) == 1 && !atEOF:
		return "", 0
	case len(src) > 1 && src[1] == '\n':
		return "\n", 2
	}
	return "\n", 1
}

// escape drops a whole styling sequence, ECMA-48 §5.4: ESC [, parameter bytes
// 0x30-0x3f, intermediate bytes 0x20-0x2f, one final byte 0x40-0x7e.
func escape(src []byte, atEOF bool) (string, int) {
	const picture = "\u241b"
	if len(src) > 1 && src[1] != '[' {
		return picture, 1
	}
	for i := 2; i < min(len(src), maxCSI); i++ {
		switch b := src[i]; {
		case b >= 0x40 && b <= 0x7e:
			return "", i + 1
		case b < 0x20 || b > 0x3f:
			return picture, 1
		}
	}
	if len(src) < maxCSI && !atEOF {
		return "", 0
	}
	return picture, 1
}
