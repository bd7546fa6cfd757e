package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// excerptBytes is how much of a text is shown, and before how much of it before
	// the first word that was found.
	excerptBytes, excerptBefore = 320, 80
)

// Piece is a part of an excerpt.
type Piece struct {
	Text string
	// Match says that it was looked for.
	Match bool
}

// excerpt returns the part of a text in which most of the terms are, the first one of
// several. Of a text that has none it is the beginning.
func (q Query) excerpt(text string) []Piece {
	type span struct{ begin, end, term int }
	var found []span
	words := wordsOf(text)
	for i := range words {
		for n, t := range q.terms {
			if t.at(words[i:]) {
				found = append(found, span{words[i].begin, words[i+len(t.words)-1].end, n})
			}
		}
	}
	from, first, most := 0, 0, 0
	for i, s := range found {
		seen := map[int]bool{}
		for _, other := range found[i:] {
			if other.end > s.begin+excerptBytes-excerptBefore {
				break
			}
			seen[other.term] = true
		}
		if len(seen) > most {
			from, first, most = max(0, s.begin-excerptBefore), s.begin, len(seen)
		}
	}
	// A line before the one of the first word, and no half of a word.
	if i := strings.LastIndexByte(text[from:first], '\n'); i >= 0 {
		from += strings.LastIndexByte(text[from:from+i], '\n') + 1
	}
	if i := strings.IndexAny(text[from:first], " \t"); i >= 0 && from > 0 && text[from-1] != '\n' {
		from += i + 1
	}
	to := min(len(text), from+excerptBytes)
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	var out []Piece
	add := func(text string, match bool) {
		if text != "" {
			out = append(out, Piece{strings.ToValidUTF8(text, "\uFFFD"), match})
		}
	}
	if from > 0 {
		add("…", false)
	}
	at := from
	slices.SortStableFunc(found, func(a, b span) int { return a.begin - b.begin })
	for _, s := range found {
		if s.begin < at || s.end > to {
			continue
		}
		add(text[at:s.begin], false)
		add(text[s.begin:s.end], true)
		at = s.end
	}
	add(text[at:to], false)
	if to < len(text) {
		add("…", false)
	}
	return out
}

// at reports whether the term begins with the first of some words.
func (t term) at(words []word) bool {
	if len(words) < len(t.words) {
		return false
	}
	for i, want := range t.words {
		prefix := t.prefix && i == len(t.words)-1
		is := func(w string) bool { return w == want || prefix && strings.HasPrefix(w, want) }
		if !is(words[i].text) && !slices.ContainsFunc(words[i].parts, is) {
			return false
		}
	}
	return true
}
