package snapshot_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const jailID = "jail_1"

// machine is a node with one jail, whose workspace is a folder.
type machine struct {
	top     string
	frozen  int
	removed bool
}

func (m *machine) Workspace(id string) (string, error) {
	if id != jailID && id != m.hostID() || m.removed {
		return "", fault.New(fault.NotFound, "no jail %s", id)
	}
	return m.dir(), nil
}

func (m *machine) dir() string { return filepath.Join(m.top, "workspace") }

// hostID is the id of the same folder as one of the machine.
func (m *machine) hostID() string { return nodelink.HostFolder + m.dir() }

func (m *machine) Owner(id string) (uid, gid int) {
	if id == m.hostID() {
		return 0, 0
	}
	return 65534, 65534
}

func (m *machine) Freeze(context.Context, string) (func() error, error) {
	m.frozen++
	return func() error { return nil }, nil
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{top: t.TempDir()}
	require.NoError(t, os.Mkdir(m.dir(), 0o755))
	return m
}

func (m *machine) config() snapshot.Config {
	return snapshot.Config{Jails: m, Dir: filepath.Join(m.top, "jails"), Reserve: -1}
}

func (m *machine) service(t testing.TB, cfg snapshot.Config) *snapshot.Service {
	t.Helper()
	s, err := snapshot.New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Start(context.Background()))
	t.Cleanup(s.Stop)
	return s
}

// step runs a command in the workspace as the step of that id.
func (m *machine) step(t testing.TB, s *snapshot.Service, id, command string, more ...func()) *nodev1.WorkspaceChange {
	t.Helper()
	return m.stepIn(t, s, jailID, id, command, more...)
}

func (m *machine) stepIn(t testing.TB, s *snapshot.Service, jailID, id, command string, more ...func()) *nodev1.WorkspaceChange {
	t.Helper()
	require.NoError(t, s.Begin(t.Context(), jailID, id, true))
	m.shell(t, command)
	for _, fn := range more {
		fn()
	}
	out := s.End(t.Context(), jailID, id, true)
	require.Empty(t, out.GetError())
	return out
}

func (m *machine) shell(t testing.TB, command string) {
	t.Helper()
	cmd := exec.Command("/bin/bash", "-ec", command)
	cmd.Dir = m.dir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
}

func undo(t testing.TB, s *snapshot.Service, ids ...string) *nodev1.UndoChangesResponse {
	t.Helper()
	out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: ids}})
	require.NoError(t, err)
	return out
}

// picture is every name of a workspace with all that an undo restores, one
// line each. Names of one file have the same number.
func picture(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	numbers := map[uint64]int{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(path, &st))
		line := fmt.Sprintf("%q mode %o owner %d:%d", name, st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			if st.Nlink > 1 {
				if numbers[st.Ino] == 0 {
					numbers[st.Ino] = len(numbers) + 1
				}
				line += fmt.Sprintf(" file %d", numbers[st.Ino])
			}
			line += fmt.Sprintf(" content %q", content)
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			line += " to " + target
		case unix.S_IFSOCK:
			return nil
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			names := make([]byte, 4096)
			n, err := unix.Llistxattr(path, names)
			require.NoError(t, err)
			attrs := strings.Split(string(names[:n]), "\x00")
			slices.Sort(attrs)
			for _, attr := range attrs {
				if attr == "" {
					continue
				}
				value := make([]byte, 4096)
				n, err := unix.Lgetxattr(path, attr, value)
				require.NoError(t, err)
				line += fmt.Sprintf(" %s=%q", attr, value[:n])
			}
		}
		out = append(out, line)
		return nil
	}))
	return out
}

func paths(changes []*nodev1.FileChange) []string {
	var out []string
	for _, c := range changes {
		kind := strings.ToLower(strings.TrimPrefix(c.GetKind().String(), "CHANGE_KIND_"))
		out = append(out, kind+" "+string(c.GetPath()))
	}
	return out
}

// Whatever a step did is known, and undone to the last byte and mode.
func TestWhatAStepChangedIsKnownAndTakenBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", `
		mkdir -p src/deep empty; echo one > src/a; echo two > src/b; ln src/b src/b2; ln -s a src/l
		chmod 2750 src/deep; mkfifo pipe; chmod 4711 src/b; mkdir gone; echo x > gone/x
		printf 'odd' > $'new\nline'; printf 'bad' > $'\xff\xfe'; truncate -s 10M holes; echo end >> holes`, func() {
		require.NoError(t, unix.Setxattr(m.dir()+"/src/a", "user.note", []byte("hello"), 0))
		require.NoError(t, unix.Setxattr(m.dir()+"/src", "user.kind", []byte("source"), 0))
		require.NoError(t, unix.Setxattr(m.dir()+"/src/b", "user.same", []byte("x"), 0))
		require.NoError(t, unix.Setxattr(m.dir()+"/src/b", "user.empty", nil, 0))
	})
	before := picture(t, m.dir())
	got := m.step(t, s, "step_1", `
		echo changed > src/a; rm src/b; echo other > src/b2; ln -sfn b src/l; rmdir empty
		chmod 700 src/deep; rm pipe; touch pipe; rm -r gone; echo file > gone; mkdir made; echo new > made/new
		rm $'new\nline'; echo more >> $'\xff\xfe'; echo middle | dd of=holes bs=1 seek=5000000 conv=notrunc status=none; chmod 700 .`, func() {
		require.NoError(t, unix.Removexattr(m.dir()+"/src/a", "user.note"))
		require.NoError(t, unix.Setxattr(m.dir()+"/src", "user.kind", []byte("changed"), 0))
	})
	require.Equal(t, []string{
		"metadata .", "deleted empty", "modified gone", "deleted gone/x", "modified holes", "added made", "added made/new",
		"deleted new\nline", "modified pipe", "metadata src", "modified src/a", "deleted src/b", "modified src/b2", "metadata src/deep", "modified src/l",
		"modified \xff\xfe",
	}, paths(got.GetChanges()))
	require.Equal(t, got.GetBefore()+1, got.GetAfter())
	preview, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: jailID, Range: &nodev1.ChangeRange{By: []string{"step_1"}}, Preview: true,
	})
	require.NoError(t, err)
	require.False(t, preview.GetApplied())
	require.Len(t, preview.GetChanges(), 16)
	require.Empty(t, preview.GetConflicts())
	done := undo(t, s, "step_1")
	require.True(t, done.GetApplied())
	require.Equal(t, before, picture(t, m.dir()))
	require.Equal(t, preview.GetRestoredDigest(), done.GetRestoredDigest())
	require.NotEqual(t, done.GetOriginalDigest(), done.GetRestoredDigest())
	require.Zero(t, m.step(t, s, "step_2", "true").GetFiles(), "what was restored is as it was recorded")
}

func TestAStepThatChangesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "echo one > a; mkdir d")
	got := m.step(t, s, "step_1", "cat a; touch a; ls d")
	require.Zero(t, got.GetFiles(), "a new time alone is no change")
	require.Equal(t, got.GetBefore(), got.GetAfter())
	require.True(t, undo(t, s, "step_1").GetApplied())
}
