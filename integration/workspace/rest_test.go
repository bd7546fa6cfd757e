package workspace

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// bring makes a GET request below /v1.
func bring(t *testing.T, f *harness.Fleet, path string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/v1"+path, nil)
	require.NoError(t, err)
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Authorization", "Bearer "+f.Token("admin-token"))
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, body
}

// asREST brings the files of a task's workspace and its exports, with their digests: f9 has
// "more", and big two million NUL bytes.
func asREST(t *testing.T, f *harness.Fleet, task string) {
	t.Helper()
	file := "/tasks/" + task + "/files/"
	res, body := bring(t, f, file+"f9", nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, "more\n", string(body))
	sum := blake3.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	require.Equal(t, tag, res.Header.Get("Etag"))
	require.Equal(t, "attachment", res.Header.Get("Content-Disposition"), "it is no page of the hub")
	res, _ = bring(t, f, file+"f9", http.Header{"If-None-Match": {tag}})
	require.Equal(t, http.StatusNotModified, res.StatusCode)
	res, body = bring(t, f, "/agents/filler/files/f9", http.Header{"Range": {"bytes=1-2"}, "If-Range": {tag}})
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, "or", string(body))
	require.Equal(t, "bytes 1-2/5", res.Header.Get("Content-Range"))
	res, body = bring(t, f, file+"f9", http.Header{"Range": {"bytes=1-2"}, "If-Range": {`"another"`}})
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "more\n", string(body), "the file has changed: all of it")
	res, body = bring(t, f, file+"big", http.Header{"Range": {"bytes=1999990-"}})
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, make([]byte, 10), body)
	res, _ = bring(t, f, file+"big", http.Header{"Range": {"bytes=2000000-"}})
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.StatusCode)
	res, body = bring(t, f, file+"big", nil)
	require.EqualValues(t, 2_000_000, res.ContentLength)
	require.Len(t, body, 2_000_000)
	for path, status := range map[string]int{"none": http.StatusNotFound, "f*": http.StatusNotFound, "f9?x=1": http.StatusBadRequest, "../f9": http.StatusNotFound} {
		res, body = bring(t, f, file+path, nil)
		require.GreaterOrEqual(t, res.StatusCode, 400, "%s: %s", path, body)
		if !strings.HasPrefix(path, "..") {
			require.Equal(t, status, res.StatusCode, "%s: %s", path, body)
		}
	}
	require.Contains(t, f.CLI(0, "audit", "list", "-o", "json").Out, "workspace.downloaded")

	whole := func(res *http.Response, body []byte) {
		t.Helper()
		require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
		sum := sha256.Sum256(body)
		require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":", res.Trailer.Get("Repr-Digest"))
	}
	res, body = bring(t, f, "/tasks/"+task+"/export", nil)
	whole(res, body)
	lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	for _, line := range lines {
		require.True(t, json.Valid(line), "%s", line)
	}
	require.Contains(t, string(lines[len(lines)-1]), `"end"`)
	res, body = bring(t, f, "/tasks/"+task+"/export?format=asciicast", nil)
	whole(res, body)
	res, body = bring(t, f, "/audit-entries:export", nil)
	whole(res, body)
	res, body = bring(t, f, "/tasks/"+task+"/workspace", nil)
	whole(res, body)
	names := map[string]int64{}
	for archive := tar.NewReader(bytes.NewReader(body)); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names[strings.TrimPrefix(head.Name, "./")] = head.Size
	}
	require.EqualValues(t, 2_000_000, names["big"], fmt.Sprint(names))
	res, body = bring(t, f, "/tasks/"+task+"/workspace?format=zip", nil)
	require.Equal(t, http.StatusBadRequest, res.StatusCode, "%s", body)

	// The log of the whole task: each command that wrote something, below its step.
	res, body = bring(t, f, "/tasks/"+task+"/log", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.EqualValues(t, len(body), res.ContentLength)
}
