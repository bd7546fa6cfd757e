package snapshot_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A workspace of 50 000 files is recorded whole, what a step changed there
// is found, and restored.
func TestAWorkspaceOf50000Files(t *testing.T) {
	t.Parallel()
	m := &machine{top: memoryDir(t)}
	require.NoError(t, os.Mkdir(m.dir(), 0o755))
	s := m.service(t, m.config())
	require.NoError(t, s.Begin(t.Context(), jailID, "step_0", true))
	const files = 50_000
	for i := range files {
		dir := filepath.Join(m.dir(), fmt.Sprintf("d%d", i/1000))
		if i%1000 == 0 {
			require.NoError(t, os.Mkdir(dir, 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Appendf(nil, "%d", i%100), 0o644))
	}
	made := s.End(t.Context(), jailID, "step_0", true)
	require.Empty(t, made.GetError())
	require.EqualValues(t, files+files/1000, made.GetFiles())
	require.Zero(t, made.GetUnkept())
	before := picture(t, m.dir())
	got := m.step(t, s, "step_1", "for i in $(seq 0 5000 49999); do echo changed > d$((i / 1000))/$i; done; rm -r d7; mkdir d7; echo new > d7/new; chmod 600 d9/9999")
	require.EqualValues(t, 10+1000+1+1, got.GetFiles(), "contents, what was in d7, its new file, and a mode")
	require.Zero(t, m.step(t, s, "step_2", "true").GetFiles())
	out := undo(t, s, "step_1")
	require.True(t, out.GetApplied(), "%v", out.GetConflicts())
	require.Equal(t, before, picture(t, m.dir()))
	out = undo(t, s, "step_0")
	require.True(t, out.GetApplied(), "%v", out.GetConflicts())
	left, err := os.ReadDir(m.dir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// Names that were one file are one file again, together with those that were
// left alone; content that was changed by one name is back under all of them.
func TestHardLinksAreOneFileAgain(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]string{
		"changed in place by one name":   "echo new > a",
		"replaced under one name":        "rm a; echo new > a",
		"one name deleted":               "rm a",
		"all names deleted":              "rm a b d/c",
		"a name more":                    "ln a e",
		"a name moved":                   "mv a e",
		"the mode changed by one name":   "chmod 600 d/c",
		"a file of its own made of each": "for f in a b d/c; do cp $f t; mv t $f; done",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			s := m.service(t, m.config())
			m.step(t, s, "step_0", "mkdir d; echo one > a; ln a b; ln a d/c; echo one > other; chmod 640 a")
			before := picture(t, m.dir())
			m.step(t, s, "step_1", change)
			out := undo(t, s, "step_1")
			require.True(t, out.GetApplied(), "%v", out.GetConflicts())
			require.Equal(t, before, picture(t, m.dir()))
			m.shell(t, "[ $(stat -c %h a) = 3 ]; [ a -ef b ]; [ a -ef d/c ]; [ ! a -ef other ]; echo more >> b; grep -q more d/c")
			require.EqualValues(t, 3, m.step(t, s, "step_2", "true").GetFiles(), "what was written since, by each name")
		})
	}
}

// A folder that was replaced by a link comes back, and the link's target is left
// alone: wherever it leads, also to itself.
func TestAFolderThatBecameALinkIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"other", "a", ".", "/etc"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			s := m.service(t, m.config())
			m.step(t, s, "step_0", "mkdir -p a/b other; echo one > a/f; echo two > a/b/g; echo three > other/f")
			before := picture(t, m.dir())
			m.step(t, s, "step_1", "rm -r a; ln -s "+target+" a")
			linked := picture(t, m.dir())
			out := undo(t, s, "step_1")
			require.True(t, out.GetApplied(), "%v", out.GetConflicts())
			require.Equal(t, before, picture(t, m.dir()))
			m.step(t, s, "step_2", "rm -r a; ln -s "+target+" a")
			require.Equal(t, linked, picture(t, m.dir()))
		})
	}
}

// Sockets and pipes are never opened, so nothing hangs on them. A pipe comes
// back; a socket cannot, and an undo that would need one says so.
func TestSocketsAndPipes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	listen := func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		// Beneath the folder's own descriptor: the path of a socket is short.
		dir, err := os.Open(m.dir())
		require.NoError(t, err)
		defer dir.Close()
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", dir.Fd())}))
	}
	got := m.step(t, s, "step_0", "mkfifo -m 620 pipe; echo x > file", listen)
	require.Equal(t, []string{"added file", "added pipe", "added socket"}, paths(got.GetChanges()))
	require.Equal(t, "fifo", got.GetChanges()[1].GetAfter().GetType())
	require.Equal(t, "socket", got.GetChanges()[2].GetAfter().GetType())
	before := picture(t, m.dir())
	// Somebody waits at the pipe in the meantime.
	reads := make(chan string, 1)
	go func() {
		content, err := os.ReadFile(m.dir() + "/pipe")
		reads <- fmt.Sprint(string(content), err)
	}()
	m.step(t, s, "step_1", "echo y > file")
	require.True(t, undo(t, s, "step_1").GetApplied())
	require.Equal(t, before, picture(t, m.dir()))
	m.shell(t, "timeout 20 sh -c 'echo go > pipe'")
	require.Equal(t, "go\n<nil>", <-reads, "nobody else took it, or its pipe")

	m.step(t, s, "step_1b", "chmod 600 pipe; mv pipe moved")
	require.True(t, undo(t, s, "step_1b").GetApplied())
	require.Equal(t, before, picture(t, m.dir()))
	m.step(t, s, "step_2", "rm pipe socket; echo z > file")
	out := undo(t, s, "step_2")
	require.False(t, out.GetApplied())
	require.Equal(t, []string{"not_kept socket "}, reasonsOf(out))
	require.Contains(t, out.GetConflicts()[0].GetMessage(), "socket")
	skip := request("step_2")
	skip.OnConflict = nodev1.OnConflict_ON_CONFLICT_SKIP
	done, err := s.UndoChanges(t.Context(), skip)
	require.NoError(t, err)
	require.True(t, done.GetApplied())
	require.Equal(t, before, picture(t, m.dir()), "all but the socket, which the picture leaves out")
	require.NoFileExists(t, m.dir()+"/socket")
	// One that a step made goes with the step.
	m.step(t, s, "step_3", "rm -f socket", listen)
	require.True(t, undo(t, s, "step_3").GetApplied())
	_, err = net.DialTimeout("unix", m.dir()+"/socket", time.Second)
	require.Error(t, err)
}

