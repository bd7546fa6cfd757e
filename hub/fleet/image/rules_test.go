package image

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
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

// What was found is in the error of an image that is refused. If there may be more when it
// is tried again, the error says so.
func TestARefusalSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	rule := signature.Rule{Pattern: "ghcr.io/team/*", Issuer: "https://accounts.example.com", Identity: "release@example.com"}
	for _, test := range []struct {
		found *nodev1.GetSignaturesResponse
		kind  fault.Kind
		says  []string
	}{
		{&nodev1.GetSignaturesResponse{}, fault.Denied, []string{"the rule for ghcr.io/team/* asks for a signature by release@example.com of https://accounts.example.com, and nothing fits"}},
		{&nodev1.GetSignaturesResponse{LeftOut: 3}, fault.Denied, []string{"nothing fits; 3 more were not read"}},
		{&nodev1.GetSignaturesResponse{Incomplete: "forbidden"}, fault.Denied, []string{"others cannot be read: forbidden"}},
		{&nodev1.GetSignaturesResponse{Incomplete: "timeout", Retryable: true}, fault.Unavailable, []string{"nothing fits", "others cannot be read: timeout"}},
	} {
		err := refused(rule, "ghcr.io/team/app@sha256:0", test.found, errors.New("nothing fits"))
		require.True(t, fault.Is(err, test.kind), "%v", err)
		require.Equal(t, fault.ImageUnavailable, fault.As(err).Code)
		for _, text := range test.says {
			require.ErrorContains(t, err, text)
		}
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
