package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func request(ids ...string) *nodev1.UndoChangesRequest {
	return &nodev1.UndoChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: ids}}
}

func reasonsOf(out *nodev1.UndoChangesResponse) (got []string) {
	for _, c := range out.GetConflicts() {
		got = append(got, fmt.Sprintf("%s %s %s", c.GetReason(), c.GetPath(), strings.Join(c.GetLater(), "+")))
	}
	return got
}

// One file of several steps is restored, and nothing else; the rest can be undone
// afterwards.
func TestOnePathIsRestored(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "mkdir dir; echo 0 > dir/file; echo 0 > file; echo 0 > dirty")
	for _, n := range []string{"1", "2", "3"} {
		m.step(t, s, "step_"+n, "echo "+n+" > dir/file; echo "+n+" > file; echo "+n+" > dirty; echo "+n+" > dir/"+n)
	}
	one := request("step_1", "step_2", "step_3")
	one.Paths = [][]byte{[]byte("file")}
	out, err := s.UndoChanges(t.Context(), one)
	require.NoError(t, err)
	require.True(t, out.GetApplied())
	require.Equal(t, []string{"modified file"}, paths(out.GetChanges()))
	m.shell(t, "[ $(cat file dir/file dirty dir/2 | tr -d '\n') = 0332 ]")

	one.Paths = [][]byte{[]byte("dir")}
	out, err = s.UndoChanges(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, []string{"deleted dir/1", "deleted dir/2", "deleted dir/3", "modified dir/file"}, paths(out.GetChanges()))
	require.True(t, undo(t, s, "step_1", "step_2", "step_3").GetApplied())
	m.shell(t, "[ $(cat file dir/file dirty | tr -d '\n') = 000 ]; [ $(ls dir) = file ]")
}

// What a later step changed is not undone without being asked, and
// the report names that step.
func TestConflictsWithLaterSteps(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "echo 0 > both; echo 0 > mine; mkdir gone; echo 0 > gone/x")
	m.step(t, s, "step_1", "echo 1 > both; echo 1 > mine; mkdir made; rm -r gone")
	m.step(t, s, "step_2", "echo 2 > both; echo 2 > made/by2")
	out := undo(t, s, "step_1")
	require.False(t, out.GetApplied())
	require.Equal(t, []string{"changed_later both step_2", "not_empty made "}, reasonsOf(out))
	m.shell(t, "grep -q 1 mine")

	preview := request("step_1")
	preview.OnConflict, preview.Preview = nodev1.OnConflict_ON_CONFLICT_SKIP, true
	seen, err := s.UndoChanges(t.Context(), preview)
	require.NoError(t, err)
	skip := request("step_1")
	skip.OnConflict, skip.ExpectSnapshot = nodev1.OnConflict_ON_CONFLICT_SKIP, seen.GetSnapshot()+1
	m.step(t, s, "step_3", "true")
	_, err = s.UndoChanges(t.Context(), skip)
	require.Error(t, err, "a preview of another state")
	skip.ExpectSnapshot = seen.GetSnapshot()
	out, err = s.UndoChanges(t.Context(), skip)
	require.NoError(t, err)
	require.True(t, out.GetApplied())
	require.Equal(t, []string{"added gone", "added gone/x", "modified mine"}, paths(out.GetChanges()))
	m.shell(t, "[ $(cat both mine made/by2 gone/x | tr -d '\\n') = 2020 ]")

	over := request("step_1")
	over.OnConflict = nodev1.OnConflict_ON_CONFLICT_OVERWRITE
	out, err = s.UndoChanges(t.Context(), over)
	require.NoError(t, err)
	require.True(t, out.GetApplied())
	m.shell(t, "[ $(cat both) = 0 ]; [ -e made/by2 ]")
	// Both together have no conflict: the last of a path is theirs.
	m.step(t, s, "step_4", "echo 4 > both")
	m.step(t, s, "step_5", "echo 5 > both; echo 5 > five")
	require.True(t, undo(t, s, "step_4", "step_5").GetApplied())
	m.shell(t, "[ $(cat both) = 0 ]; [ ! -e five ]")
}

