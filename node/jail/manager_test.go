package jail_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/initbin"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }

const running = nodev1.JailState_JAIL_STATE_RUNNING

func TestAJailIsMadeOnce(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	var wg sync.WaitGroup
	pids := make([]int32, 8)
	for i := range pids {
		wg.Go(func() {
			one, err := m.Ensure(t.Context(), spec)
			if err != nil || one.GetState() != running {
				t.Errorf("%v %v", one, err)
			}
			pids[i] = one.GetPid()
		})
	}
	wg.Wait()
	for _, pid := range pids {
		require.Equal(t, pids[0], pid)
	}
	all, err := m.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, m.HardWorkspaces(), all[0].GetWorkspaceLimitHard())
	require.NotNil(t, all[0].GetStartedAt())
}

func TestAJailOutlivesItsManager(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	spec := jailtest.Spec(ident.New("jail"))
	first, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)

	again, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	one, err := again.Get(t.Context(), spec.GetJailId())
	require.NoError(t, err)
	require.Equal(t, first.GetPid(), one.GetPid())
	one, err = again.Ensure(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, first.GetPid(), one.GetPid())
}

func TestAWorkspaceOutlivesItsJail(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	id := spec.GetJailId()
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	dir, err := m.Workspace(id)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kept"), nil, 0o644))

	one, err := m.Stop(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
	_, err = m.Init(t.Context(), id)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "stopped")
	_, err = m.Stop(t.Context(), id)
	require.NoError(t, err, "stopping again changes nothing")
	require.FileExists(t, filepath.Join(dir, "kept"))

	one, err = m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, running, one.GetState())
	require.FileExists(t, filepath.Join(dir, "kept"))

	require.NoError(t, m.Remove(t.Context(), id))
	require.NoError(t, m.Remove(t.Context(), id), "removing again changes nothing")
	require.NoDirExists(t, dir)
	_, err = m.Get(t.Context(), id)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = m.Workspace(id)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestAnIdleJailIsMadeAnewWithAnotherSpec(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	first, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	spec.Pids = 100
	second, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	require.NotEqual(t, first.GetPid(), second.GetPid())
}

// What a crash of the daemon leaves half made is cleared by the next.
func TestLeftoversOfACrashAreCleared(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	lost, stopping := jailtest.Spec(ident.New("lost")), jailtest.Spec(ident.New("stopping"))
	for _, spec := range []*nodev1.JailSpec{lost, stopping} {
		_, err := m.Ensure(t.Context(), spec)
		require.NoError(t, err)
	}
	one, err := m.Get(t.Context(), lost.GetJailId())
	require.NoError(t, err)
	conn, err := m.Init(t.Context(), lost.GetJailId())
	require.NoError(t, err)
	require.NoError(t, unix.Kill(int(one.GetPid()), unix.SIGKILL))
	<-conn.Closed
	// A jail whose record is gone: its making, or its removal, was cut short.
	require.NoError(t, os.Remove(filepath.Join(cfg.DataDir, "jails", stopping.GetJailId(), "record")))
	two, err := m.Init(t.Context(), stopping.GetJailId())
	require.NoError(t, err)

	// And a record that was half written when the daemon was killed.
	part := filepath.Join(cfg.DataDir, "jails", lost.GetJailId(), "record-1234567")
	require.NoError(t, os.WriteFile(part, []byte("half"), 0o600))

	again, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	<-two.Closed
	require.NoFileExists(t, part)
	one, err = again.Get(t.Context(), lost.GetJailId())
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_LOST, one.GetState())
	one, err = again.Ensure(t.Context(), lost)
	require.NoError(t, err)
	require.Equal(t, running, one.GetState())
}

func TestWhatCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	for name, tc := range map[string]struct {
		change func(*nodev1.JailSpec)
		kind   fault.Kind
		says   string
	}{
		// Never a weaker runtime in its place.
		"a runtime that the node lacks": {func(s *nodev1.JailSpec) { s.Runtime = "kata" }, fault.Precondition, `lacks the runtime "kata"; it has: runc`},
		"a root that is not known":      {func(s *nodev1.JailSpec) { s.Rootfs = "ubuntu" }, fault.Invalid, "rootfs"},
		"an id that leaves its folder":  {func(s *nodev1.JailSpec) { s.JailId = "../x" }, fault.Invalid, "jail_id"},
		"too little memory":             {func(s *nodev1.JailSpec) { s.MemoryBytes = 1 }, fault.Invalid, "memory_bytes"},
		"the whole host":                {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/"} }, fault.Denied, "read_only_paths"},
		"the host's keys":               {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/etc/ssh"} }, fault.Denied, "read_only_paths"},
		"somebody's home":               {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/home/me"} }, fault.Denied, "read_only_paths"},
		"a way round":                   {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/var/log/../../root"} }, fault.Denied, "clean absolute"},
		"the node's own data":           {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{cfg.DataDir} }, fault.Denied, "no jail is shown"},
		"a folder that is not there":    {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/var/log/nothing"} }, fault.Precondition, "not on this node"},
		"what no operator shows":        {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/var/lib"} }, fault.Denied, `does not show "/var/lib"; it shows: /var/log`},
		"its neighbour by name":         {func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{"/var/logs"} }, fault.Denied, "does not show"},
		"more memory than the node has": {func(s *nodev1.JailSpec) { s.MemoryBytes = 1 << 50 }, fault.Precondition, "memory_bytes is 1125899906842624: this node gives a jail at most"},
		"more CPUs":                     {func(s *nodev1.JailSpec) { s.CpuMillis = 1 << 30 }, fault.Precondition, "thousandths of a CPU"},
		"more processes":                {func(s *nodev1.JailSpec) { s.Pids = 4_000_000 }, fault.Precondition, "pids is 4000000"},
		"a larger disk":                 {func(s *nodev1.JailSpec) { s.WorkspaceBytes = 1 << 50 }, fault.Precondition, "max-jail-share"},
		"a larger /tmp":                 {func(s *nodev1.JailSpec) { s.TmpBytes = 1 << 50 }, fault.Precondition, "tmp_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := jailtest.Spec(ident.New("jail"))
			tc.change(spec)
			_, err := m.Ensure(t.Context(), spec)
			require.True(t, fault.Is(err, tc.kind), "%v", err)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestTheJailsOfANodeHaveACeilingTogether(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	cfg.Overcommit = 0.1
	m := jailtest.Manager(t, cfg)
	var machine unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&machine))
	all := max(int64(float64(machine.Totalram)*0.1), 4<<30)
	spec := func(memory int64) *nodev1.JailSpec {
		s := jailtest.Spec(ident.New("jail"))
		s.MemoryBytes, s.Pids = memory, 32
		return s
	}
	first, second := spec(all-1<<30), spec(1<<30)
	_, err := m.Ensure(t.Context(), first)
	require.NoError(t, err)
	for _, over := range []*nodev1.JailSpec{spec(2 << 30), func() *nodev1.JailSpec { s := proto.CloneOf(first); s.MemoryBytes = all + 1; return s }()} {
		_, err = m.Ensure(t.Context(), over)
		require.True(t, fault.Is(err, fault.Exhausted) || fault.Is(err, fault.Precondition), "%v", err)
		require.ErrorContains(t, err, "memory_bytes is")
	}
	_, err = m.Ensure(t.Context(), second)
	require.NoError(t, err)
	third := spec(1 << 30)
	_, err = m.Ensure(t.Context(), third)
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.ErrorContains(t, err, "max-jails-overcommit")
	_, err = m.Stop(t.Context(), second.GetJailId())
	require.NoError(t, err)
	_, err = m.Ensure(t.Context(), third)
	require.NoError(t, err, "a jail that is stopped needs no memory")
}

func TestAFolderThatSpeaksIsNotShown(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/opt", "deckhand-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	cfg := jailtest.Config(t)
	cfg.ShowPaths = []string{dir}
	m := jailtest.Manager(t, cfg)
	for _, name := range []string{"files", "socket", "pipe"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "below"), 0o755))
	}
	require.NoError(t, os.Symlink("socket", filepath.Join(dir, "link")))
	l, err := net.Listen("unix", filepath.Join(dir, "socket", "below", "s"))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe", "p"), 0o666))
	for _, name := range []string{"socket", "pipe", "link", "socket/below", ""} {
		spec := jailtest.Spec(ident.New("jail"))
		spec.ReadOnlyPaths = []string{filepath.Join(dir, name)}
		_, err := m.Ensure(t.Context(), spec)
		require.Equal(t, fault.SandboxViolation, fault.As(err).Code, "%s: %v", name, err)
		require.ErrorContains(t, err, "used to communicate with the machine")
	}
	spec := jailtest.Spec(ident.New("jail"))
	spec.ReadOnlyPaths = []string{filepath.Join(dir, "files")}
	_, err = m.Ensure(t.Context(), spec)
	require.NoError(t, err)
}

func TestAManagerSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	t.Run("containerd", func(t *testing.T) {
		cfg := jailtest.Config(t)
		cfg.Containerd = filepath.Join(cfg.DataDir, "nothing.sock")
		_, err := jail.NewManager(t.Context(), cfg)
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
		require.ErrorContains(t, err, cfg.Containerd)
	})
	t.Run("a way to its data folder", func(t *testing.T) {
		cfg := jailtest.Config(t)
		above := filepath.Join(cfg.DataDir, "closed")
		require.NoError(t, os.Mkdir(above, 0o700))
		cfg.DataDir = filepath.Join(above, "data")
		_, err := jail.NewManager(t.Context(), cfg)
		require.ErrorContains(t, err, "chmod o+x "+above)
	})
	t.Run("deckhand-init", func(t *testing.T) {
		cfg := jailtest.Config(t)
		cfg.InitPath = "/nowhere/deckhand-init"
		_, err := jail.NewManager(t.Context(), cfg)
		require.ErrorContains(t, err, "/nowhere/deckhand-init")
	})
}

