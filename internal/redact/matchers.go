package redact

import (
	"slices"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// matcher finds the forms of values.
type matcher struct {
	*textmatch.Matcher
	values int // that its patterns are forms of
}

// matchers find what any of them finds.
type matchers []*matcher

// eachRegion is regions of all of them.
func eachRegion[T string | []byte](ms matchers, text T, found func(start, end int) bool) {
	if len(ms) == 1 {
		textmatch.Regions(ms[0].Matcher, text, found)
		return
	}
	type region struct{ start, end int }
	var all []region
	for _, m := range ms {
		textmatch.Regions(m.Matcher, text, func(start, end int) bool {
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
		at = min(at, m.Open(p, minHeld))
	}
	return at
}