// Two agents' commands overlap in one workspace: nobody claims to know whose a
// change was, and both are told.
func TestOverlappingStepsShareTheirChanges(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	require.NoError(t, s.Begin(t.Context(), jailID, "step_a", true))
	m.shell(t, "echo a > only-a")
	require.NoError(t, s.Begin(t.Context(), jailID, "step_b", true))
	m.shell(t, "echo x > shared")
	a := s.End(t.Context(), jailID, "step_a", true)
	require.Equal(t, []string{"added only-a", "added shared"}, paths(a.GetChanges()))
	require.Equal(t, []string{"step_b"}, a.GetSharedWith())
	m.shell(t, "echo b > only-b")
	b := s.End(t.Context(), jailID, "step_b", true)
	require.Equal(t, []string{"added only-b", "added shared"}, paths(b.GetChanges()))
	require.Positive(t, m.frozen, "the jail stood still while something ran")
	out := undo(t, s, "step_b")
	require.True(t, out.GetApplied())
	require.Equal(t, []string{"step_a"}, out.GetSharedWith())
	m.shell(t, "[ -e only-a ]; [ ! -e shared ]")
}

func TestWhatCannotBeKeptIsSaid(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cfg := m.config()
	cfg.MaxFile = 1 << 20
	s := m.service(t, cfg)
	m.step(t, s, "step_0", "head -c 2000000 /dev/zero > large; echo small > small")
	got := m.step(t, s, "step_1", "echo more >> large; echo more >> small")
	require.EqualValues(t, 1, got.GetUnkept())
	require.Equal(t, "large", string(got.GetUnkeptPaths()[0]))
	require.Equal(t, "too large to keep", got.GetChanges()[0].GetBefore().GetUnkept())
	out := undo(t, s, "step_1")
	require.False(t, out.GetApplied())
	require.Equal(t, []string{"not_kept large "}, reasonsOf(out))
	require.Contains(t, out.GetConflicts()[0].GetMessage(), "too large")
	m.step(t, s, "step_2", "rm large")
	require.Zero(t, m.step(t, s, "step_3", "true").GetUnkept())
}

// A file of 5 GB, nearly all of it a hole, costs what is in it.
func TestAFileOf5GBWithHoles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "truncate -s 5G huge; echo head | dd of=huge conv=notrunc status=none; echo tail >> huge")
	before := sparsePicture(t, m.dir()+"/huge")
	m.step(t, s, "step_1", "echo middle | dd of=huge bs=1M seek=2500 conv=notrunc status=none; truncate -s 6G huge")
	require.True(t, undo(t, s, "step_1").GetApplied())
	require.Equal(t, before, sparsePicture(t, m.dir()+"/huge"))
	var used int64
	for _, path := range m.objects(t) {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		used += st.Blocks * 512
	}
	require.Less(t, used, int64(10<<20))
}

func sparsePicture(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	out := fmt.Sprint(info.Size())
	for at := int64(0); ; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err != nil {
			return out
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		require.NoError(t, err)
		data := make([]byte, to-from)
		_, err = f.ReadAt(data, from)
		require.NoError(t, err)
		out += fmt.Sprintf(" %d:%q", from, strings.Trim(string(data), "\x00"))
		at = to
	}
}

// A writer that nothing can make stand still: what was read of a file that
// changed in the meantime is not taken for its content.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	require.NoError(t, os.WriteFile(m.dir()+"/torn", make([]byte, 1<<20), 0o644))
	require.NoError(t, s.Begin(t.Context(), jailID, "step_1", true))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		f, err := os.OpenFile(m.dir()+"/torn", os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()
		for i := byte(1); ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = f.WriteAt([]byte{i}, 0)
				_, _ = f.WriteAt([]byte{i}, 1<<20-1)
			}
		}
	}()
	for range 20 {
		got := s.End(t.Context(), jailID, "step_1", true)
		for _, c := range got.GetChanges() {
			require.True(t, c.GetAfter().GetDigest() != "" || c.GetAfter().GetUnkept() != "")
		}
	}
	close(stop)
	<-stopped
	require.Zero(t, m.step(t, s, "step_2", "true").GetUnkept(), "once it stands still it is kept")
}

// The workspace's owner swaps folders for links while it is looked at: nothing
// outside is read or touched.
func TestLinksThatAreSwappedIn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	outside := filepath.Join(m.top, "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "x"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x", "secret"), []byte("secret of the host"), 0o600))
	m.shell(t, "mkdir -p d/x; echo inside > d/x/secret; ln -s "+outside+" link")
	var swaps atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, m.dir()+"/d", unix.AT_FDCWD, m.dir()+"/link", unix.RENAME_EXCHANGE)
				swaps.Add(1)
			}
		}
	}()
	for i := range 50 {
		id := fmt.Sprintf("step_%d", i)
		if err := s.Begin(t.Context(), jailID, id, true); err != nil {
			continue
		}
		s.End(t.Context(), jailID, id, true)
		_, _ = s.UndoChanges(t.Context(), request(id))
	}
	close(stop)
	<-stopped
	require.Positive(t, swaps.Load())
	content, err := os.ReadFile(filepath.Join(outside, "x", "secret"))
	require.NoError(t, err)
	require.Equal(t, "secret of the host", string(content))
	require.NoError(t, filepath.WalkDir(filepath.Join(m.top, "jails"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(content), "secret of the host", path)
		}
		return err
	}))
}

