package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// names are few, so that steps meet on them, and some are odd.
var names = []string{"a", "b", "c", "a b", "new\nline", "\xff\xfe", "-", "é"}

// act does something random to a workspace; what the kernel refuses is not
// done.
func act(t *rapid.T, dir string) {
	path := func(label string) string {
		depth := rapid.IntRange(1, 3).Draw(t, label+" depth")
		at := dir
		for i := range depth {
			at = filepath.Join(at, rapid.SampledFrom(names).Draw(t, fmt.Sprint(label, i)))
		}
		return at
	}
	at := path("path")
	content := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "content")
	switch rapid.SampledFrom([]string{
		"write", "write", "write", "append", "overwrite", "mkdir", "mkdir", "remove", "remove", "removeall", "rename", "rename",
		"link", "symlink", "chmod", "chown", "fifo", "xattr", "truncate", "holes", "touch", "socket",
	}).Draw(t, "act") {
	case "write":
		temp := filepath.Join(dir, ".tmp")
		_ = os.WriteFile(temp, content, 0o644)
		if os.Rename(temp, at) != nil {
			_ = os.Remove(temp)
		}
	case "append":
		if f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600); err == nil {
			_, _ = f.Write(content)
			_ = f.Close()
		}
	case "overwrite": // in place, of the same size
		if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() {
			f, err := os.OpenFile(at, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, _ = f.WriteAt(content[:min(int64(len(content)), info.Size())], 0)
			_ = f.Close()
		}
	case "mkdir":
		_ = os.MkdirAll(at, 0o755)
	case "remove":
		_ = os.Remove(at)
	case "removeall":
		// os.RemoveAll opens what is above a name that is not there, and waits
		// forever where that is a pipe.
		if _, err := os.Lstat(at); err == nil {
			_ = os.RemoveAll(at)
		}
	case "rename":
		_ = os.Rename(at, path("to"))
	case "link":
		_ = os.Link(at, path("to"))
	case "symlink": // to nothing that is not the test's own
		_ = os.Symlink(rapid.SampledFrom([]string{"a", "../b", "/nowhere/outside", "."}).Draw(t, "target"), at)
	case "chmod":
		mode := rapid.SampledFrom([]uint32{0o644, 0o755, 0, 0o4755, 0o2711, 0o1777}).Draw(t, "mode")
		_ = unix.Fchmodat(unix.AT_FDCWD, at, mode, unix.AT_SYMLINK_NOFOLLOW)
	case "chown":
		_ = unix.Lchown(at, 65534, rapid.IntRange(65533, 65534).Draw(t, "gid"))
	case "fifo":
		_ = unix.Mkfifo(at, 0o640)
	case "socket":
		if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: at})
			_ = unix.Close(fd)
		}
	case "xattr":
		err := unix.Lsetxattr(at, "user."+rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), content, 0)
		if rapid.Bool().Draw(t, "remove") || err != nil {
			_ = unix.Lremovexattr(at, "user.x")
		}
	case "truncate":
		if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() {
			_ = os.Truncate(at, int64(rapid.IntRange(0, 300).Draw(t, "size")))
		}
	case "holes":
		if f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600); err == nil {
			_, _ = f.WriteAt(content, int64(rapid.IntRange(0, 4).Draw(t, "megabytes"))<<17)
			_ = f.Close()
		}
	case "touch":
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, at, nil, unix.AT_SYMLINK_NOFOLLOW)
	}
}

// noSockets removes sockets, which cannot be restored.
func noSockets(t *rapid.T, dir string) {
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode()&os.ModeSocket != 0 {
			return os.Remove(path)
		}
		return err
	}))
}

// memoryDir is a folder in memory, where fsync costs nothing; on disk where the
// kernel keeps no attributes of files in memory.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "deckhand-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if unix.Setxattr(dir, "user.x", nil, 0) != nil {
		return t.TempDir()
	}
	return dir
}

// For random trees and random commands, an undo of one step, of several
// and of all restores the tree of before, byte for byte and mode for mode.
func TestUndoGivesBackAnyTree(t *testing.T) {
	t.Parallel()
	outer := t
	dir := memoryDir(t)
	rapid.Check(t, func(t *rapid.T) {
		top, err := os.MkdirTemp(dir, "")
		require.NoError(t, err)
		defer os.RemoveAll(top)
		m := &machine{top: top}
		require.NoError(t, os.Mkdir(m.dir(), 0o755))
		s := m.service(outer, m.config())
		defer s.Stop()
		ctx := outer.Context()
		pictures := [][]string{picture(outer, m.dir())}
		var states []int64
		var ids []string
		for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
			id := fmt.Sprintf("step_%d", i)
			require.NoError(t, s.Begin(ctx, jailID, id, true))
			for range rapid.IntRange(0, 12).Draw(t, "acts") {
				act(t, m.dir())
			}
			noSockets(t, m.dir())
			got := s.End(ctx, jailID, id, true)
			require.Empty(t, got.GetError())
			ids, states = append(ids, id), append(states, got.GetBefore())
			pictures = append(pictures, picture(outer, m.dir()))
		}
		from := rapid.IntRange(0, len(ids)-1).Draw(t, "back to")
		span := &nodev1.ChangeRange{By: ids[from:]}
		if rapid.Bool().Draw(t, "by state") {
			span = &nodev1.ChangeRange{From: states[from]}
		}
		got, err := s.UndoChanges(ctx, &nodev1.UndoChangesRequest{JailId: jailID, OperationId: "undo_1", Range: span})
		require.NoError(t, err)
		require.Empty(t, got.GetConflicts())
		require.True(t, got.GetApplied())
		require.Equal(t, pictures[from], picture(outer, m.dir()))
		// And the undo itself is a change like any other.
		if got.GetFiles() == 0 {
			return
		}
		again, err := s.UndoChanges(ctx, &nodev1.UndoChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: []string{"undo_1"}}})
		require.NoError(t, err)
		require.True(t, again.GetApplied(), "%v", again.GetConflicts())
		require.Equal(t, pictures[len(ids)], picture(outer, m.dir()))
		// A new daemon that looks afresh finds nothing to correct.
		s.Stop()
		next := m.service(outer, m.config())
		defer next.Stop()
		require.NoError(t, next.Begin(ctx, jailID, "step_last", true))
		require.Zero(t, next.End(ctx, jailID, "step_last", true).GetFiles())
	})
}
