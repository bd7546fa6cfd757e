package httprule_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func pattern(t testing.TB, text string) httprule.Pattern {
	t.Helper()
	p, err := httprule.Parse(text)
	require.NoError(t, err)
	return p
}

func TestPatternsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for in, out := range map[string]string{
		"GET /repos/{owner}/{repo}/**":     "GET /repos/{owner}/{repo}/**",
		" GET,HEAD\t/x/* ":                 "GET,HEAD /x/*",
		"* /health":                        "/health",
		"/any/method/too":                  "/any/method/too",
		"/":                                "/",
		"/**":                              "/**",
		"/a/":                              "/a/",
		"VERSION-CONTROL /%2A%7b":          "VERSION-CONTROL /%2A%7b",
		"POST /graphql query,subscription": "POST /graphql query,subscription",
		"GET /api/v4/projects/{id%2F}/repository/files/{f%2F}": "GET /api/v4/projects/{id%2F}/repository/files/{f%2F}",
	} {
		p := pattern(t, in)
		require.Equal(t, out, p.String())
		require.Equal(t, p, pattern(t, p.String()))
		data, err := json.Marshal(httprule.Rule{Pattern: p})
		require.NoError(t, err)
		require.NotEmpty(t, data)
		var again httprule.Pattern
		text, err := p.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(text))
		require.Equal(t, p, again)
	}
	require.Empty(t, httprule.Pattern{}.String())
	var zero httprule.Pattern
	require.NoError(t, zero.UnmarshalText(nil))
	require.False(t, zero.Covers("GET", path(t, "/")))
	require.False(t, zero.Touches("GET", path(t, "/")))
}

func TestErrorsOfPatternsNameTheFix(t *testing.T) {
	t.Parallel()
	for in, fix := range map[string]string{
		"":                       "write a method and a path",
		"GET":                    "has no path",
		"get /a":                 "write GET instead of get",
		"GET,get /a":             "write GET instead of get",
		"GET, HEAD /a":           "write methods as GET,HEAD",
		"GET HEAD /a":            "without blanks",
		"GET,GET /a":             "leave out one",
		"GET,* /a":               "leave out the others",
		"G!T /a":                 "is not a method",
		"repos/**":               "with a slash at its beginning",
		"GET repos/**":           "does not begin with a slash",
		"GET /a?b=c":             "leave out ?",
		"GET /a//b":              "write one slash",
		"GET /**/b":              "write * or {name}",
		"GET /a*":                "write %2A",
		"GET /{a}b":              "a whole segment",
		"GET /{}":                "is not {name}",
		"GET /{a-b}":             "letters, digits and underscores",
		"GET /{1}":               "is not {name}",
		"GET /a%2Fb":             "write {name%2F}",
		"GET /../a":              "dot segment",
		"GET /a%zz":              "write %25",
		"GET /caf\u00e9":         "%C3%A9",
		"GET /a;b":               "semicolon",
		"GET /a read":            "query, mutation or subscription",
		"GET /a query,query":     "leave out one",
		"GET /a query, mutation": "by commas without blanks",
	} {
		_, err := httprule.Parse(in)
		assert.ErrorContains(t, err, fix, in)
	}
}