// A release of deckhand-init stays for as long as a jail runs it.
func TestAnOldInitGoesOnceNoJailRunsIt(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	releases := func() (out []string) {
		dirs, err := os.ReadDir(filepath.Join(cfg.DataDir, "init"))
		require.NoError(t, err)
		for _, dir := range dirs {
			// Beside them is deckhand-skill.
			if _, err := os.Stat(filepath.Join(cfg.DataDir, "init", dir.Name(), initbin.Init)); err == nil {
				out = append(out, dir.Name())
			}
		}
		return out
	}
	older, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	id := ensure(t, older)
	before := releases()
	require.Len(t, before, 1)
	require.NoError(t, older.Close())

	// Another release: a program's end may be followed by anything.
	raw, err := os.ReadFile(cfg.InitPath)
	require.NoError(t, err)
	cfg.InitPath = filepath.Join(cfg.DataDir, "newer-init")
	require.NoError(t, os.WriteFile(cfg.InitPath, append(raw, "newer"...), 0o755))
	newer, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	require.Subset(t, releases(), before, "a jail runs it")
	require.Len(t, releases(), 2)
	_, text := sh(t, newer, id, "echo adopted")
	require.Equal(t, "adopted\n", text)
	_, err = newer.Stop(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, newer.Close())

	last := jailtest.Manager(t, cfg)
	require.Len(t, releases(), 1)
	require.NotSubset(t, releases(), before)
	_, err = last.Ensure(t.Context(), jailtest.Spec(id))
	require.NoError(t, err)
	_, text = sh(t, last, id, "echo again")
	require.Equal(t, "again\n", text)
}

// A jail without a hard workspace says so.
func TestASoftWorkspaceSaysSo(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	cfg.SoftWorkspaces = true
	m := jailtest.Manager(t, cfg)
	one, err := m.Ensure(t.Context(), jailtest.Spec(ident.New("jail")))
	require.NoError(t, err)
	require.False(t, one.GetWorkspaceLimitHard())
	dir, err := m.Workspace(one.GetJailId())
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	uid, gid := m.Owner(one.GetJailId())
	require.EqualValues(t, uid, st.Uid)
	require.EqualValues(t, gid, st.Gid)
}
