package redact

import (
	"math/bits"
	"slices"
)

// matcher finds texts of a set in others, all in one pass: a window goes over the
// text, and its last bytes say how far it may go on at once. Sun Wu and Udi
// Manber, "A fast algorithm for multi-pattern searching", TR-94-17, 1994.
type matcher struct {
	patterns []string
	values   int // that the patterns are forms of
	// window is the length of the beginning of each pattern that is examined
	// first, at most the length of the shortest pattern, and block how many
	// bytes at its end are looked up.
	window, block int
	hashBits      int
	// shift is how far the window may continue, by the hash of its last bytes;
	// 0 where patterns may begin with it. heads and next chain those.
	shift       []uint8
	heads, next []int32
	// begins are the patterns by their first minHeld bytes, and longest is the
	// longest one's length.
	begins  map[[minHeld]byte][]int32
	longest int
}

const (
	maxBits = 20
	minBits = 12
)

// newMatcher makes one of patterns that have window bytes at least.
func newMatcher(patterns []string, window, block int) *matcher {
	m := &matcher{
		patterns: patterns, window: window, block: block,
		// Few enough of the places are taken for most look-ups to go far.
		hashBits: min(maxBits, max(minBits, bits.Len(uint(16*len(patterns)*(window-block+1))))),
		next:     make([]int32, len(patterns)),
		begins:   map[[minHeld]byte][]int32{},
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
		if len(p) >= minHeld {
			begin := [minHeld]byte([]byte(p[:minHeld]))
			m.begins[begin] = append(m.begins[begin], int32(id)) //nolint:gosec // as above
		}
	}
	return m
}

// hash returns the hash of the block whose last byte is at last.
func hash[T string | []byte](m *matcher, text T, last int) uint32 {
	v := uint32(text[last]) | uint32(text[last-1])<<8
	if m.block == 3 {
		v |= uint32(text[last-2]) << 16
	}
	return v * 2654435769 >> (32 - m.hashBits)
}

// regions calls found with each part of text that patterns cover, adjacent ones
// together, in order. It stops when found returns false.
func regions[T string | []byte](m *matcher, text T, found func(start, end int) bool) {
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
func longestAt[T string | []byte](m *matcher, text T, h uint32, start int) int {
	n := 0
	for id := m.heads[h]; id >= 0; id = m.next[id] {
		if p := m.patterns[id]; len(p) > n && len(text)-start >= len(p) && string(text[start:start+len(p)]) == p {
			n = len(p)
		}
	}
	return n
}

// has reports whether text has any of the patterns.
func has[T string | []byte](m *matcher, text T) (yes bool) {
	regions(m, text, func(int, int) bool {
		yes = true
		return false
	})
	return yes
}

// open returns where the longest beginning of a pattern is that p ends in, of
// minHeld bytes or more; len(p) for none.
func (m *matcher) open(p []byte) int {
	for n := min(m.longest-1, len(p)); n >= minHeld; n-- {
		rest := p[len(p)-n:]
		if slices.ContainsFunc(m.begins[[minHeld]byte(rest)], func(id int32) bool {
			pattern := m.patterns[id]
			return len(pattern) > n && pattern[:n] == string(rest)
		}) {
			return len(p) - n
		}
	}
	return len(p)
}

// matchers find what any of them finds.
type matchers []*matcher

// eachRegion is regions of all of them.
func eachRegion[T string | []byte](ms matchers, text T, found func(start, end int) bool) {
	if len(ms) == 1 {
		regions(ms[0], text, found)
		return
	}
	type region struct{ start, end int }
	var all []region
	for _, m := range ms {
		regions(m, text, func(start, end int) bool {
			all = append(all, region{start, end})
			return true
		})
	}
	slices.SortFunc(all, func(a, b region) int { return a.start - b.start })
	for len(all) > 0 {
		start, end := all[0].start, all[0].end
		for all = all[1:]; len(all) > 0 && all[0].start <= end; all = all[1:] {
			end = max(end, all[0].end)
		}
		if !found(start, end) {
			return
		}
	}
}

// open is open of all of them.
func (ms matchers) open(p []byte) int {
	at := len(p)
	for _, m := range ms {
		at = min(at, m.open(p))
	}
	return at
}
