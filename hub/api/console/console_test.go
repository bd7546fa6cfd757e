package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/api/console"
	"github.com/deckhand-sh/deckhand/ui"
)

var built = fstest.MapFS{
	"README":                {Data: []byte("a note")},
	"index.html":            {Data: []byte(`<!doctype html><base href="/" /><script type="module" src="./assets/app-1234.js"></script>`)},
	"favicon.svg":           {Data: []byte("<svg/>")},
	"assets/app-1234.js":    {Data: []byte("plain")},
	"assets/app-1234.js.br": {Data: []byte("brotli")},
	"assets/app-1234.js.gz": {Data: []byte("gzipped")},
}

func get(t *testing.T, h http.Handler, path string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(body)
}

func TestPagesAndFilesAreServed(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.Config{Files: built})
	require.NoError(t, err)
	for name, path := range map[string]string{"the root": "/", "a deep link": "/tasks/task_1?state=failed", "an odd one": "/a/../tasks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body := get(t, c, path, nil)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Contains(t, body, `<base href="/" />`)
			require.Equal(t, "private, no-cache", res.Header.Get("Cache-Control"))
			require.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"))
			res, body = get(t, c, path, map[string]string{"If-None-Match": res.Header.Get("ETag")})
			require.Equal(t, http.StatusNotModified, res.StatusCode)
			require.Empty(t, body)
		})
	}

	res, body := get(t, c, "/assets/app-1234.js", nil)
	require.Equal(t, "plain", body)
	require.Equal(t, "public, max-age=31536000, immutable", res.Header.Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", res.Header.Get("Content-Type"))
	res, body = get(t, c, "/assets/app-1234.js", map[string]string{"Accept-Encoding": "gzip, deflate, br"})
	require.Equal(t, "brotli", body)
	require.Equal(t, "br", res.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", res.Header.Get("Vary"))
	_, body = get(t, c, "/assets/app-1234.js", map[string]string{"Accept-Encoding": "gzip, br;q=0"})
	require.Equal(t, "gzipped", body)

	for name, path := range map[string]string{
		"an asset of another build": "/assets/app-9999.js", "a procedure that is not": "/deckhand.v1.TaskService/Nothing",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _ := get(t, c, path, nil)
			require.Equal(t, http.StatusNotFound, res.StatusCode)
		})
	}
	// The note of an unbuilt console and the compressed files are no pages.
	_, body = get(t, c, "/README", nil)
	require.Contains(t, body, "<base")
}

// The console works under a sub-path, and through a proxy.
func TestSubPathIsSaidByFlagOrProxy(t *testing.T) {
	t.Parallel()
	plain, err := console.New(console.Config{Files: built})
	require.NoError(t, err)
	_, body := get(t, plain, "/tasks", map[string]string{"X-Forwarded-Prefix": "/ops/deckhand/"})
	require.Contains(t, body, `<base href="/ops/deckhand/" />`)
	for _, hostile := range []string{"//evil.example", `/"><script>`, "javascript:alert(1)", "/a/../b", "/a b", "https://evil.example"} {
		_, body := get(t, plain, "/", map[string]string{"X-Forwarded-Prefix": hostile})
		require.Contains(t, body, `<base href="/" />`, hostile)
	}

	based, err := console.New(console.Config{Files: built, BasePath: "/deckhand/"})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", based)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	h := based.Under(mux)
	_, body = get(t, h, "/deckhand/tasks/1", map[string]string{"X-Forwarded-Prefix": "/other"})
	require.Contains(t, body, `<base href="/deckhand/" />`)
	_, body = get(t, h, "/deckhand/assets/app-1234.js", nil)
	require.Equal(t, "plain", body)
	_, body = get(t, h, "/deckhand/healthz", nil)
	require.Equal(t, "ok", body)
	_, body = get(t, h, "/healthz", nil)
	require.Equal(t, "ok", body, "a proxy may take the path off")
	res, _ := get(t, h, "/deckhand", nil)
	require.Equal(t, "/deckhand/", res.Header.Get("Location"))

	_, err = console.New(console.Config{Files: built, BasePath: "deck hand"})
	require.ErrorContains(t, err, "base-path")
}

func TestHeadersKeepAgentsOutputInert(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.Config{Files: built})
	require.NoError(t, err)
	for _, path := range []string{"/", "/assets/app-1234.js", "/assets/none.js"} {
		res, _ := get(t, c, path, nil)
		policy := res.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "script-src 'self';", path)
		require.Contains(t, policy, "frame-ancestors 'none'", path)
		require.NotContains(t, strings.Split(policy, "style-src")[0], "unsafe", path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", res.Header.Get("Referrer-Policy"), path)
	}
}

func TestAnUnbuiltConsoleSaysHowToBuildIt(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.Config{Files: fstest.MapFS{"README": {}}})
	require.NoError(t, err)
	res, body := get(t, c, "/", nil)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Contains(t, body, "make build")
}

// What is embedded, built or not, can be served.
func TestTheEmbeddedConsoleIsServed(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.Config{Files: ui.Files()})
	require.NoError(t, err)
	res, _ := get(t, c, "/", nil)
	require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, res.StatusCode)
}

// A caller that takes no encoding gets the text, which is not in the program itself.
func TestATextIsUnpackedForThoseWhoTakeNoEncoding(t *testing.T) {
	t.Parallel()
	var gzipped bytes.Buffer
	w := gzip.NewWriter(&gzipped)
	_, err := io.WriteString(w, "console.log(1)")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	c, err := console.New(console.Config{Files: fstest.MapFS{
		"index.html": built["index.html"], "assets/app-1.js.gz": {Data: gzipped.Bytes()}, "assets/app-1.js.br": {Data: []byte("brotli")},
	}})
	require.NoError(t, err)
	plain, body := get(t, c, "/assets/app-1.js", nil)
	require.Equal(t, http.StatusOK, plain.StatusCode)
	require.Equal(t, "console.log(1)", body)
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	require.Equal(t, "text/javascript; charset=utf-8", plain.Header.Get("Content-Type"))
	packed, body := get(t, c, "/assets/app-1.js", map[string]string{"Accept-Encoding": "gzip"})
	require.Equal(t, gzipped.String(), body)
	require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	require.NotEqual(t, plain.Header.Get("Etag"), packed.Header.Get("Etag"))
	again, _ := get(t, c, "/assets/app-1.js", map[string]string{"If-None-Match": plain.Header.Get("Etag")})
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}
