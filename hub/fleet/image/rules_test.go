package image

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/imageref"
)

func TestAPatternMatchesWhatItNames(t *testing.T) {
	t.Parallel()
	for pattern, matches := range map[string][]string{
		"docker.io/library/*":      {"docker.io/library/golang:1", "docker.io/library/node:24"},
		"docker.io/library/golang": {"docker.io/library/golang:1"},
		"ghcr.io/*":                {"ghcr.io/app:1", "ghcr.io/team/app:1"},
		"127.0.0.1:5000/team/*":    {"127.0.0.1:5000/team/app:1"},
	} {
		require.NoError(t, checkPattern("allow", pattern), pattern)
		for _, text := range append(matches, "quay.io/other/app:1") {
			named, err := imageref.Parse(text)
			require.NoError(t, err)
			err = allowed(Rules{Allow: []string{pattern}}, named)
			if text == "quay.io/other/app:1" {
				require.Error(t, err, pattern)
			} else {
				require.NoError(t, err, pattern)
			}
		}
	}
	for _, pattern := range []string{"", "*", "/*", "golang", "ghcr.io", "ghcr.io/*/app", "ghcr.io/team*", "ghcr.io/team/app:1", "https://ghcr.io/team/*", "team/*"} {
		require.ErrorContains(t, checkPattern("allow", pattern), "no image can match", pattern)
	}
}

// All patterns that match an image are looked up, the most specific one first.
func TestTheMostSpecificPatternComesFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"ghcr.io/team/sub/app", "ghcr.io/team/sub/*", "ghcr.io/team/*", "ghcr.io/*"}, patternsOf("ghcr.io/team/sub/app"))
	require.Equal(t, []string{"127.0.0.1:5000/app", "127.0.0.1:5000/*"}, patternsOf("127.0.0.1:5000/app"))
	named, err := imageref.Parse("ghcr.io/team/sub/app:1")
	require.NoError(t, err)
	for _, pattern := range patternsOf(named.Name()) {
		require.NoError(t, checkPattern("pattern", pattern))
		require.NoError(t, allowed(Rules{Allow: []string{pattern}}, named), "rules for images and for signatures read patterns in the same way")
	}
}
