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
	wanted := pairsOf(bytes.Split(bytes.Trim(text, "\n"), []byte("\n")), comparedLines)
	lines := bytes.Split(content, []byte("\n"))
	have := pairsOf(lines, len(lines))
	var found []candidate
	for i := range have {
		var sum float64
		for j, w := range wanted {
			if i+j < len(have) {
				sum += likeness(w, have[i+j])
			}
		}
		if score := sum / float64(len(wanted)); score >= alike {
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

// pairsOf returns the pairs of neighbouring characters of each line, without its
// indentation.
func pairsOf(lines [][]byte, most int) []map[[2]byte]int {
	out := make([]map[[2]byte]int, min(len(lines), most))
	for i := range out {
		line := bytes.TrimSpace(lines[i])
		line = line[:min(len(line), comparedLine)]
		pairs := make(map[[2]byte]int, len(line))
		for j := 1; j < len(line); j++ {
			pairs[[2]byte{line[j-1], line[j]}]++
		}
		out[i] = pairs
	}
	return out
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
