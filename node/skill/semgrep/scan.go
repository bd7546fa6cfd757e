package semgrep

import (
	"bytes"

	"github.com/kljensen/snowball/english"
)

// Classes of bytes. Bytes above ASCII are letters of no case.
const (
	other = iota
	lower
	upper
)

var class = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c >= 'a' && c <= 'z', c >= 0x80:
			t[c] = lower
		case c >= 'A' && c <= 'Z':
			t[c] = upper
		}
	}
	return t
}()

// letter is 1 to 26, 0 for what is no letter of ASCII.
func letter(c byte) int {
	c |= 0x20
	if c < 'a' || c > 'z' {
		return 0
	}
	return int(c-'a') + 1
}

func key(a, b, c int) int { return (a*27+b)*27 + c }

// hit is what a word contributes: a bit for each term, and the weights.
type hit struct {
	term   int8
	weight float32
}

// matcher finds words of the question, in any of their forms.
type matcher struct {
	terms  []term
	begins [27 * 27 * 27]bool // the first three letters of every form
	// known are words that were looked at already.
	known map[string][]hit
}

const maxKnown = 1 << 15

func newMatcher(terms []term) *matcher {
	m := &matcher{terms: terms, known: map[string][]hit{}}
	for _, t := range terms {
		for form := range t.forms {
			m.begin(form)
		}
	}
	return m
}

func (m *matcher) begin(form string) {
	b := []byte(form)
	for len(b) < 3 {
		b = append(b, 0)
	}
	if len(form) >= 3 {
		m.begins[key(letter(b[0]), letter(b[1]), letter(b[2]))] = true
		return
	}
	for c := range 27 {
		m.begins[key(letter(b[0]), letter(b[1]), c)] = true
	}
}

// of returns what a word contributes; word is overwritten in lower case.
func (m *matcher) of(word []byte) []hit {
	for i, c := range word {
		if class[c] == upper {
			word[i] = c | 0x20
		}
	}
	if hits, ok := m.known[string(word)]; ok {
		return hits
	}
	text := string(word)
	stem := english.Stem(text, false)
	var hits []hit
	for i, t := range m.terms {
		weight := t.forms[stem]
		if weight == 0 && len(t.stem) >= 4 && bytes.HasPrefix(word, []byte(t.stem)) {
			weight = 0.4 // part of a longer word: file of filename
		}
		if weight > 0 {
			hits = append(hits, hit{int8(i), weight})
		}
	}
	if len(m.known) >= maxKnown {
		clear(m.known)
	}
	m.known[text] = hits
	return hits
}

// passage is a part of a file with words of the question in it.
type passage struct {
	file       int32
	start, end int32 // bytes
	first      int32 // line
	words      int32
	bestLine   int32
	bestScore  float32
	tf         [maxTerms]float32
	name       [maxTerms]float32 // in the name of a definition
	// named is how many of the words of a definition's name were asked for, of
	// how many, for the best of them.
	named float32
}

// Bounds of a passage.
const (
	maxPassageLines = 60
	maxPassageBytes = 6 << 10
)

// scanner goes over texts and collects passages.
type scanner struct {
	m        *matcher
	word     [64]byte
	file     int32
	cFamily  bool
	prose    bool
	current  passage
	any      bool
	line     lineScore
	found    []passage
	df       [maxTerms]int64
	passages int64
	wordsSum int64
}

type lineScore struct {
	weight [maxTerms]float32
}

// definers begin lines that define what they name.
var definers = map[string]bool{
	"func": true, "type": true, "class": true, "def": true, "struct": true, "enum": true, "interface": true, "fn": true, "impl": true,
	"trait": true, "module": true, "package": true, "typedef": true, "union": true, "#define": true, "const": true, "var": true,
	"public": true, "private": true, "protected": true, "static": true, "export": true, "async": true, "pub": true, "let": true,
	"message": true, "service": true, "rpc": true, "CREATE": true, "create": true, "function": true, "namespace": true, "abstract": true,
	"final": true, "extern": true, "inline": true, "object": true, "protocol": true, "resource": true, "object_type": true,
}

// scan goes over one text.
func (s *scanner) scan(text []byte) {
	lineNo := int32(1)
	s.begin(0, lineNo)
	blank := true
	for at := 0; at < len(text); lineNo++ {
		end := len(text)
		next := end
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n
			next = end + 1
		}
		line := text[at:end]
		empty := isBlank(line)
		cut := lineNo-s.current.first >= maxPassageLines || at-int(s.current.start) >= maxPassageBytes
		heads := blank && !empty && line[0] != ' ' && line[0] != '\t' && line[0] != '}' && line[0] != ')'
		if (heads || cut) && at > int(s.current.start) {
			s.finish(at)
			s.begin(at, lineNo)
		}
		if !empty {
			s.scanLine(line, lineNo)
		}
		blank = empty
		at = next
	}
	s.finish(len(text))
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func (s *scanner) begin(at int, line int32) {
	s.current = passage{file: s.file, start: int32(at), first: line}
	s.any = false
}

