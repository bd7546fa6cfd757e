package workspace

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// door lies between a person and the hub. It counts the bytes of downloads, and
// can break them.
type door struct {
	*httptest.Server
	// before is called when a download is asked for.
	before func()
	// cut is after how many bytes a download breaks; 0 for never.
	cut    int64
	passed atomic.Int64
}

func newDoor(t *testing.T, hub string) *door {
	t.Helper()
	to, err := url.Parse(hub)
	require.NoError(t, err)
	d := &door{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/DownloadFiles") {
				r.Body = &counted{r.Body, d}
			}
			return nil
		},
		FlushInterval: -1,
	}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/DownloadFiles") && d.before != nil {
			d.before()
		}
		proxy.ServeHTTP(w, r)
	}))
	d.Config.Protocols = new(http.Protocols)
	d.Config.Protocols.SetHTTP1(true)
	d.Config.Protocols.SetUnencryptedHTTP2(true)
	d.Start()
	t.Cleanup(d.Close)
	return d
}

type counted struct {
	io.ReadCloser
	d *door
}

func (c *counted) Read(p []byte) (int, error) {
	if c.d.cut > 0 {
		left := c.d.cut - c.d.passed.Load()
		if left <= 0 {
			return 0, errors.New("broken by the test")
		}
		p = p[:min(int64(len(p)), left)]
	}
	n, err := c.ReadCloser.Read(p)
	c.d.passed.Add(int64(n))
	return n, err
}

// A tree is downloaded from a workspace unchanged, through a stream that breaks and
// resumes, and files that change on the way are reported.
func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("keeper", `
turns:
  - text: I make files.
    calls:
      - tool: shell_exec
        arguments: {command: "mkdir -p src/deep src/empty src/tight; printf one > src/a.sh; chmod 755 src/a.sh; printf two > src/deep/b; chmod 600 src/deep/b; ln -s ../a.sh src/deep/link; ln -s /etc/hostname src/out; : > src/none; printf odd > 'src/odd [1] \\ \"é\"'; touch \"$(printf 'src/new\\nline')\" src/-rf; chmod 700 src/tight; touch -d @1600000000 src/a.sh; mkfifo src/pipe"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "made"}
`, "workspace: {scope: agent}")
	made := f.Ended(f.Submit("keeper"))
	large := make([]byte, 5<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // no compression makes it less
	from, to := t.TempDir(), t.TempDir()
	put := func(content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(from, "large"), content, 0o640))
		f.CLI(0, "agent", "files", "put", "keeper", from, "src/deep")
	}
	put(large)

	d := newDoor(t, f.URL())
	token := strings.TrimSpace(harness.ReadFile(t, filepath.Join(f.Dir, "admin-token")))
	get := func(code int, owner, ref, path string) harness.Result {
		return f.CLI(code, "--hub", d.URL, "--token", token, owner, "files", "get", ref, path, to)
	}
	// It breaks within the large file; what came before it is there.
	d.cut = 3 << 20
	require.Contains(t, get(1, "agent", "keeper", "src").Err, "it goes on from there")
	require.NoFileExists(t, filepath.Join(to, "src", "deep", "large"), "a part of a file is not seen")
	parts, err := filepath.Glob(filepath.Join(to, ".deckhand-download-*"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	info, err := os.Stat(parts[0])
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(1<<20))
	there := info.Size()

	d.cut = 0
	d.passed.Store(0)
	got := get(0, "agent", "keeper", "/workspace/src/")
	require.Less(t, d.passed.Load(), int64(len(large))-there+10_000, "what had come is not sent again")
	require.Contains(t, got.Err, "were there already")
	require.NotContains(t, got.Err, " 0 were there already")
	require.Contains(t, got.Err, `not copied: "src/pipe"`)
	require.Equal(t, string(large), harness.ReadFile(t, filepath.Join(to, "src", "deep", "large")))
	for name, want := range map[string]string{"a.sh": "one", "deep/b": "two", "deep/link": "one", "none": "", "odd [1] \\ \"é\"": "odd", "new\nline": "", "-rf": ""} {
		require.Equal(t, want, harness.ReadFile(t, filepath.Join(to, "src", name)), name)
	}
	for name, want := range map[string]os.FileMode{"a.sh": 0o755, "deep/b": 0o600, "tight": os.ModeDir | 0o700, "empty": os.ModeDir | 0o755, "deep/large": 0o640} {
		info, err := os.Lstat(filepath.Join(to, "src", name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), name)
	}
	info, err = os.Stat(filepath.Join(to, "src", "a.sh"))
	require.NoError(t, err)
	require.EqualValues(t, 1_600_000_000, info.ModTime().Unix())
	link, err := os.Readlink(filepath.Join(to, "src", "out"))
	require.NoError(t, err)
	require.Equal(t, "/etc/hostname", link)
	parts, err = filepath.Glob(filepath.Join(to, ".deckhand-download-*"))
	require.NoError(t, err)
	require.Empty(t, parts)

	// All of it is there: nothing is requested. With a task and a pattern it is the same.
	d.before = func() { t.Error("nothing was to be sent") }
	require.Contains(t, get(0, "agent", "keeper", "src").Err, "0 files, 0 bytes copied; 7 were there already")
	require.Contains(t, get(0, "task", made, "*/deep/*").Err, "0 files, 0 bytes copied; 2 were there already")
	require.Contains(t, get(3, "agent", "keeper", "nowhere").Err, "nothing in the workspace is at")
	require.Contains(t, get(4, "agent", "keeper", "../x").Err, "leads out of the workspace")
	var entries []struct{ Action string }
	f.JSON(&entries, "audit", "list", "--action", "workspace.downloaded")
	require.Len(t, entries, 2, "each that had something sent, once")

	// It changes between its description and its content.
	for what, c := range map[string]struct{ now, said string }{
		"another size":    {"short", "has changed since it was described"},
		"another content": {strings.Repeat("x", 20), "came with 20 bytes of digest"},
	} {
		put([]byte(strings.Repeat("o", 20)))
		require.NoError(t, os.RemoveAll(filepath.Join(to, "src")))
		d.before = func() { put([]byte(c.now)) }
		refused := get(1, "agent", "keeper", "src/deep").Err
		require.Contains(t, refused, c.said, what)
		require.Contains(t, refused, "src/deep/large", what)
		require.Contains(t, refused, "AGENT_026", what)
		require.NoFileExists(t, filepath.Join(to, "deep", "large"), what)
		d.before = nil
		get(0, "agent", "keeper", "src/deep")
		require.Equal(t, c.now, harness.ReadFile(t, filepath.Join(to, "deep", "large")), what)
		require.NoError(t, os.RemoveAll(filepath.Join(to, "deep")))
	}
}
