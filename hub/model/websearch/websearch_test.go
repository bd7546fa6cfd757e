package websearch_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

const key = "search-key-0123456789"

func engine(t *testing.T, name string, answer http.HandlerFunc) (websearch.Engine, *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	p, ok := provider.Of(name)
	require.True(t, ok)
	return websearch.Engine{Provider: p, BaseURL: server.URL, Key: config.Secret(key)}, server.Client()
}

// Each engine is asked as its API documents it, and its answer is read.
func TestEveryEngineIsAskedInItsOwnWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check  func(t *testing.T, r *http.Request)
		answer string
		want   websearch.Result
	}{
		"searxng": {
			func(t *testing.T, r *http.Request) {
				require.Equal(t, "/search", r.URL.Path)
				require.Equal(t, "json", r.URL.Query().Get("format"))
				require.Equal(t, "Bearer "+key, r.Header.Get("Authorization"))
			},
			`{"query":"x","number_of_results":0,"results":[{"url":"https://example.com/a","title":"A","content":"quoted <b>words</b>","engine":"brave","publishedDate":"2026-01-02T00:00:00","score":1.5}],"answers":[],"infoboxes":[]}`,
			websearch.Result{Title: "A", URL: "https://example.com/a", Text: "quoted words", Date: "2026-01-02T00:00:00"},
		},
		"brave": {
			func(t *testing.T, r *http.Request) {
				require.Equal(t, "/web/search", r.URL.Path)
				require.Equal(t, "3", r.URL.Query().Get("count"))
				require.Equal(t, key, r.Header.Get("X-Subscription-Token"))
			},
			`{"type":"search","query":{"original":"x"},"web":{"results":[{"title":"A &amp; B","url":"https://example.com/a","description":"quoted","page_age":"2026-01-02"}]}}`,
			websearch.Result{Title: "A & B", URL: "https://example.com/a", Text: "quoted", Date: "2026-01-02"},
		},
		"exa": {
			func(t *testing.T, r *http.Request) {
				require.Equal(t, "POST /search", r.Method+" "+r.URL.Path)
				require.Equal(t, key, r.Header.Get("X-Api-Key"))
				var body map[string]any
				require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
				require.Equal(t, "how to mend it", body["query"])
				require.EqualValues(t, 3, body["numResults"])
			},
			`{"requestId":"r","results":[{"id":"i","title":"A","url":"https://example.com/a","publishedDate":"2026-01-02","author":null,"highlights":["one","two"]}]}`,
			websearch.Result{Title: "A", URL: "https://example.com/a", Text: "one … two", Date: "2026-01-02"},
		},
		"serpapi": {
			func(t *testing.T, r *http.Request) {
				require.Equal(t, "/search.json", r.URL.Path)
				require.Equal(t, key, r.URL.Query().Get("api_key"))
				require.Equal(t, "google", r.URL.Query().Get("engine"))
			},
			`{"search_metadata":{"status":"Success"},"organic_results":[{"position":1,"title":"A","link":"https://example.com/a","snippet":"quoted","date":"Jan 2, 2026"}]}`,
			websearch.Result{Title: "A", URL: "https://example.com/a", Text: "quoted", Date: "Jan 2, 2026"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, client := engine(t, name, func(w http.ResponseWriter, r *http.Request) {
				if name != "exa" && r.URL.Query().Get("q") != "how to mend it" {
					http.Error(w, "no question", http.StatusBadRequest)
					return
				}
				c.check(t, r)
				_, _ = io.WriteString(w, c.answer)
			})
			found, err := websearch.Search(t.Context(), client, e, websearch.Query{Text: "how to mend it", Count: 3})
			require.NoError(t, err)
			require.Equal(t, []websearch.Result{c.want}, found)
		})
	}
}

// An engine's response is untrusted text: it is cut, put on one line, and its links lead
// only to the web.
func TestAnAnswerIsTakenForWhatItIs(t *testing.T) {
	t.Parallel()
	e, client := engine(t, "searxng", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"results": []map[string]any{
			{"title": "script", "url": "javascript:alert(1)"},
			{"title": "file", "url": "file:///etc/passwd"},
			{"title": "none", "url": ""},
			{"title": "\x1b[31mred\u202e\nline <script>x</script>", "url": "https://example.com/a", "content": strings.Repeat("wörter ", 1000)},
			{"title": "again", "url": "https://example.com/a"},
			{"title": "second", "url": "http://example.com/b"},
			{"title": "third", "url": "http://example.com/c"},
		}})
	})
	found, err := websearch.Search(t.Context(), client, e, websearch.Query{Text: "x", Count: 2})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "[31mred line x", found[0].Title)
	require.LessOrEqual(t, len(found[0].Text), 600)
	require.True(t, strings.HasSuffix(found[0].Text, "…"))
	require.Equal(t, "http://example.com/b", found[1].URL)
}

// What is wrong is said, and never the key.
func TestAnEngineThatRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine string
		answer http.HandlerFunc
		code   fault.Code
		says   string
	}{
		"a key":     {"brave", status(401), fault.CredentialInvalid, "brave refuses the key"},
		"no JSON":   {"searxng", status(403), "", "refuses to answer in JSON"},
		"too many":  {"serpapi", status(429), fault.RateLimited, "no more questions"},
		"an error":  {"exa", status(500), "", "HTTP 500"},
		"a page":    {"searxng", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "", "not JSON"},
		"a list":    {"brave", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[1]") }, "", "not JSON"},
		"cut short": {"brave", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "100") }, "", "broke off"},
		"a flood": {"brave", func(w http.ResponseWriter, _ *http.Request) {
			piece := strings.Repeat(" ", 64<<10)
			for range 100 {
				_, _ = io.WriteString(w, piece)
			}
		}, "", "longer than"},
		"a redirect": {"serpapi", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example.com/?"+r.URL.RawQuery, http.StatusFound)
		}, "", "HTTP 302"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, client := engine(t, c.engine, c.answer)
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			_, err := websearch.Search(t.Context(), client, e, websearch.Query{Text: "x", Count: 2})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), key)
			require.Equal(t, c.code, fault.As(err).Code)
		})
	}
	e, client := engine(t, "serpapi", status(200))
	e.BaseURL = "https://127.0.0.1:1"
	client.Timeout = 10 * time.Second
	_, err := websearch.Search(t.Context(), client, e, websearch.Query{Text: "x", Count: 2})
	require.ErrorContains(t, err, "serpapi did not answer")
	require.NotContains(t, err.Error(), key)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "the key "+key+" is bad", code) }
}
