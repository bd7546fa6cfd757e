package knowledge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Words are found in their inflected forms, and names by their parts and as a whole.
func TestWordsAreStemsAndNames(t *testing.T) {
	t.Parallel()
	for question, want := range map[string][]string{
		"How are the expired leases requeued?": {"expir", "leas", "requeu"},
		"strings.Builder":                      {"string", "builder", "=strings.builder"},
		"requeueExpired":                       {"requeu", "expir", "=requeueexpired"},
		"HTTPServer snake_case":                {"http", "server", "=httpserver", "snake", "case", "=snake_case"},
		"AGENT_010":                            {"agent", "010", "=agent_010"},
		"Größe der Datei":                      {"größe", "der", "datei"},
		"the of and":                           nil,
		"":                                     nil,
		"' | ! & <-> :* \\":                    nil,
	} {
		require.Equal(t, want, asked(question), question)
	}
	require.Len(t, asked(strings.Repeat("x1y2 z3w4 ", 1000)), 2)
}

// Whatever a text has, it is a text of PostgreSQL.
func TestWordsOfHostileTextAreQuoted(t *testing.T) {
	t.Parallel()
	words, length := vector("docs/a.md", "T", "Head", "it's a 'quoted' \\ back, "+strings.Repeat("long", 100))
	require.Contains(t, words, "'head':1A")
	require.Contains(t, words, "'doc':")
	require.Positive(t, length)
	require.NotContains(t, words, "\\")
	for _, field := range strings.Fields(words) {
		require.Regexp(t, `^'[^']+':[0-9]+[AB]?(,[0-9]+[AB]?)*$`, field)
		require.Less(t, len(field), 300)
	}
}

// What several searches rank high comes first.
func TestResultsAreMergedByReciprocalRank(t *testing.T) {
	t.Parallel()
	out := merge([]list{{ByWords, 1, []int64{1, 2, 3}}, {BySimilar, similarWeight, []int64{3, 4}}})
	ids := make([]int64, len(out))
	for i, m := range out {
		ids[i] = m.id
	}
	require.Equal(t, []int64{3, 1, 2, 4}, ids)
	require.Equal(t, []string{ByWords, BySimilar}, out[0].by)
	hit := func(id int64, body string) Hit {
		h := Hit{}
		h.ID, h.Body = id, body
		return h
	}
	require.Len(t, distinct([]Hit{hit(1, "a"), hit(2, "a"), hit(3, "b"), hit(4, "c")}, 2), 2)
}

// A word counts more in a name than in a heading or text, more where it is rare, often or in
// little text, and a passage of a document that is about the question before one alike.
func TestPassagesAreScored(t *testing.T) {
	t.Parallel()
	row := func(id int64, document string, length int32, counts ...int32) db.RankKnowledgeRow {
		return db.RankKnowledgeRow{ID: id, DocumentID: document, Heading: "Ten words are usual", Path: "guide.md", Length: length, Counts: counts}
	}
	terms := []term{{"rare", 5, 10}, {"usual", 1, 1000}}
	require.Equal(t, []int64{4, 3, 2, 5, 1, 6}, byScore([]db.RankKnowledgeRow{
		row(1, "a", 100, 0, 0, 0, 0, 0, 9),
		row(2, "b", 100, 0, 0, 1, 0, 0, 0),
		row(3, "c", 100, 0, 0, 2, 0, 0, 0),
		row(4, "d", 100, 0, 1, 2, 0, 0, 0),
		row(5, "e", 400, 0, 0, 1, 0, 0, 0),
		row(6, "f", 100, 0, 0, 0, 0, 0, 0),
	}, terms, 100))
	require.Equal(t, []int64{3, 2, 1}, byScore([]db.RankKnowledgeRow{
		row(1, "a", 100, 0, 0, 1, 0, 0, 0), row(2, "b", 100, 0, 0, 1, 0, 0, 0), row(3, "b", 100, 0, 0, 1, 0, 0, 3),
	}, terms, 100))
}
