package redact

import (
	"bytes"
	"regexp"
)

// Mask replaces a secret in a text. Where offsets must hold, a marker is as long as the
// secret: it is filled up with stars, and what is too short for a whole one is stars.
const Mask = opening + word + closing

const (
	opening = "⟦"
	word    = "secret"
	closing = "⟧"
)

// marker is a marker of any length.
var marker = regexp.MustCompile(opening + "(?:" + word + `)?\**` + closing)

// Markers returns the markers in a text, in their order, as they are written there. What
// has one is no longer the text that was masked: nobody may put it in that text's place.
func Markers(text string) []string { return marker.FindAllString(text, -1) }

// mark replaces each line of p by a marker of its length.
func mark(p []byte) {
	for line := range bytes.SplitAfterSeq(p, []byte("\n")) {
		markLine(bytes.TrimRight(line, "\r\n"))
	}
}

func markLine(line []byte) {
	for i := range line {
		line[i] = '*'
	}
	if len(line) >= len(opening)+len(closing) {
		copy(line, opening)
		copy(line[len(line)-len(closing):], closing)
	}
	if len(line) >= len(Mask) {
		copy(line[len(opening):], word)
	}
}
