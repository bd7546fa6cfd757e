package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/pack"
)

// entry is one of an archive.
type entry struct {
	tar.Header

	text string
}

func file(name, text string) entry {
	return entry{tar.Header{Name: name, Mode: 0o4755, Typeflag: tar.TypeReg, Size: int64(len(text))}, text}
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, one := range entries {
		require.NoError(t, w.WriteHeader(&one.Header))
		_, err := w.Write([]byte(one.text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func pin(data []byte) pack.Pin {
	sum := sha256.Sum256(data)
	return pack.Pin{Name: "tool", SHA256: hex.EncodeToString(sum[:])}
}

func open(t *testing.T) *pack.Store {
	t.Helper()
	s, err := pack.Open(t.TempDir())
	require.NoError(t, err)
	return s
}

// A pack is installed from an archive in any of three forms, is the current version then, and an
// installed one is not unpacked again.
func TestAPackIsInstalledAndReplaced(t *testing.T) {
	t.Parallel()
	plain := archive(t, file("tool", "#!/bin/sh\necho one\n"), file("share/data", "x"),
		entry{Header: tar.Header{Name: "link", Linkname: "share/data", Typeflag: tar.TypeSymlink}})
	var zipped, zst bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	e, err := zstd.NewWriter(&zst)
	require.NoError(t, err)
	_, err = e.Write(plain)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	s := open(t)
	for _, data := range [][]byte{plain, zipped.Bytes(), zst.Bytes()} {
		p, err := s.Import(t.Context(), pin(data), bytes.NewReader(data), "a file")
		require.NoError(t, err)
		require.True(t, p.Current)
		require.Equal(t, 2, p.Files)
		info, err := os.Stat(filepath.Join(s.Shown(), "tool", "current", "tool"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode(), "everybody runs it, and it is not set-user-id")
		text, err := os.ReadFile(filepath.Join(s.Shown(), "tool", "current", "link"))
		require.NoError(t, err)
		require.Equal(t, "x", string(text))
	}
	_, err = s.Import(t.Context(), pin(plain), strings.NewReader("not read"), "a file")
	require.NoError(t, err)
	all, err := s.List()
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, pin(plain).SHA256, all[0].SHA256, "it is the current one again")
	require.True(t, all[0].Current)
	deleted, kept, err := s.Prune()
	require.NoError(t, err)
	require.Len(t, deleted, 2)
	require.Empty(t, kept)
}

// An archive that is not the pinned one is refused, and so is one that would write, or have a jail
// read, outside of its folder. Nothing of it is left.
func TestAHostileArchiveIsRefused(t *testing.T) {
	t.Parallel()
	good := archive(t, file("tool", "x"))
	link := func(kind byte, name, target string) entry {
		return entry{Header: tar.Header{Name: name, Linkname: target, Typeflag: kind}}
	}
	for name, data := range map[string][]byte{
		"a name that goes up":                 archive(t, file("../evil", "x")),
		"a name that goes up in the middle":   archive(t, file("a/../../evil", "x")),
		"an absolute name":                    archive(t, file("/etc/evil", "x")),
		"a link out":                          archive(t, file("tool", "x"), link(tar.TypeSymlink, "out", "../../../etc")),
		"an absolute link":                    archive(t, file("tool", "x"), link(tar.TypeSymlink, "out", "/etc")),
		"a hard link out":                     archive(t, file("tool", "x"), link(tar.TypeLink, "out", "../../lock")),
		"a file below a link that is no file": archive(t, link(tar.TypeSymlink, "a", "b"), file("a/evil", "x")),
		"a device":                            archive(t, file("tool", "x"), entry{Header: tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}),
		"a name twice":                        archive(t, file("tool", "x"), file("tool", "y")),
		"nothing":                             archive(t),
		"no tar":                              []byte("PK\x03\x04 and more"),
		"a broken gzip":                       {0x1f, 0x8b, 1, 2, 3},
	} {
		s := open(t)
		_, err := s.Import(t.Context(), pin(data), bytes.NewReader(data), name)
		require.Error(t, err, name)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		all, err := s.List()
		require.NoError(t, err)
		require.Empty(t, all, name)
		names, err := os.ReadDir(s.Shown())
		require.NoError(t, err)
		require.Empty(t, names, name)
		require.NoFileExists(t, filepath.Join(filepath.Dir(s.Shown()), "evil"))
	}
	s := open(t)
	_, err := s.Import(t.Context(), pin(good), bytes.NewReader(append(good, 0)), "another")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.Contains(t, err.Error(), pin(good).SHA256)
	all, err := s.List()
	require.NoError(t, err)
	require.Empty(t, all)
}

// The archive of a pin is downloaded once.
func TestAPackIsFetched(t *testing.T) {
	t.Parallel()
	data := archive(t, file("tool", "x"))
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/tool.tar" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	pins := filepath.Join(t.TempDir(), "packs.yaml")
	require.NoError(t, os.WriteFile(pins, []byte("tool: {url: \""+server.URL+"/tool.tar\", sha256: "+pin(data).SHA256+"}\nother: {url: \""+server.URL+"/other\", sha256: "+pin(nil).SHA256+"}\nbad: {sha256: abc}\n"), 0o600))
	s := open(t)
	for range 2 {
		one, err := pack.PinOf(pins, "tool")
		require.NoError(t, err)
		p, err := s.Fetch(t.Context(), server.Client(), one)
		require.NoError(t, err)
		require.Equal(t, server.URL+"/tool.tar", p.Source)
	}
	require.Equal(t, 1, asked)
	other, err := pack.PinOf(pins, "other")
	require.NoError(t, err)
	_, err = s.Fetch(t.Context(), server.Client(), other)
	require.ErrorContains(t, err, "404")
	for _, name := range []string{"bad", "missing"} {
		_, err = pack.PinOf(pins, name)
		require.Error(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = open(t).Fetch(ctx, server.Client(), pack.Pin{Name: "tool", SHA256: pin(data).SHA256, URL: server.URL + "/tool.tar"})
	require.Error(t, err)
}

// What a process runs from a pack is not pruned before it has ended.
func TestAPackInUseIsKept(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("/bin/sleep")
	require.NoError(t, err)
	data := archive(t, file("sleep", string(program)))
	s := open(t)
	p, err := s.Import(t.Context(), pin(data), bytes.NewReader(data), "a file")
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(s.Shown(), p.Name, p.SHA256, "sleep"), "600")
	require.NoError(t, cmd.Start())
	deleted, kept, err := s.Prune("tool")
	require.NoError(t, err)
	require.Empty(t, deleted)
	require.Len(t, kept, 1)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	deleted, kept, err = s.Prune("tool")
	require.NoError(t, err)
	require.Len(t, deleted, 1)
	require.Empty(t, kept)
	require.NoDirExists(t, filepath.Join(s.Shown(), "tool"))
	_, _, err = s.Prune("tool")
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}
