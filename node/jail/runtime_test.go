package jail_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// gvisor asks for a gVisor jail.
func gvisor(s *nodev1.JailSpec) { s.Runtime = "runsc" }

// ensureGVisor makes a gVisor jail, for a test of a machine that has runsc.
func ensureGVisor(t *testing.T, m *jail.Manager, change ...func(*nodev1.JailSpec)) string {
	t.Helper()
	if _, err := exec.LookPath("runsc"); err != nil {
		t.Skip("gVisor is not installed: apt-get install runsc")
	}
	return ensure(t, m, append(change, gvisor)...)
}

// A runtime that the machine lacks is refused with the package that has it,
// whatever the trust level: all have one path through the code.
func TestAMissingRuntimeIsRefusedWithItsPackage(t *testing.T) {
	path := jailtest.Dir(t)
	for _, program := range []string{"runc", "containerd-shim-runc-v2"} {
		at, err := exec.LookPath(program)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(at, filepath.Join(path, program)))
	}
	cfg := jailtest.Config(t)
	t.Setenv("PATH", path)
	m, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, []string{"runc"}, m.Runtimes())
	for runtime, says := range map[string]string{
		"runsc": "apt-get install runsc",
		"kata":  "kata-containers",
		"other": "choose a trust level",
	} {
		spec := jailtest.Spec(ident.New("jail"))
		spec.Runtime = runtime
		_, err := m.Ensure(t.Context(), spec)
		require.True(t, fault.Is(err, fault.Precondition), "%v", err)
		require.ErrorContains(t, err, `lacks the runtime "`+runtime+`"; it has: runc`)
		require.ErrorContains(t, err, says)
		_, err = m.Get(t.Context(), spec.GetJailId())
		require.True(t, fault.Is(err, fault.NotFound), "something of it was made: %v", err)
	}
}

func TestAPlatformThatGVisorLacksIsRefused(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	cfg.GVisorPlatform = "--root=/"
	_, err := jail.NewManager(t.Context(), cfg)
	require.ErrorContains(t, err, "none of systrap, ptrace and kvm")
}

