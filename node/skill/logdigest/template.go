package logdigest

import (
	"bytes"
	"strings"
)

// Lines are sorted into templates as Drain does it (He, Zhu, Zheng and Lyu,
// "Drain: An Online Log Parsing Approach with Fixed Depth Tree", ICWS 2017): by
// how many words they have and how they begin, and then to the template that
// shares most words with them, in which the words that differ become <*>. Words
// with a digit are never part of a template.
//
// Before that a line's shape is looked up, a hash of its words, those with a
// digit left out. Only a shape that was not seen yet goes through the tree.

const (
	// looked is how much of a line makes its template.
	looked = 1024
	// maxWords is how many words of it do.
	maxWords = 64
	// alike is the part of the words that a line and its template share.
	alike = 0.5
	// maxShapes are kept; then they are learnt again.
	maxShapes = 1 << 16
	// maxTemplates are kept in sum, maxLeaf of those that begin alike. A line
	// that fits none and finds no room goes to the last of its leaf.
	maxTemplates = 8192
	maxLeaf      = 256

	wild = "<*>"
)

// place is where a line is.
type place struct {
	file   int
	line   int64
	offset int64
	sec    int64
}

// template is a kind of line.
type template struct {
	words []string // wild where they differ
	gaps  []string // what stands before each word, and after the last
	level level

	count       int64
	first, last place
	dated       bool // first and last have a time
	followed    int64
	sample      []byte
	times       series
}

// text returns the template as it is shown.
func (t *template) text() string {
	var b strings.Builder
	for i, w := range t.words {
		b.WriteString(t.gaps[i])
		b.WriteString(w)
	}
	if len(t.gaps) > len(t.words) {
		b.WriteString(t.gaps[len(t.words)])
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

type leaf struct {
	words int
	begin string
}

type miner struct {
	shapes map[uint64]*template
	leaves map[leaf][]*template
	all    []*template
	// other takes lines for which there is no room.
	other *template
	full  bool
}

func newMiner() *miner {
	return &miner{shapes: map[uint64]*template{}, leaves: map[leaf][]*template{}}
}

// isWord are the bytes of words; all others separate words.
var isWord = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c > ' ' && !strings.ContainsRune("=,;:()[]{}\"'<>|&?/\\", rune(c)) || c >= 0x80
	}
	return t
}()

var digit = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	return t
}()

const (
	prime  = 0x100000001b3
	prime2 = 0x9e3779b97f4a7c15
)

// shape hashes a text's words and separators.
func shape(h uint64, text []byte) uint64 {
	for i := 0; i < len(text); {
		c := text[i]
		if !isWord[c] {
			h = (h ^ uint64(c)) * prime2
			i++
			continue
		}
		word := uint64(0xcbf29ce484222325)
		number := false
		for {
			word = (word ^ uint64(c)) * prime
			number = number || digit[c]
			if i++; i == len(text) {
				break
			}
			if c = text[i]; !isWord[c] {
				break
			}
		}
		if number {
			word = 1
		}
		h = (h ^ word ^ h>>29) * prime2
	}
	return h
}

// find returns the template of a message that is in parts of a line, salted
// with what else distinguishes lines; isNew reports that it was created for
// this message.
func (m *miner) find(salt uint64, before, text []byte, rank func() level) *template {
	before, text = before[:min(len(before), looked)], text[:min(len(text), looked)]
	h := shape(shape(salt*prime2, before), text)
	if t := m.shapes[h]; t != nil {
		return t
	}
	t := m.sort(before, text, rank)
	if len(m.shapes) >= maxShapes {
		clear(m.shapes)
	}
	m.shapes[h] = t
	return t
}

// sort takes a line through the tree.
func (m *miner) sort(before, text []byte, rank func() level) *template {
	words, gaps := split(bytes.Join([][]byte{before, text}, []byte(" ")))
	lvl := rank()
	key := leaf{words: len(words)}
	if len(words) > 0 {
		key.begin = words[0] + "\x00" + string(rune('0'+lvl))
	}
	of := m.leaves[key]
	var best *template
	most := -1
	for _, t := range of {
		if same := shared(t.words, words); same > most {
			best, most = t, same
		}
	}
	if best != nil && float64(most) >= alike*float64(len(words)) {
		best.merge(words)
		return best
	}
	if len(of) >= maxLeaf || len(m.all) >= maxTemplates {
		m.full = true
		if m.other == nil {
			m.other = &template{words: []string{"(lines of too many kinds)"}, gaps: []string{"", ""}}
			m.all = append(m.all, m.other)
		}
		return m.other
	}
	t := &template{words: words, gaps: gaps, level: lvl}
	m.leaves[key] = append(of, t)
	m.all = append(m.all, t)
	return t
}

// shared counts the words that are the same.
func shared(template, words []string) int {
	n := 0
	for i, w := range template {
		if w == words[i] {
			n++
		}
	}
	return n
}

func (t *template) merge(words []string) {
	for i, w := range t.words {
		if w != words[i] {
			t.words[i] = wild
		}
	}
}

// split returns a text's words, with those that contain a digit made wild, and
// what precedes each and follows the last.
func split(text []byte) (words, gaps []string) {
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && !isWord[text[i]] {
			i++
		}
		gaps = append(gaps, string(text[start:i]))
		if len(words) == maxWords {
			gaps[len(gaps)-1] += " …"
			return words, gaps
		}
		if i == len(text) {
			return words, gaps
		}
		start = i
		number := false
		for i < len(text) && isWord[text[i]] {
			number = number || digit[text[i]]
			i++
		}
		if number {
			words = append(words, wild)
		} else {
			words = append(words, string(text[start:i]))
		}
	}
	return words, append(gaps, "")
}
