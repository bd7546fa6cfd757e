package httprule_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/httprule/corpus"
)

func path(t testing.TB, target string) httprule.Path {
	t.Helper()
	p, err := httprule.Canonical(target)
	require.NoError(t, err)
	return p
}

func TestEachTargetOfTheCorpusIsReadOrRefused(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range corpus.Cases() {
		require.False(t, names[c.Name], "two cases have the name %q", c.Name)
		names[c.Name] = true
		p, err := httprule.Canonical(c.Target)
		if c.Refused {
			assert.Error(t, err, "%s: %q", c.Name, c.Target)
			assert.Equal(t, httprule.Path{}, p, c.Name)
			continue
		}
		if assert.NoError(t, err, "%s: %q", c.Name, c.Target) {
			assert.Equal(t, c.Path, p.String(), c.Name)
			requireSent(t, p)
		}
	}
}

// requireSent verifies that net/url sends a path as it was decided on.
func requireSent(t testing.TB, p httprule.Path) {
	t.Helper()
	u := &url.URL{Scheme: "https", Host: "example.com", Path: "/other", RawQuery: "x", Opaque: "y", Fragment: "z"}
	p.Apply(u)
	require.Equal(t, p.Target(), u.RequestURI())
	again, err := httprule.Canonical(u.RequestURI())
	require.NoError(t, err)
	require.Equal(t, p, again)
}

func TestLongTargetsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := httprule.Canonical("/" + strings.Repeat("a", httprule.MaxTarget))
	require.ErrorContains(t, err, "at most 8192")
	path(t, "/"+strings.Repeat("a", httprule.MaxTarget-1))
}

func TestRefusalsSayHowToWriteThePath(t *testing.T) {
	t.Parallel()
	for target, fix := range map[string]string{
		"/a b":       `write %20`,
		"/100%":      "write %25",
		"/a#b":       "write %23",
		"/a//b":      "write one slash",
		"/a/%252fb":  "encode it once",
		"/caf\u00e9": "encode it as UTF-8",
		"*":          "send a path",
	} {
		_, err := httprule.Canonical(target)
		require.ErrorContains(t, err, fix, target)
	}
}

func TestAbsoluteFormIsSplit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"http://example.com":           {"example.com", "/"},
		"http://example.com:8080/a?b":  {"example.com:8080", "/a?b"},
		"http://example.com?b":         {"example.com", "/?b"},
		"http://[2001:db8::1]:80//a":   {"[2001:db8::1]:80", "//a"},
		"http://example.com/http://x/": {"example.com", "/http://x/"},
	} {
		authority, origin, err := httprule.OriginForm(in)
		require.NoError(t, err, in)
		require.Equal(t, want, [2]string{authority, origin}, in)
	}
	for _, in := range []string{"/a", "https://example.com/", "http:///a", "http://u@example.com/", "http://example.com:0/", "http://ex%61mple.com/", "http://[::1/", "http://a\\b/"} {
		_, _, err := httprule.OriginForm(in)
		require.Error(t, err, in)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, c := range corpus.Cases() {
		f.Add(c.Target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := httprule.Canonical(target)
		if err != nil {
			return
		}
		requireSent(t, p)
		// Whatever is decoded once more, there is nothing new to find.
		decoded, err := url.PathUnescape(p.String())
		require.NoError(t, err)
		for piece := range strings.SplitSeq(strings.TrimSuffix(decoded[1:], "/"), "/") {
			if decoded != "/" {
				require.NotContains(t, []string{"", ".", ".."}, piece)
			}
		}
		require.NotContains(t, strings.ToLower(decoded), "%2f")
		require.NotContains(t, decoded, `\`)
		require.NotContains(t, decoded, ";")
		for _, c := range []byte(p.Target()) {
			require.True(t, c > ' ' && c < 0x7f)
		}
		// The rule that is suggested allows it, and only it.
		d := httprule.Decide(nil, "GET", p, nil)
		require.Equal(t, httprule.Deny, d.Effect)
		if d.Suggestion != "" {
			pattern, err := httprule.Parse(d.Suggestion)
			require.NoError(t, err)
			require.True(t, pattern.Covers("GET", p), d.Suggestion)
			require.True(t, pattern.Touches("GET", p), d.Suggestion)
			require.False(t, pattern.Covers("POST", p))
		}
	})
}
