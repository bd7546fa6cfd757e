package textcut_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

func TestTextsAreCutAtWholeCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, got, want string }{
		{"a text that fits in bytes", textcut.Bytes("käse", 5, "…"), "käse"},
		{"a character that the limit would cut in two", textcut.Bytes("käse", 2, ""), "k"},
		{"a mark counts in bytes", textcut.Bytes("käsebrot", 6, "…"), "kä…"},
		{"no room but for the mark", textcut.Bytes("käse", 3, "…"), "…"},
		{"a text that fits in characters", textcut.Runes("käse", 4, "…"), "käse"},
		{"characters are counted, not bytes", textcut.Runes("ääääää", 3, ""), "äää"},
		{"a mark counts as characters", textcut.Runes("käsebrot", 4, "…"), "käs…"},
		{"what is no UTF-8 is left out of a cut text", textcut.Bytes("a\xffbcdef", 4, ""), "abc"},
		{"nothing", textcut.Runes("", 0, ""), ""},
	} {
		assert.Equal(t, c.want, c.got, c.what)
	}
}

func TestACutTextIsWithinItsLimitAndBeginsLikeTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, mark := rapid.String().Draw(t, "text"), rapid.SampledFrom([]string{"", "…", "..."}).Draw(t, "mark")
		most := rapid.IntRange(3, 40).Draw(t, "most")
		inBytes, inRunes := textcut.Bytes(text, most, mark), textcut.Runes(text, most, mark)
		assert.LessOrEqual(t, len(inBytes), most)
		assert.LessOrEqual(t, utf8.RuneCountInString(inRunes), most)
		for _, got := range []string{inBytes, inRunes} {
			if got != text {
				assert.True(t, strings.HasSuffix(got, mark))
				assert.True(t, strings.HasPrefix(text, strings.TrimSuffix(got, mark)))
			}
		}
	})
}
