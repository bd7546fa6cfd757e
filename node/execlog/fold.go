package execlog

import (
	"bytes"
	"strings"
)

// folded is a text of ASCII that is searched for whatever its case: many times faster
// than an expression is.
type folded struct {
	// text in small letters.
	text []byte
	// Where in it the byte is that is looked for first, in both cases.
	anchor       int
	lower, upper byte
}

// byFrequency are the letters of English text, the rarest last.
const byFrequency = "etaoinsrhldcumfpgwybvkxjqz"

// fold returns a text to search for whatever its case; nil if it is not of ASCII only.
func fold(text string) *folded {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return nil
		}
	}
	f := &folded{text: []byte(strings.ToLower(text))}
	rarest := -2
	for i, c := range f.text {
		at := strings.IndexByte(byFrequency, c)
		if at < 0 {
			at = len(byFrequency) - 10 // digits and punctuation: rather rare
		}
		if at > rarest {
			rarest, f.anchor = at, i
		}
	}
	f.lower = f.text[f.anchor]
	f.upper = f.lower
	if f.lower >= 'a' && f.lower <= 'z' {
		f.upper -= 'a' - 'A'
	}
	return f
}

// find returns the first place in buf at which the text begins, from an offset on; -1
// for none.
func (f *folded) find(buf []byte, from int) int {
	lower, upper := -1, -1
	for at := from + f.anchor; at < len(buf); at++ {
		lower, upper = following(buf, f.lower, at, lower), following(buf, f.upper, at, upper)
		at = min(lower, upper)
		start := at - f.anchor
		if end := start + len(f.text); end <= len(buf) && f.equals(buf[start:end]) {
			return start
		}
	}
	return -1
}

// following returns where a byte is at or after a place, which is known already if it
// is not before; the length of buf for nowhere.
func following(buf []byte, c byte, at, known int) int {
	if known >= at {
		return known
	}
	if i := bytes.IndexByte(buf[at:], c); i >= 0 {
		return at + i
	}
	return len(buf)
}

func (f *folded) equals(part []byte) bool {
	for i, c := range part {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != f.text[i] {
			return false
		}
	}
	return true
}
