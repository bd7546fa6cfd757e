package sdk_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/sdk"
)

func TestPagesEndWithTheLastWithAnErrorAndWhereTheHubRepeatsItself(t *testing.T) {
	t.Parallel()
	next := map[string]string{"": "a", "a": "b", "b": ""}
	var read []string
	require.NoError(t, sdk.Pages(func(token string) (string, error) {
		read = append(read, token)
		return next[token], nil
	}))
	require.Equal(t, []string{"", "a", "b"}, read)
	gone := errors.New("gone")
	require.ErrorIs(t, sdk.Pages(func(string) (string, error) { return "a", gone }), gone)
	require.ErrorContains(t, sdk.Pages(func(string) (string, error) { return "a", nil }), "twice")
}