// Names are bytes: with newlines, quotes and what is no UTF-8 they are told
// apart, shown, compared and restored.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	odd := []string{"a\nb", "a\n", "\n", "a\\nb", "\xff", "\xff\xfe", "\xef\xbf\xbd", "tab\t", "\x1b[31m", `"quoted"`, "-rf", " ", "é", "e\u0301"}
	m := newMachine(t)
	s := m.service(t, m.config())
	put := func(content string) func() {
		return func() {
			for i, name := range odd {
				require.NoError(t, os.MkdirAll(filepath.Join(m.dir(), name+".d"), 0o755))
				for _, path := range []string{name, name + ".d/" + name} {
					require.NoError(t, os.WriteFile(filepath.Join(m.dir(), path), fmt.Appendf(nil, "%s %d\n", content, i), 0o644))
				}
			}
		}
	}
	m.step(t, s, "step_0", "true", put("old"))
	before := picture(t, m.dir())
	got := m.step(t, s, "step_1", "true", put("new"))
	require.EqualValues(t, 2*len(odd), got.GetFiles())
	seen := map[string]bool{}
	for _, c := range got.GetChanges() {
		seen[string(c.GetPath())] = true
	}
	for _, name := range odd {
		require.True(t, seen[name] && seen[name+".d/"+name], "%q", name)
	}
	text := strings.Join(diffOf(t, s, "step_1"), "")
	require.Equal(t, 2*len(odd), strings.Count(text, "\n-old "))
	require.NotContains(t, text, "\x1b", "names in a diff are quoted")
	require.True(t, undo(t, s, "step_1").GetApplied())
	require.Equal(t, before, picture(t, m.dir()))
	require.True(t, undo(t, s, "step_0").GetApplied())
	left, err := os.ReadDir(m.dir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// The disk is full while the workspace is looked at: the step is refused before
// it runs. Nothing of the workspace is touched, and what was kept before is
// restored once there is room.
func TestAFullDiskDuringALook(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted by root: run the tests as root")
	}
	m := newMachine(t)
	small := filepath.Join(m.top, "jails")
	require.NoError(t, os.Mkdir(small, 0o755))
	require.NoError(t, unix.Mount("deckhand-test", small, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(small, unix.MNT_DETACH)) })
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "echo one > a; mkdir d; echo two > d/b")
	first := picture(t, m.dir())
	m.step(t, s, "step_1", "echo changed > a; rm -r d")
	// Somebody's files, which nobody knows yet, and more than there is room for.
	require.NoError(t, s.Begin(t.Context(), jailID, "person", false))
	m.shell(t, "head -c 3000000 /dev/urandom > big1; head -c 3000000 /dev/urandom > big2; echo mine > mine")
	s.End(t.Context(), jailID, "person", false)
	before := picture(t, m.dir())
	err := s.Begin(t.Context(), jailID, "step_2", true)
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.ErrorContains(t, err, "no room")
	require.Equal(t, before, picture(t, m.dir()))
	// With no room at all: not even for the record.
	ballast := filepath.Join(small, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.True(t, errors.Is(err, unix.ENOSPC), "%v", err)
	require.NoError(t, f.Close())
	err = s.Begin(t.Context(), jailID, "step_3", true)
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.Equal(t, before, picture(t, m.dir()))

	require.NoError(t, os.Remove(ballast))
	require.NoError(t, unix.Mount("", small, "", unix.MS_REMOUNT, "size=64m"))
	require.Zero(t, m.step(t, s, "step_4", "true").GetUnkept())
	require.True(t, undo(t, s, "step_1").GetApplied())
	m.shell(t, "rm big1 big2 mine")
	require.Equal(t, first, picture(t, m.dir()))
}

// diffOf returns the unified diffs of what an id changed.
func diffOf(t *testing.T, s *snapshot.Service, id string) (out []string) {
	t.Helper()
	stream, err := dial(t, s).DiffChanges(t.Context(), &nodev1.DiffChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: []string{id}}})
	require.NoError(t, err)
	for {
		one, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, string(one.GetUnified()))
	}
}