// What an agent's commands can do and cannot, in one gVisor jail: whole trees,
// limits, holds and the boundary.
func TestAGVisorJailHoldsCommandsAsRuncDoes(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id := ensureGVisor(t, m, func(s *nodev1.JailSpec) { s.Pids = 40 })
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "runsc", one.GetRuntime())

	t.Run("a command has no rights and sees no other's", func(t *testing.T) {
		status, text := sh(t, m, id, `id -u; grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status | sort -u | head -2; uname -r
			touch /workspace/mine; cat /run/deckhand/execs 2>&1; mount -t tmpfs none /mnt 2>&1; touch /usr/x 2>&1; cat /proc/net/dev | grep -c :; exit 7`)
		require.EqualValues(t, 7, status.GetExitCode())
		require.Contains(t, text, "1000\n")
		require.Contains(t, text, "CapEff:\t0000000000000000")
		require.Contains(t, text, "/run/deckhand/execs: Permission denied")
		require.Contains(t, text, "touch: cannot touch '/usr/x'")
		require.NotContains(t, text, "eth0")
		release := new(unix.Utsname)
		require.NoError(t, unix.Uname(release))
		require.NotContains(t, text, unix.ByteSliceToString(release.Release[:]), "it is the machine's kernel")
		uid, _ := m.Owner(id)
		dir, err := m.Workspace(id)
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, "mine"), &st))
		require.EqualValues(t, uid, st.Uid, "the ids of the machine are not the jail's")
	})
	t.Run("an orphan belongs to its command", func(t *testing.T) {
		conn, err := m.Init(t.Context(), id)
		require.NoError(t, err)
		other := begin(t, m, id, "sleep 4444")
		execID := begin(t, m, id, "(setsid sh -c 'setsid sleep 5555 & exit' &); echo left; exit 4")
		eventually(t, func() bool {
			resp, err := conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: execID, TimeoutMs: -1})
			return err == nil && resp.GetStatus().GetLeaderExited()
		}, "an end of the command itself")
		resp, err := conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: execID, TimeoutMs: 200})
		require.NoError(t, err)
		require.False(t, resp.GetStatus().GetEnded(), "what it left behind runs")
		used, err := conn.Usage(t.Context(), &initv1.UsageRequest{ExecId: execID})
		require.NoError(t, err)
		require.EqualValues(t, 1, used.GetProcesses())
		require.Positive(t, used.GetMemoryBytes())
		killed, err := conn.Kill(t.Context(), &initv1.KillRequest{ExecId: execID, By: "test"})
		require.NoError(t, err)
		require.True(t, killed.GetStatus().GetEnded())
		require.EqualValues(t, 4, killed.GetStatus().GetExitCode())
		_, text := sh(t, m, id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
		require.NotContains(t, text, "5555")
		require.Contains(t, text, "sleep 4444", "another command's process went with it")
		_, err = conn.Kill(t.Context(), &initv1.KillRequest{ExecId: other, By: "test"})
		require.NoError(t, err)
	})
	t.Run("processes have a limit", func(t *testing.T) {
		execID := begin(t, m, id, "i=0; while [ $i -lt 160 ]; do i=$((i+1)); sleep 300 & echo $i; done 2>&1")
		until(t, m, id, execID, "Cannot fork")
		require.Contains(t, output(t, m, id, execID), "30\n")
		conn, err := m.Init(t.Context(), id)
		require.NoError(t, err)
		_, err = conn.Kill(t.Context(), &initv1.KillRequest{ExecId: execID, By: "test"})
		require.NoError(t, err)
	})
	t.Run("a hold stops commands and their clock", func(t *testing.T) {
		counting := begin(t, m, id, counts)
		until(t, m, id, counting, "10\n")
		_, err := m.FreezeFor(t.Context(), id, "person")
		require.NoError(t, err)
		at := output(t, m, id, counting)
		_, err = m.InitToStart(t.Context(), id)
		require.True(t, fault.Is(err, fault.Precondition), "%v", err)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, at, output(t, m, id, counting))
		_, err = m.ThawFor(t.Context(), id, "person")
		require.NoError(t, err)
		eventually(t, func() bool { return len(output(t, m, id, counting)) > len(at) }, "another line")
		requireWhole(t, output(t, m, id, counting))
	})
	t.Run("a moment's freeze stops all of it", func(t *testing.T) {
		counting := begin(t, m, id, counts)
		until(t, m, id, counting, "10\n")
		thaw, err := m.Freeze(t.Context(), id)
		require.NoError(t, err)
		at := output(t, m, id, counting)
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, at, output(t, m, id, counting))
		require.NoError(t, thaw())
		eventually(t, func() bool { return len(output(t, m, id, counting)) > len(at) }, "another line")
		_, err = m.Processes(t.Context(), id)
		require.ErrorContains(t, err, "the runtime runsc does not support it")
	})
	t.Run("ports are listed", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("no python3")
		}
		begin(t, m, id, `python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 4711)); time.sleep(300)'`)
		eventually(t, func() bool {
			ports, err := m.Ports(t.Context(), id)
			return err == nil && len(ports) == 1 && ports[0] == 4711
		}, "port 4711")
	})
	t.Run("a kill of everything takes less than two seconds", func(t *testing.T) {
		began := time.Now()
		execs, left, err := m.Kill(t.Context(), id, "test")
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*time.Second)
		require.Len(t, execs, 3)
		require.Zero(t, left)
		status, text := sh(t, m, id, "echo after")
		require.Zero(t, status.GetExitCode())
		require.Equal(t, "after\n", text)
	})
}

