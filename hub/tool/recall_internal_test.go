package tool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What has the words close to each other comes first, of that the newest; the search itself,
// and what has not all words, is not among it.
func TestSearchesRankByCloseness(t *testing.T) {
	t.Parallel()
	far := "refused" + strings.Repeat(" and so on", 200) + " 5432"
	hits := []StepHit{
		{StepID: "own", Number: 9, Text: "refused 5432"},
		{StepID: "far", Number: 8, Text: far},
		{StepID: "half", Number: 7, Text: "refused"},
		{StepID: "near", Number: 3, Text: "Connection REFUSED: port 5432"},
		{StepID: "newer", Number: 4, Text: far + " refused"},
		{StepID: "log", Number: 2, Text: "refused 5432", Output: true, Offset: 100},
		{StepID: "log", Number: 2, Text: "5432 refused 5432", Output: true, Offset: 105},
		{StepID: "log", Number: 2, Text: "refused 5432", Output: true, Offset: 500},
	}
	var got []string
	for _, h := range rank(hits, []string{"refused", "5432"}, "own") {
		got = append(got, h.StepID)
	}
	require.Equal(t, []string{"newer", "near", "log", "log", "far"}, got)
}

func TestClosestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"a b": 3, "a xx b a b": 3, "b a": 3, "a": -1, "aab": 2, "": -1} {
		span, all := closest(text, []string{"a", "b"})
		if !all {
			span = -1
		}
		require.Equal(t, want, span, text)
	}
}
