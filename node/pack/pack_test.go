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
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
	deleted, kept, err := s.Prune(t.Context())
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
		"a name that goes up":               archive(t, file("../evil", "x")),
		"a name that goes up in the middle": archive(t, file("a/../../evil", "x")),
		"an absolute name":                  archive(t, file("/etc/evil", "x")),
		"a link out":                        archive(t, file("tool", "x"), link(tar.TypeSymlink, "out", "../../../etc")),
		"an absolute link":                  archive(t, file("tool", "x"), link(tar.TypeSymlink, "out", "/etc")),
		"a link out by way of another": archive(t, file("t/tool", "x"), file("d1/d2/x", "x"), link(tar.TypeSymlink, "d1/d2/l", "../../t"),
			link(tar.TypeSymlink, "m", "d1/d2/l/../..")),
		"a link out below a link to a folder": archive(t, file("tool", "x"), link(tar.TypeSymlink, "d", "."), link(tar.TypeSymlink, "d/d/l", "../..")),
		"a link that is linked elsewhere":     archive(t, file("a/b/tool", "x"), link(tar.TypeSymlink, "a/b/l", "../../a"), link(tar.TypeLink, "l", "a/b/l")),
		"a link to itself":                    archive(t, file("tool", "x"), link(tar.TypeSymlink, "l", "l")),
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
	deleted, kept, err := s.Prune(t.Context(), "tool")
	require.NoError(t, err)
	require.Empty(t, deleted)
	require.Len(t, kept, 1)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	deleted, kept, err = s.Prune(t.Context(), "tool")
	require.NoError(t, err)
	require.Len(t, deleted, 1)
	require.Empty(t, kept)
	require.NoDirExists(t, filepath.Join(s.Shown(), "tool"))
	_, _, err = s.Prune(t.Context(), "tool")
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// Whatever is left of a version when something dies, it does not count as installed, is repaired by
// installing it again, and is deleted with the old versions.
func TestWhatIsLeftOfAVersionIsNotInstalled(t *testing.T) {
	t.Parallel()
	data := archive(t, file("tool", "x"), file("share/data", "y"))
	is := pin(data)
	for name, harm := range map[string]func(dir string) error{
		"a record that is cut":    func(dir string) error { return os.Truncate(filepath.Join(dir, "tool-"+is.SHA256+".json"), 10) },
		"an empty record":         func(dir string) error { return os.Truncate(filepath.Join(dir, "tool-"+is.SHA256+".json"), 0) },
		"a folder alone":          func(dir string) error { return os.Remove(filepath.Join(dir, "tool-"+is.SHA256+".json")) },
		"a record alone":          func(dir string) error { return os.RemoveAll(filepath.Join(dir, "shown", "tool", is.SHA256)) },
		"a record and no package": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "shown", "tool")) },
	} {
		s := open(t)
		dir := filepath.Dir(s.Shown())
		put := func() pack.Pack {
			t.Helper()
			p, err := s.Import(t.Context(), is, bytes.NewReader(data), "a file")
			require.NoError(t, err, name)
			return p
		}
		put()
		require.NoError(t, harm(dir), name)
		require.True(t, put().Current, name)
		all, err := s.List()
		require.NoError(t, err, name)
		require.Len(t, all, 1, name)
		require.False(t, all[0].Broken, name)
		text, err := os.ReadFile(filepath.Join(s.Shown(), "tool", "current", "share", "data"))
		require.NoError(t, err, name)
		require.Equal(t, "y", string(text), name)

		require.NoError(t, os.Remove(filepath.Join(s.Shown(), "tool", "current")), name)
		require.NoError(t, harm(dir), name)
		all, err = s.List()
		require.NoError(t, err, name)
		for _, p := range all {
			require.True(t, p.Broken, name)
		}
		_, _, err = s.Prune(t.Context())
		require.NoError(t, err, name)
		left, err := filepath.Glob(filepath.Join(dir, "*.json"))
		require.NoError(t, err, name)
		require.Empty(t, left, name)
		require.NoDirExists(t, filepath.Join(s.Shown(), "tool", is.SHA256), name)
	}
}

// Jails read a pack whatever the umask of the operator is.
func TestAPackIsReadByEverybodyUnderAStrictUmask(t *testing.T) {
	t.Parallel()
	const asked = "DECKHAND_TEST_UMASK"
	if os.Getenv(asked) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), asked+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	unix.Umask(0o077)
	s := open(t)
	data := archive(t, file("a/b/tool", "x"), entry{Header: tar.Header{Name: "empty", Mode: 0o700, Typeflag: tar.TypeDir}})
	_, err := s.Import(t.Context(), pin(data), bytes.NewReader(data), "a file")
	require.NoError(t, err)
	for _, name := range []string{"", "tool", "tool/current", "tool/current/a", "tool/current/a/b", "tool/current/a/b/tool", "tool/current/empty"} {
		info, err := os.Stat(filepath.Join(s.Shown(), name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), name)
	}
}

// A download that brings nothing holds up no other command, and ends with its context.
func TestAStalledDownloadHoldsUpNothing(t *testing.T) {
	t.Parallel()
	stalled := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		close(stalled)
		<-r.Context().Done()
	}))
	defer server.Close()
	data := archive(t, file("tool", "x"))
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Fetch(ctx, server.Client(), pack.Pin{Name: "other", SHA256: pin(data).SHA256, URL: server.URL})
		ended <- err
	}()
	<-stalled
	_, err := s.Import(t.Context(), pin(data), bytes.NewReader(data), "a file")
	require.NoError(t, err)
	_, _, err = s.Prune(t.Context())
	require.NoError(t, err)
	cancel()
	require.True(t, fault.Is(<-ended, fault.Unavailable))
}

// A command that waits for another one ends with its context, and says what it waited for.
func TestAWaitingCommandCanBeEnded(t *testing.T) {
	t.Parallel()
	s := open(t)
	f, err := os.OpenFile(filepath.Join(filepath.Dir(s.Shown()), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err = s.Prune(ctx)
	require.ErrorContains(t, err, "another command about packs is running")
}
