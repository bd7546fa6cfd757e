// Package textmatch finds texts of a set in other texts, all in one pass and many
// bytes at a time.
//
// A Matcher is made once and may be used by many goroutines. Regions finds what
// patterns cover, and Open the beginning of a pattern at the end of a text, for
// streams that arrive in parts.
package textmatch

import (
	"math/bits"
	"slices"
)

// Matcher finds patterns: a window goes over the text, and its last bytes say how
// far it may go on at once. Sun Wu and Udi Manber, "A fast algorithm for
// multi-pattern searching", TR-94-17, 1994.
type Matcher struct {
	patterns []string
	// window is the length of the beginning of each pattern that is examined
	// first, at most the length of the shortest pattern, and block how many
	// bytes at its end are looked up.
	window, block int
	hashBits      int
	// shift is how far the window may continue, by the hash of its last bytes;
	// 0 where patterns may begin with it. heads and next chain those.
	shift       []uint8
	heads, next []int32
	// begins are the patterns by their first bytes; pairs has the first two bytes
	// of each, to look there only if it helps. longest is the longest one's length.
	begins  map[[begin]byte][]int32
	pairs   [1 << 16 / 64]uint64
	longest int
}

// begin is how many of its first bytes a pattern is found by.
const begin = 4

const (
	maxBits = 20
	minBits = 12
)

// New returns a Matcher of patterns that have at least window bytes each. The
// window passes over up to window-block+1 bytes at once; block is 2, or 3 for
// large sets.
func New(patterns []string, window, block int) *Matcher {
	m := &Matcher{
		patterns: patterns, window: window, block: block,
		// Few enough of the places are taken for most look-ups to go far.
		hashBits: min(maxBits, max(minBits, bits.Len(uint(16*len(patterns)*(window-block+1))))),
		next:     make([]int32, len(patterns)),
		begins:   map[[begin]byte][]int32{},
	}
	m.shift = make([]uint8, 1<<m.hashBits)
	for i := range m.shift {
		m.shift[i] = uint8(window - block + 1) //nolint:gosec // a few bytes
	}
	m.heads = make([]int32, 1<<m.hashBits)
	for i := range m.heads {
		m.heads[i] = -1
	}
	for id, p := range patterns {
		for end := block; end <= window; end++ {
			h := hash(m, p, end-1)
			m.shift[h] = min(m.shift[h], uint8(window-end)) //nolint:gosec // as above
		}
		h := hash(m, p, window-1)
		m.next[id], m.heads[h] = m.heads[h], int32(id) //nolint:gosec // as many as there are secrets
		m.longest = max(m.longest, len(p))
		if len(p) >= begin {
			key := [begin]byte([]byte(p[:begin]))
			m.begins[key] = append(m.begins[key], int32(id)) //nolint:gosec // as above
			m.pairs[pair(p)/64] |= 1 << (pair(p) % 64)
		}
	}
	return m
}

// hash returns the hash of the block whose last byte is at last.
func hash[T string | []byte](m *Matcher, text T, last int) uint32 {
	v := uint32(text[last]) | uint32(text[last-1])<<8
	if m.block == 3 {
		v |= uint32(text[last-2]) << 16
	}
	return v * 2654435769 >> (32 - m.hashBits)
}

// Regions calls found with each part of text that patterns cover, adjacent ones
// together, in order. It stops when found returns false.
func Regions[T string | []byte](m *Matcher, text T, found func(start, end int) bool) {
	from, to := 0, -1 // the part that is not told yet
	for last := m.window - 1; last < len(text); {
		h := hash(m, text, last)
		if s := m.shift[h]; s > 0 {
			last += int(s)
			continue
		}
		start := last - m.window + 1
		if n := longestAt(m, text, h, start); n > 0 {
			if start > to {
				if to >= 0 && !found(from, to) {
					return
				}
				from = start
			}
			to = max(to, start+n)
		}
		last++
	}
	if to >= 0 {
		found(from, to)
	}
}

// longestAt returns the length of the longest pattern that text has at start.
func longestAt[T string | []byte](m *Matcher, text T, h uint32, start int) int {
	n := 0
	for id := m.heads[h]; id >= 0; id = m.next[id] {
		if p := m.patterns[id]; len(p) > n && len(text)-start >= len(p) && string(text[start:start+len(p)]) == p {
			n = len(p)
		}
	}
	return n
}

// Has reports whether text has any of the patterns.
func Has[T string | []byte](m *Matcher, text T) (yes bool) {
	Regions(m, text, func(int, int) bool {
		yes = true
		return false
	})
	return yes
}

// Longest returns the length of the longest pattern; 0 for none.
func (m *Matcher) Longest() int { return m.longest }

// pair returns the first two bytes of a text as one number.
func pair[T string | []byte](text T) uint16 { return uint16(text[0])<<8 | uint16(text[1]) }

// Open returns where the longest beginning of a pattern is that p ends in, of
// least bytes or more, but not the whole pattern; len(p) for none.
func (m *Matcher) Open(p []byte, least int) int {
	for n := min(m.longest-1, len(p)); n >= max(least, begin); n-- {
		rest := p[len(p)-n:]
		if at := pair(rest); m.pairs[at/64]&(1<<(at%64)) == 0 {
			continue
		}
		if slices.ContainsFunc(m.begins[[begin]byte(rest)], func(id int32) bool {
			pattern := m.patterns[id]
			return len(pattern) > n && pattern[:n] == string(rest)
		}) {
			return len(p) - n
		}
	}
	for n := min(m.longest-1, len(p), begin-1); n >= least; n-- {
		rest := string(p[len(p)-n:])
		if slices.ContainsFunc(m.patterns, func(pattern string) bool { return len(pattern) > n && pattern[:n] == rest }) {
			return len(p) - n
		}
	}
	return len(p)
}
