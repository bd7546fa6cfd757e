package shortlist_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/shortlist"
)

func TestTheRestOfTheNamesIsCounted(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	require.Equal(t, "a, b, c", shortlist.Of(names, 5, 3))
	require.Equal(t, "a, b and 1 more", shortlist.Of(names, 2, 3))
	require.Equal(t, "a, b, c and 7 more", shortlist.Of(names, 5, 10))
	require.Empty(t, shortlist.Of(nil, 5, 0))
}
