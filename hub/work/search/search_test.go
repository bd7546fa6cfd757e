package search

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

func TestWordsAreThoseThatPeopleLookFor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"no space left":           {"no", "space", "left"},
		"src/main.go:12":          {"src", "main", "go", "12"},
		"shell_exec --dry-run":    {"shell", "exec", "dry", "run"},
		"Größe ändern":            {"größe", "ändern"},
		"ro\u200bot":              {"root"},
		"\u202ereversed\x1b[31m!": {"reversed", "31m"},
		"数据库 error":               {"数", "据", "库", "error"},
		"  \x00\t--":              nil,
	} {
		var got []string
		for _, w := range wordsOf(text) {
			got = append(got, w.text)
		}
		assert.Equal(t, want, got, "%q", text)
	}
	assert.Equal(t, []string{"http", "server", "servertest", "test"}, wordsOf("HTTPServerTest")[0].parts)
	assert.Nil(t, wordsOf("plain")[0].parts)
}

// Whatever the text, its words lie within it, in order, and none can end a lexeme.
func TestWordsOfAnyTextAreLexemes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		at := 0
		for _, w := range wordsOf(text) {
			require.GreaterOrEqual(t, w.begin, at)
			require.Greater(t, w.end, w.begin)
			require.LessOrEqual(t, w.end, len(text))
			at = w.end
			for _, part := range append(w.parts, w.text) {
				require.LessOrEqual(t, len(part), maxWord)
				require.False(t, strings.ContainsFunc(part, func(r rune) bool {
					return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
				}), "%q", part)
			}
		}
	})
}

// A text is found by each of its own words, and its excerpt has them.
func TestEveryWordOfATextIsMarkedInItsExcerpt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?")
		words := wordsOf(text)
		if len(words) == 0 {
			return
		}
		w := rapid.SampledFrom(words).Draw(t, "word")
		pieces := Query{terms: []term{{words: []string{w.text}}}}.excerpt(text)
		require.True(t, slices.ContainsFunc(pieces, func(p Piece) bool { return p.Match && newWord(p.Text).text == w.text }), "%q in %v", w.text, pieces)
		var whole strings.Builder
		for _, p := range pieces {
			whole.WriteString(p.Text)
		}
		require.Contains(t, text, strings.Trim(whole.String(), "…"))
	})
}

func TestAQueryHasWordsPhrasesAndFilters(t *testing.T) {
	t.Parallel()
	q, err := Parse(`"no space left" main.go agent:coder tool:shell_exec in:outputs state:failed cost:>1.5 after:2026-11-01 error: rm -rf`)
	require.NoError(t, err)
	require.Equal(t, `'=org o' & ('no' <-> 'space' <-> 'left') & ('main' <-> 'go') & ('error':*) & ('rm') & ('rf')`, q.tsquery("=org o"))
	require.Equal(t, []any{"coder", "shell_exec", []string{Output}, []string{"failed"}, int64(1_500_000)}, []any{q.Agent, q.Tool, q.Kinds, q.States, *q.CostOver})
	require.Equal(t, "2026-11-01T00:00:00Z", q.Since.Format("2006-01-02T15:04:05Z07:00"))
	q, err = Parse(`TestLog "tool:x" task:"task_1" 'quoted' \ : & | !`)
	require.NoError(t, err)
	require.Equal(t, `('testlog':*) & ('tool' <-> 'x') & ('quoted':*)`, q.tsquery())
	require.Equal(t, "task_1", q.Task)
	for query, says := range map[string]string{
		`agent:coder`: "query has no word", `"" --`: "query has no word", "x in:files": "in:files", "x state:done": "state:done", "x cost:>much": "cost:>much",
		"x cost:NaN": "cost:NaN", "x after:yesterday": "after:yesterday", "x agent:": "agent: has no value", strings.Repeat("word ", 21): "21 words",
	} {
		_, err := Parse(query)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", query, err)
		require.ErrorContains(t, err, says)
	}
}

func TestAnExcerptIsWhereMostOfTheWordsAre(t *testing.T) {
	t.Parallel()
	q, err := Parse("disk full")
	require.NoError(t, err)
	text := "disk one\n" + strings.Repeat("unrelated text. ", 60) + "here the disk is FULL again" + strings.Repeat(" and so on", 90)
	pieces := q.excerpt(text)
	require.Equal(t, []Piece{{"disk", true}, {" is ", false}, {"FULL", true}}, pieces[2:5])
	require.Equal(t, Piece{"…", false}, pieces[0])
	require.Equal(t, Piece{"…", false}, pieces[len(pieces)-1])
	require.Empty(t, q.excerpt(""))
	require.Equal(t, []Piece{{"nothing of it", false}}, q.excerpt("nothing of it"))
}