func TestPathsThatAreTooDeep(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	got := m.step(t, s, "step_0", `n=$(printf 'x%.0s' $(seq 250)); for i in $(seq 30); do mkdir $n; cd $n; echo $i > f; done`)
	require.EqualValues(t, 1, got.GetUnkept())
	require.Zero(t, m.step(t, s, "step_1", "true").GetFiles())
	m.step(t, s, "step_2", "rm -r x*")
}

// Changes are forgotten by age and for want of room, with the contents that
// nothing else refers to.
func TestOldChangesAreCollected(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cfg := m.config()
	now := time.Now()
	var later atomic.Int64
	cfg.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
	cfg.KeepFor = time.Hour
	s := m.service(t, cfg)
	m.step(t, s, "step_0", "head -c 100000 /dev/urandom > a")
	first := m.objects(t)
	m.step(t, s, "step_1", "head -c 100000 /dev/urandom > a; echo kept > b")
	later.Store(int64(2 * time.Hour))
	m.step(t, s, "step_2", "echo new > c")
	s.Collect(t.Context())
	require.NotContains(t, m.objects(t), first[0], "nothing refers to it")
	require.Len(t, m.objects(t), 3)
	_, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{From: 1}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.NotFound), "%v", err)
	require.True(t, undo(t, s, "step_2").GetApplied())
}

func (m *machine) objects(t *testing.T) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(m.top, "jails", jailID, "snapshots", "objects"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func TestTheOldestChangesMakeRoom(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cfg := m.config()
	cfg.MaxBytes = 1 << 20
	s := m.service(t, cfg)
	for i := range 20 {
		m.step(t, s, fmt.Sprintf("step_%d", i), "head -c 200000 /dev/urandom > a")
	}
	require.True(t, undo(t, s, "step_19").GetApplied())
	_, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{From: 2}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.NotFound), "%v", err)
}

// The jail is removed, and one of the same name is made: it starts with
// nothing of the old one.
func TestAJailThatIsRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	old := m.step(t, s, "step_0", "echo old > a")
	require.NoError(t, s.Begin(t.Context(), jailID, "step_1", true))
	require.NoError(t, os.RemoveAll(filepath.Join(m.top, "jails", jailID)))
	m.removed = true
	require.Nil(t, s.End(t.Context(), jailID, "step_1", true))
	m.removed = false
	m.shell(t, "rm a; echo new > b")
	got := m.step(t, s, "step_2", "echo x > c")
	require.EqualValues(t, 1, got.GetBefore())
	require.NotEqual(t, old.GetRecord(), got.GetRecord())
	_, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: jailID, Range: &nodev1.ChangeRange{From: old.GetBefore()}, ExpectRecord: old.GetRecord(),
	})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.NotFound), "%v", err)
	back, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: jailID, Range: &nodev1.ChangeRange{From: got.GetBefore()}, ExpectRecord: got.GetRecord(), Preview: true,
	})
	require.NoError(t, err)
	require.Equal(t, []string{"step_2"}, back.GetBy())
	require.NoError(t, s.Begin(context.Background(), "host", "step_3", true), "the machine itself has no workspace")
	require.Nil(t, s.End(context.Background(), "host", "step_3", true))
}

func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cfg := m.config()
	cfg.MaxEntries = 100
	s := m.service(t, cfg)
	m.step(t, s, "step_0", "for i in $(seq 90); do echo > $i; done")
	require.NoError(t, s.Begin(t.Context(), jailID, "step_1", true))
	m.shell(t, "for i in $(seq 90 190); do echo > $i; done")
	require.Contains(t, s.End(t.Context(), jailID, "step_1", true).GetError(), "too many files")
	err := s.Begin(t.Context(), jailID, "step_2", true)
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	m.shell(t, "rm 1*")
	require.NoError(t, s.Begin(t.Context(), jailID, "step_2", true))
}
