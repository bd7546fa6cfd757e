package textmatch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// What a Matcher finds is what looking at every place finds.
func TestAMatcherFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	word := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 5, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfNDistinct(word, 1, 6, rapid.ID).Draw(t, "patterns")
		m := textmatch.New(patterns, 5, rapid.IntRange(2, 3).Draw(t, "block"))
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 60, -1).Draw(t, "text") + rapid.SampledFrom(patterns).Draw(t, "one")
		covered := make([]bool, len(text))
		for _, p := range patterns {
			for i := range text {
				if strings.HasPrefix(text[i:], p) {
					for j := range p {
						covered[i+j] = true
					}
				}
			}
		}
		got := make([]bool, len(text))
		end := -1
		textmatch.Regions(m, text, func(start, to int) bool {
			require.Greater(t, start, end)
			for end = start; end < to; end++ {
				got[end] = true
			}
			return true
		})
		require.Equal(t, covered, got)
		require.Equal(t, slices.Contains(covered, true), textmatch.Has(m, []byte(text)))

		least := rapid.IntRange(1, 6).Draw(t, "least")
		open := len(text)
		for i := len(text) - least; i >= 0; i-- {
			if slices.ContainsFunc(patterns, func(p string) bool { return len(p) > len(text)-i && strings.HasPrefix(p, text[i:]) }) {
				open = i
			}
		}
		require.Equal(t, open, m.Open([]byte(text), least))
	})
}
