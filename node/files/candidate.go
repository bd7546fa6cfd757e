package files

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxCandidates is how many places are named that resemble a text which is not there.
	maxCandidates = 3
	// compared bounds what is compared: bytes of the file, lines of the text, and bytes of
	// a line.
	comparedBytes = 512 << 10
	comparedLines = 8
	comparedLine  = 400
	// alike is how alike the lines of a candidate must be, from 0 to 1.
	alike = 0.5
)

// candidate is a place that resembles a text.
type candidate struct {
	line  int // from 1
	text  string
	score float64
}

// candidates describes the places in a file that are most like a text which is not in it;
// "" if nothing is.
func candidates(content, text []byte) string {
	if len(content) > comparedBytes {
		return ""
	}
	wanted := make([]map[[2]byte]int, 0, comparedLines)
	for _, line := range bytes.SplitN(bytes.Trim(text, "\n"), []byte("\n"), comparedLines+1) {
		if len(wanted) < comparedLines {
			wanted = append(wanted, pairsOf(line))
		}
	}
	lines := bytes.Split(content, []byte("\n"))
	scores := make([]float64, len(lines)) // of a place that begins on that line
	for i, line := range lines {
		have := pairsOf(line)
		for j, w := range wanted {
			if i-j >= 0 {
				scores[i-j] += likeness(w, have) / float64(len(wanted))
			}
		}
	}
	var found []candidate
	for i, score := range scores {
		if score >= alike {
			found = append(found, candidate{line: i + 1, text: string(lines[i]), score: score})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var out strings.Builder
	for i, c := range found[:min(len(found), maxCandidates)] {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "line %d: %.120q", c.line, strings.TrimSpace(c.text))
	}
	if out.Len() == 0 {
		return ""
	}
	return "; what is most like it begins on " + out.String()
}

// pairsOf returns the pairs of neighbouring characters of a line, without its indentation.
func pairsOf(line []byte) map[[2]byte]int {
	line = bytes.TrimSpace(line)
	line = line[:min(len(line), comparedLine)]
	pairs := make(map[[2]byte]int, len(line))
	for j := 1; j < len(line); j++ {
		pairs[[2]byte{line[j-1], line[j]}]++
	}
	return pairs
}

// likeness is the Sørensen-Dice coefficient of two lines: 1 for the same, 0 for nothing in
// common.
func likeness(a, b map[[2]byte]int) float64 {
	var both, all int
	for pair, n := range a {
		both += min(n, b[pair])
		all += n
	}
	for _, n := range b {
		all += n
	}
	if all == 0 {
		return 1 // two empty lines
	}
	return 2 * float64(both) / float64(all)
}
