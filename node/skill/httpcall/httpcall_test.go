package httpcall_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/skill/httpcall"
)

func server(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Header.Get("X-One"), r.Header.Get("Content-Type"), body)
		case "/moved":
			http.Redirect(w, r, "/echo", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/long":
			w.Header().Set("Content-Length", "500000")
			_, _ = io.WriteString(w, strings.Repeat("long ", 100_000))
		case "/endless":
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		case "/binary":
			_, _ = w.Write([]byte{0x89, 'P', 'N', 'G', 0, 1, 2})
		case "/escape":
			_, _ = io.WriteString(w, "red \x1b[31m\r\nline")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Requests with their size caps.
func TestRequestsAnswerWhatFits(t *testing.T) {
	url := server(t)
	out, _, err := httpcall.Get(t.Context(), httpcall.Args{URL: url + "/moved", Headers: map[string]string{"X-One": "1"}})
	require.NoError(t, err)
	require.Contains(t, out.String(), "HTTP 200 OK\naddress after redirects: "+url+"/echo\ncontent-type: text/plain\n\nGET 1  \n")
	out, _, err = httpcall.Post(t.Context(), httpcall.Args{URL: url + "/echo", Body: `{"a":1}`})
	require.NoError(t, err)
	require.Contains(t, out.String(), `POST  application/json {"a":1}`)
	out, _, err = httpcall.Put(t.Context(), httpcall.Args{URL: url + "/echo", Body: "x", Headers: map[string]string{"Content-Type": "text/x"}})
	require.NoError(t, err)
	require.Contains(t, out.String(), "PUT  text/x x")
	out, _, err = httpcall.Delete(t.Context(), httpcall.Args{URL: url + "/nothing"})
	require.NoError(t, err)
	require.Contains(t, out.String(), "HTTP 404 Not Found")

	out, read, err := httpcall.Get(t.Context(), httpcall.Args{URL: url + "/long", MaxBytes: 2000})
	require.NoError(t, err)
	require.LessOrEqual(t, len(out.String()), 2000)
	require.Less(t, read, int64(2000))
	require.Contains(t, out.String(), "of 500000: have all of it with http_download")
	out, _, err = httpcall.Get(t.Context(), httpcall.Args{URL: url + "/endless"})
	require.NoError(t, err)
	require.LessOrEqual(t, len(out.String()), 16<<10)
	out, _, err = httpcall.Get(t.Context(), httpcall.Args{URL: url + "/binary"})
	require.NoError(t, err)
	require.Contains(t, out.String(), "no text")
	out, _, err = httpcall.Get(t.Context(), httpcall.Args{URL: url + "/escape"})
	require.NoError(t, err)
	require.Contains(t, out.String(), "red ·[31m\nline")

	for _, c := range []struct {
		args httpcall.Args
		says string
	}{
		{httpcall.Args{URL: "ftp://x/"}, "write a whole address"},
		{httpcall.Args{URL: url + "/round"}, "redirected more than 10 times"},
		{httpcall.Args{URL: url, Headers: map[string]string{"host": "x"}}, "cannot be another"},
		{httpcall.Args{URL: "http://127.0.0.1:1/"}, "refused"},
	} {
		_, _, err := httpcall.Get(t.Context(), c.args)
		require.ErrorContains(t, err, c.says)
	}
	_, _, err = httpcall.Post(t.Context(), httpcall.Args{URL: "http://127.0.0.1:1/"})
	require.ErrorContains(t, err, "may have been executed")
}

// A download is whole or not there, and never outside of the workspace.
func TestADownloadIsWholeOrNotThere(t *testing.T) {
	url := server(t)
	t.Chdir(t.TempDir())
	out, _, err := httpcall.Download(t.Context(), httpcall.DownloadArgs{URL: url + "/long", Path: "a/b.txt"})
	require.NoError(t, err)
	require.Contains(t, out.String(), "saved a/b.txt: 500000 bytes, sha256 ")
	data, err := os.ReadFile("a/b.txt")
	require.NoError(t, err)
	require.Len(t, data, 500_000)
	for _, c := range []struct {
		args httpcall.DownloadArgs
		says string
	}{
		{httpcall.DownloadArgs{URL: url + "/long", Path: "c", MaxFileBytes: 1000}, "it has 500000 bytes"},
		{httpcall.DownloadArgs{URL: url + "/endless", Path: "c", MaxFileBytes: 1 << 20}, "more than 1048576 bytes"},
		{httpcall.DownloadArgs{URL: url + "/nothing", Path: "c"}, "HTTP 404 Not Found: 404 page not found"},
		{httpcall.DownloadArgs{URL: url + "/long", Path: "../c"}, "path"},
		{httpcall.DownloadArgs{URL: url + "/long", Path: "/etc/c"}, "path"},
	} {
		_, _, err := httpcall.Download(t.Context(), c.args)
		require.ErrorContains(t, err, c.says)
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing half is left: %v", left)
}
