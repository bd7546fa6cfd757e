package semgrep

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"os"
	"strings"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	lineBytes = 160
	// looks is how many of the best passages are read again, to fold those that
	// say the same.
	looks = 120
	// alike is the part of two passages' words, in groups of four, from which
	// they say the same.
	alike = 0.7
)

// place is what is shown of a passage, with others that say the same.
type place struct {
	at      string
	text    []byte
	passage passage
	groups  map[uint64]bool
	also    []string
}

// report writes the best places.
func (s *search) report(out *report.Answer, ranked []result, tree *input.Tree) {
	defer s.notes(out, tree)
	if len(ranked) == 0 {
		asked := make([]string, len(s.terms))
		for i, t := range s.terms {
			asked[i] = t.word
		}
		out.Line("nothing has any of the words: %s", report.Clean([]byte(strings.Join(asked, ", ")), 300))
		return
	}
	places := s.fold(ranked)
	m := newMatcher(s.terms)
	for i := range places {
		if !s.show(out, m, i+1, &places[i], (out.Room()-40)/(len(places)-i)) {
			break
		}
	}
}

// fold returns as many places as are wanted, each with those that say the same.
func (s *search) fold(ranked []result) []place {
	var out []place
	inFile := map[int32]int{}
	for i, r := range ranked {
		if i >= looks || r.score < ranked[0].score/6 {
			break
		}
		if inFile[r.file] >= perFile {
			continue
		}
		text, err := s.again(r.passage)
		if err != nil {
			continue
		}
		p := place{passage: r.passage, text: text, groups: groups(text)}
		p.at = fmt.Sprintf("%s:%d", report.Clean([]byte(input.Name(s.files[r.file].Path)), 200), r.bestLine)
		same := -1
		for n := range out {
			if similar(out[n].groups, p.groups) {
				same = n
				break
			}
		}
		switch {
		case same >= 0:
			out[same].also = append(out[same].also, p.at)
		case len(out) < s.args.Results:
			inFile[r.file]++
			out = append(out, p)
		}
	}
	return out
}

// again reads a passage.
func (s *search) again(p passage) ([]byte, error) {
	f, err := os.Open(s.files[p.file].Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, p.end-p.start)
	n, err := f.ReadAt(text, int64(p.start))
	if n == 0 {
		return nil, err
	}
	return text[:n], nil
}

var seed = maphash.MakeSeed()

// groups returns a hash of each four words that follow one another.
func groups(text []byte) map[uint64]bool {
	words := bytes.FieldsFunc(bytes.ToLower(text), func(r rune) bool { return r < 0x80 && class[byte(r)] == other })
	out := map[uint64]bool{}
	for i := 0; i+4 <= len(words); i++ {
		out[maphash.Bytes(seed, bytes.Join(words[i:i+4], []byte(" ")))] = true
	}
	if len(out) == 0 {
		out[maphash.Bytes(seed, bytes.Join(words, []byte(" ")))] = true
	}
	return out
}

func similar(a, b map[uint64]bool) bool {
	both := 0
	for g := range a {
		if b[g] {
			both++
		}
	}
	return float64(both) >= alike*float64(len(a)+len(b)-both)
}

// show writes a place: its best line, then others of it that have words of the
// question, within so many bytes.
func (s *search) show(out *report.Answer, m *matcher, rank int, p *place, room int) bool {
	lines := bytes.Split(p.text, []byte("\n"))
	best := int(p.passage.bestLine - p.passage.first)
	if best < 0 || best >= len(lines) {
		best = 0
	}
	text := fmt.Sprintf("%d. %s  %s", rank, p.at, report.Clean(bytes.TrimSpace(lines[best]), lineBytes))
	if len(p.also) > 0 {
		also := fmt.Sprintf("\n   the same in %d more: %s", len(p.also), strings.Join(p.also[:min(2, len(p.also))], ", "))
		if len(text)+len(also) <= room {
			text += also
		}
	}
	more := 0
	for i, line := range lines {
		if more >= 4 {
			break
		}
		trimmed := bytes.TrimSpace(line)
		if i == best || len(trimmed) == 0 || m.count(trimmed) == 0 {
			continue
		}
		add := fmt.Sprintf("\n   %d: %s", int(p.passage.first)+i, report.Clean(trimmed, lineBytes))
		if len(text)+len(add) > room {
			break
		}
		text += add
		more++
	}
	return out.Line("%s", text)
}

// count returns how many words of the question are in a line.
func (m *matcher) count(line []byte) int {
	seen := map[int8]bool{}
	for _, w := range subwords(string(line[:min(len(line), 1024)])) {
		for _, h := range m.of([]byte(w)) {
			seen[h.term] = true
		}
	}
	return len(seen)
}

func (s *search) notes(out *report.Answer, tree *input.Tree) {
	if tree.Stopped != "" {
		out.Note("%s", tree.Stopped)
	}
	for _, skipped := range []struct {
		n   int64
		why string
	}{
		{s.large.Load(), "larger than 4 MB, of which only the beginning is read"},
		{s.unreadable.Load() + int64(len(tree.Unread)), "may not be read"},
		{s.binary.Load(), "binary"},
		{s.generated.Load(), "generated or empty"},
	} {
		if skipped.n > 0 {
			out.Note("%d files %s", skipped.n, skipped.why)
		}
	}
	out.Note("%d files, %s read", len(s.files), report.Bytes(s.read.Load()))
}