// Commands in a gVisor jail outlive the daemon and containerd's client, and the
// next daemon has them, with every line of their output.
func TestAGVisorJailOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id := ensureGVisor(t, m)
	before, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	count := begin(t, m, id, counts)
	until(t, m, id, count, "10\n")
	require.NoError(t, m.Close())
	at := len(output(t, m, id, count))
	eventually(t, func() bool { return len(output(t, m, id, count)) > at+20 }, "more output without a daemon")

	next, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer next.Close()
	after, err := next.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, running, after.GetState())
	require.Equal(t, before.GetPid(), after.GetPid())
	conn, err := next.Init(t.Context(), id)
	require.NoError(t, err)
	list, err := conn.List(t.Context(), &initv1.ListRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetStatuses(), 1)
	requireWhole(t, output(t, next, id, count))

	// One that was killed closes nothing: its successor finds the old bridge.
	third, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer third.Close()
	status, text := sh(t, third, id, "echo found again")
	require.Zero(t, status.GetExitCode())
	require.Equal(t, "found again\n", text)
	<-conn.Closed

	one, err := third.Stop(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
	require.FileExists(t, execDir(cfg, id, count)+"/exit", "the command's end is recorded")
	require.False(t, strings.HasSuffix(output(t, third, id, count), "\n\n"))
}

// The table in the documentation is the one in the code.
func TestTheDocumentedDifferencesAreTheOnesInTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/runtimes.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "| subject | `runc` | `runsc` |\n|---|---|---|\n")
	require.True(t, ok, "docs/runtimes.md has no table of differences")
	table, _, _ := strings.Cut(rest, "\n\n")
	var rows []string
	for _, d := range jail.Differences() {
		rows = append(rows, "| "+d.Subject+" | "+d.Runc+" | "+d.OwnKernel+" |")
	}
	require.Equal(t, strings.Join(rows, "\n"), table)
}

// Root in a jail needs a namespace that init is not in.
func TestRootIsRefusedOnGVisor(t *testing.T) {
	t.Parallel()
	m, _, r := withRegistry(t)
	use := from(t, m, r, imagetest.Busybox(t))
	id := ensureGVisor(t, m, use, func(s *nodev1.JailSpec) { s.WritableRoot = true })
	_, err := m.Ensure(t.Context(), change(use, ofRoot, gvisor))
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.Contains(t, fault.As(err).Fix, "trust: trusted")

	_, text := sh(t, m, id, "cat /proc/version; touch /etc/x 2> /dev/null || echo not mine; cat /etc/hosts | head -n 1")
	require.Contains(t, text, "not mine\n127.0.0.1")
}

// What a gVisor jail shows of the machine cannot be written to, whatever its mode, nor what
// is mounted below it.
func TestAGVisorJailShowsFoldersReadOnly(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/opt", "deckhand-")
	require.NoError(t, err)
	below := filepath.Join(dir, "below")
	require.NoError(t, os.Mkdir(below, 0o755))
	require.NoError(t, unix.Mount("tmpfs", below, "tmpfs", 0, "mode=1777"))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(below, unix.MNT_DETACH))
		require.NoError(t, os.RemoveAll(dir))
	})
	require.NoError(t, os.Chmod(dir, 0o777))
	for _, at := range []string{dir, below} {
		require.NoError(t, os.WriteFile(filepath.Join(at, "file"), []byte("kept"), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(at, "file"), 0o666))
	}
	cfg := jailtest.Config(t)
	cfg.ShowPaths = []string{dir}
	m := jailtest.Manager(t, cfg)
	id := ensureGVisor(t, m, func(s *nodev1.JailSpec) { s.ReadOnlyPaths = []string{dir} })
	_, text := sh(t, m, id, "cat "+dir+"/file "+below+"/file; for d in "+dir+" "+below+"; do echo changed > $d/file; echo new > $d/new; chmod 777 $d/file; rm -f $d/file; mv $d/file $d/moved; ln $d/file $d/link; done")
	require.Contains(t, text, "keptkept")
	for _, at := range []string{dir, below} {
		raw, err := os.ReadFile(filepath.Join(at, "file"))
		require.NoError(t, err)
		require.Equal(t, "kept", string(raw))
		entries, err := os.ReadDir(at)
		require.NoError(t, err)
		for _, entry := range entries {
			require.Contains(t, []string{"file", "below"}, entry.Name())
		}
	}
}
