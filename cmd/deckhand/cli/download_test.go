package cli_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// lyingHub answers files as a hub would that somebody has taken over.
type lyingHub struct {
	deckhandv1connect.UnimplementedFileServiceHandler
	entries []*deckhandv1.UploadEntry
	// content is sent for each file that is asked for; more is sent after it.
	content string
	more    []*deckhandv1.DownloadFilesResponse
}

func (h *lyingHub) DescribeFiles(_ context.Context, _ *deckhandv1.DescribeFilesRequest, out *connect.ServerStream[deckhandv1.DescribeFilesResponse]) error {
	return out.Send(&deckhandv1.DescribeFilesResponse{Entries: h.entries})
}

func (h *lyingHub) DownloadFiles(_ context.Context, req *deckhandv1.DownloadFilesRequest, out *connect.ServerStream[deckhandv1.DownloadFilesResponse]) error {
	for _, e := range req.GetEntries() {
		if err := out.Send(&deckhandv1.DownloadFilesResponse{Message: &deckhandv1.DownloadFilesResponse_Entry{Entry: e}}); err != nil {
			return err
		}
		if err := out.Send(sentData(h.content)); err != nil {
			return err
		}
	}
	for _, m := range h.more {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func sentData(content string) *deckhandv1.DownloadFilesResponse {
	return &deckhandv1.DownloadFilesResponse{Message: &deckhandv1.DownloadFilesResponse_Data{Data: []byte(content)}}
}

func fileOf(path, content string) *deckhandv1.UploadEntry {
	sum := blake3.Sum256([]byte(content))
	return &deckhandv1.UploadEntry{Path: path, Type: "file", Mode: 0o666, Size: int64(len(content)), Digest: hex.EncodeToString(sum[:])}
}

// get runs `agent files get` against a lying hub, into a folder that lies beside
// another one.
func (h *lyingHub) get(t *testing.T, into string) result {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewFileServiceHandler(h))
	server := httptest.NewServer(mux)
	defer server.Close()
	return execute(t.Context(), "agent", "files", "get", "keeper", ".", into, "--hub", server.URL, "--token", testToken)
}

// Whatever a hub says, nothing is written outside of the folder.
func TestADownloadStaysInItsFolder(t *testing.T) {
	t.Parallel()
	link := func(name, target string) *deckhandv1.UploadEntry {
		return &deckhandv1.UploadEntry{Path: name, Type: "symlink", Target: target}
	}
	dir := func(name string) *deckhandv1.UploadEntry {
		return &deckhandv1.UploadEntry{Path: name, Type: "dir", Mode: 0o777}
	}
	outside := t.TempDir()
	for what, entries := range map[string][]*deckhandv1.UploadEntry{
		"up":                          {fileOf("../outside/a", "evil")},
		"up and in":                   {fileOf("a/../../outside/a", "evil")},
		"above":                       {fileOf("..", "evil")},
		"absolute":                    {fileOf(outside+"/a", "evil")},
		"an absolute folder":          {dir(outside + "/a")},
		"a folder above":              {dir("../outside/a")},
		"a link above":                {link("../outside/a", "x")},
		"an absolute link":            {link(outside+"/a", "x")},
		"through a link":              {link("l", "../outside"), fileOf("l/a", "evil")},
		"through an absolute link":    {link("l", outside), fileOf("l/a", "evil")},
		"a folder through a link":     {link("l", outside), dir("l/a")},
		"a link through a link":       {link("l", outside), link("l/a", "x")},
		"through two links":           {link("k", "l"), link("l", outside), fileOf("k/a", "evil")},
		"a folder's mode by a link":   {link("l", outside), dir("l")},
		"something that is no file":   {{Path: "a", Type: "device"}},
		"nothing":                     {fileOf("", "evil")},
		"a NUL":                       {fileOf("a\x00b", "evil")},
		"a file that is also a place": {fileOf("a", "evil"), fileOf("a/b", "evil")},
	} {
		base := t.TempDir()
		into, beside := filepath.Join(base, "into"), filepath.Join(base, "outside")
		require.NoError(t, os.Mkdir(into, 0o700))
		require.NoError(t, os.Mkdir(beside, 0o700))
		h := &lyingHub{entries: entries, content: "evil"}
		got := h.get(t, into)
		require.NotZero(t, got.code, what)
		got.errorLine(t)
		for _, one := range []string{beside, outside} {
			there, err := os.ReadDir(one)
			require.NoError(t, err)
			require.Empty(t, there, what)
		}
		info, err := os.Stat(outside)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o002, what)
	}
}

// A link that lies in the way of a file is replaced, not followed.
func TestADownloadReplacesLinks(t *testing.T) {
	t.Parallel()
	base, into := t.TempDir(), t.TempDir()
	secret := filepath.Join(base, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(into, "a")))
	got := (&lyingHub{entries: []*deckhandv1.UploadEntry{fileOf("a", "theirs")}, content: "theirs"}).get(t, into)
	require.Zero(t, got.code, got.stderr)
	content, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	info, err := os.Lstat(filepath.Join(into, "a"))
	require.NoError(t, err)
	require.EqualValues(t, 0o644, info.Mode(), "others may not write")
}

// What is not what was described is named, and nothing of it is left.
func TestADownloadThatIsNotWhatWasDescribed(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		hub  lyingHub
		said string
	}{
		"another content":   {lyingHub{content: "CONTENT"}, "came with 7 bytes of digest"},
		"less":              {lyingHub{content: "con"}, "came with 3 bytes of digest"},
		"more":              {lyingHub{content: "content and more"}, "more than the 7 bytes that sub/a has"},
		"more files":        {lyingHub{content: "content", more: []*deckhandv1.DownloadFilesResponse{{Message: &deckhandv1.DownloadFilesResponse_Entry{Entry: fileOf("b", "b")}}, sentData("b")}}, "more files than"},
		"data after a file": {lyingHub{content: "content", more: []*deckhandv1.DownloadFilesResponse{sentData("x")}}, "more than the 7 bytes that sub/a has"},
	} {
		into := t.TempDir()
		c.hub.entries = []*deckhandv1.UploadEntry{fileOf("sub/a", "content")}
		got := c.hub.get(t, into)
		require.Equal(t, 1, got.code, what)
		require.Contains(t, got.errorLine(t), c.said, what)
		if what != "more files" {
			require.Contains(t, got.errorLine(t), "sub/a", what)
			require.NoFileExists(t, filepath.Join(into, "sub", "a"), what)
		}
	}
}

// What came of a file is gone on with for a day.
func TestOldPartsAreSwept(t *testing.T) {
	t.Parallel()
	into := t.TempDir()
	old, young := filepath.Join(into, ".deckhand-download-old"), filepath.Join(into, ".deckhand-download-young")
	for _, name := range []string{old, young} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	before := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(old, before, before))
	got := (&lyingHub{}).get(t, into)
	require.Zero(t, got.code, got.stderr)
	require.NoFileExists(t, old)
	require.FileExists(t, young)
}