func (s *scanner) finish(at int) {
	if s.current.words == 0 {
		return
	}
	s.passages++
	s.wordsSum += int64(s.current.words)
	if !s.any {
		return
	}
	s.current.end = int32(at)
	for i := range s.m.terms {
		if s.current.tf[i] > 0 {
			s.df[i]++
		}
	}
	s.found = append(s.found, s.current)
}

// scanLine counts a line's words and records which of them match the question.
func (s *scanner) scanLine(line []byte, number int32) {
	words := int32(0)
	hits := false
	for i := 0; i < len(line); {
		if class[line[i]] == other {
			i++
			continue
		}
		start := i
		i = wordEnd(line, i)
		words++
		n := i - start
		if n < 2 || n > len(s.word) {
			continue
		}
		third := 0
		if n > 2 {
			third = letter(line[start+2])
		}
		if !s.m.begins[key(letter(line[start]), letter(line[start+1]), third)] {
			continue
		}
		for _, h := range s.m.of(append(s.word[:0], line[start:i]...)) {
			if !hits {
				hits, s.line = true, lineScore{}
			}
			s.current.tf[h.term] += h.weight
			s.line.weight[h.term] = max(s.line.weight[h.term], h.weight)
		}
	}
	s.current.words += words
	if !hits {
		return
	}
	s.any = true
	score := float32(0)
	for i := range s.m.terms {
		score += s.line.weight[i]
	}
	if name := s.defined(line); name != nil {
		matched, all := s.inName(name)
		if matched > 0 {
			s.current.named = max(s.current.named, matched*matched/all)
			score += 1 + matched
		}
	}
	if score > s.current.bestScore {
		s.current.bestScore, s.current.bestLine = score, number
	}
}

// wordEnd returns where the word that begins at i ends; a change of case ends a
// word.
func wordEnd(line []byte, i int) int {
	was := class[line[i]]
	for i++; i < len(line); i++ {
		c := class[line[i]]
		if c == other || c == upper && was == lower {
			return i
		}
		if c == upper && was == upper && i+1 < len(line) && class[line[i+1]] == lower && line[i+1] != 's' {
			return i
		}
		was = c
	}
	return i
}

// defined returns the name that a line defines; nil for none.
func (s *scanner) defined(line []byte) []byte {
	trimmed := bytes.TrimLeft(line, " \t")
	if s.prose {
		if len(trimmed) > 0 && trimmed[0] == '#' {
			return trimmed
		}
		return nil
	}
	end := bytes.IndexAny(trimmed, " \t(")
	if end <= 0 {
		return nil
	}
	if definers[string(trimmed[:end])] {
		return nameOf(trimmed[end:])
	}
	// In C and its kin a definition begins with its type.
	if s.cFamily && len(trimmed) == len(line) && class[line[0]] != other {
		if paren := bytes.IndexByte(line, '('); paren > 0 {
			return lastIdentifier(line[:paren])
		}
	}
	return nil
}

// nameOf returns the name in the text after a defining keyword: the last before
// a parenthesis, with a receiver skipped, or the first that is not another such
// keyword.
func nameOf(rest []byte) []byte {
	rest = bytes.TrimLeft(rest, " \t*")
	if len(rest) > 0 && rest[0] == '(' { // the receiver of a method
		if end := bytes.IndexByte(rest, ')'); end > 0 {
			rest = bytes.TrimLeft(rest[end+1:], " \t")
		}
	}
	if end := bytes.IndexAny(rest, "([{=:<;"); end > 0 {
		if name := lastIdentifier(rest[:end]); rest[end] == '(' && name != nil {
			return name
		}
	}
	for len(rest) > 0 {
		end := bytes.IndexFunc(rest, func(r rune) bool { return r < 0x80 && class[byte(r)] == other && r != '_' && (r < '0' || r > '9') })
		if end < 0 {
			end = len(rest)
		}
		if end > 0 && !definers[string(rest[:end])] {
			return rest[:end]
		}
		rest = bytes.TrimLeft(rest[min(len(rest), end+1):], " \t*")
	}
	return nil
}

func lastIdentifier(text []byte) []byte {
	text = bytes.TrimRight(text, " \t")
	start := len(text)
	for start > 0 && (class[text[start-1]] != other || text[start-1] == '_' || text[start-1] >= '0' && text[start-1] <= '9') {
		start--
	}
	if start == len(text) {
		return nil
	}
	return text[start:]
}

// inName counts how much of a definition's name was asked for, of how many
// words.
func (s *scanner) inName(name []byte) (matched, all float32) {
	for i := 0; i < len(name); {
		if class[name[i]] == other {
			i++
			continue
		}
		start := i
		i = wordEnd(name, i)
		if i-start > len(s.word) {
			continue
		}
		all++
		best := float32(0)
		for _, h := range s.m.of(append(s.word[:0], name[start:i]...)) {
			s.current.name[h.term] = max(s.current.name[h.term], h.weight)
			best = max(best, h.weight)
		}
		matched += best
	}
	return matched, max(all, 1)
}