func TestWhatPatternsCoverAndTouch(t *testing.T) {
	t.Parallel()
	type want struct{ covers, touches bool }
	both, neither, touched := want{true, true}, want{}, want{touches: true}
	for _, c := range []struct {
		pattern, method, target string
		want                    want
	}{
		{"GET /a", "GET", "/a", both},
		{"GET /a", "GET", "/a?b=c", both},
		{"GET /a", "POST", "/a", neither},
		{"GET /a", "HEAD", "/a", touched},
		{"HEAD /a", "GET", "/a", neither},
		{"/a", "PURGE", "/a", both},
		{"/a", "GET", "/a/", touched},
		{"/a/", "GET", "/a", touched},
		{"/a/", "GET", "/a/", both},
		{"/a", "GET", "/A", touched},
		{"/a", "GET", "/a.", touched},
		{"/a", "GET", "/a%20", touched},
		{"/a", "GET", "/ab", neither},
		{"/", "GET", "/", both},
		{"/", "GET", "/a", neither},
		{"/a/*", "GET", "/a/b", both},
		{"/a/*", "GET", "/a/", neither},
		{"/a/*", "GET", "/a", neither},
		{"/a/*", "GET", "/a/b/c", neither},
		{"/a/*", "GET", "/a/b/", touched},
		{"/a/{x}/c", "GET", "/a/b/c", both},
		{"/a/**", "GET", "/a", both},
		{"/a/**", "GET", "/a/", both},
		{"/a/**", "GET", "/a/b/c/", both},
		{"/a/**", "GET", "/ab", neither},
		{"/**", "GET", "/", both},
		{"/**", "GET", "/a/b", both},
		{"/a%2Bb", "GET", "/a+b", both},
		{"/a+b", "GET", "/a%2bb", both},
		{"/%61", "GET", "/a", both},
		{"/%2A", "GET", "/*", both},
		{"/%2A", "GET", "/b", neither},
		{"/%7Bx%7D", "GET", "/b", neither},
		// Encoded slashes.
		{"/p/{id}", "GET", "/p/g%2Fp", touched},
		{"/p/*", "GET", "/p/g%2Fp", touched},
		{"/p/{id%2F}", "GET", "/p/g%2Fp", both},
		{"/p/{id%2F}", "GET", "/p/7", both},
		{"/p/{id%2F}/issues", "GET", "/p/a%2Fb%2Fc/issues", both},
		{"/p/**", "GET", "/p/g%2Fp/issues", both},
		{"/p/{id}/**", "GET", "/p/g%2Fp/issues", touched},
		{"/p/g/p", "GET", "/p/g%2Fp", touched},
		{"/p/g/**", "GET", "/p/g%2Fp", touched},
		{"/p/*/p", "GET", "/p/g%2Fp", touched},
		{"/p/{id%2F}", "GET", "/p%2F7", touched},
		{"/p/x", "GET", "/p/g%2Fp", neither},
	} {
		p, target := pattern(t, c.pattern), path(t, c.target)
		assert.Equal(t, c.want, want{p.Covers(c.method, target), p.Touches(c.method, target)}, "%s for %s %s", c.pattern, c.method, c.target)
	}
}

// What allows a request must also be able to deny it.
func TestAPatternTouchesWhatItCovers(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "A", "b", "a.", "%20", "a%2Fb", "a+", "%25", "*"})
	part := rapid.SampledFrom([]string{"a", "A", "b", "a.", "%20", "*", "{x}", "{x%2F}", "a+", "%2A"})
	end := rapid.SampledFrom([]string{"", "/", "/**"})
	rapid.Check(t, func(rt *rapid.T) {
		template, target := "", ""
		for range rapid.IntRange(1, 4).Draw(rt, "length") {
			template += "/" + part.Draw(rt, "part")
			target += "/" + segment.Draw(rt, "segment")
		}
		p, err := httprule.Parse("GET,PUT " + template + end.Draw(rt, "end"))
		require.NoError(rt, err)
		request, err := httprule.Canonical(target + rapid.SampledFrom([]string{"", "/"}).Draw(rt, "slash"))
		require.NoError(rt, err)
		if p.Covers("GET", request) {
			require.True(rt, p.Touches("GET", request))
			require.True(rt, p.Touches("HEAD", request))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"GET /repos/{owner}/{repo}/**", "GET,HEAD /x/*", "* /health", "/", "/a%2Ab/{x%2F}/ query,mutation", "get /a", "/**/a", "/a;b", "/{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := httprule.Parse(text)
		if err != nil {
			require.Empty(t, p.String())
			return
		}
		again, err := httprule.Parse(p.String())
		require.NoError(t, err, p.String())
		require.Equal(t, p, again)
	})
}
