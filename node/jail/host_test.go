package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func hostSpec() *nodev1.JailSpec {
	return &nodev1.JailSpec{JailId: jail.HostID, Rootfs: jail.RootMachine}
}

// H10: nobody reaches the machine by a name.
func TestHostModeIsForThoseWhoSaySo(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	server := jail.NewServer(m)
	for name, tc := range map[string]struct {
		req  *nodev1.EnsureJailRequest
		kind fault.Kind
		says string
	}{
		"the machine without the word":      {&nodev1.EnsureJailRequest{Spec: hostSpec()}, fault.Denied, "host_mode is not set"},
		"the machine under another id":      {&nodev1.EnsureJailRequest{Spec: &nodev1.JailSpec{JailId: "jail_x", Rootfs: "machine"}}, fault.Denied, "host_mode is not set"},
		"the word for a jail":               {&nodev1.EnsureJailRequest{Spec: jailtest.Spec("jail_x"), HostMode: true}, fault.Invalid, "leave host_mode unset"},
		"the word with another id":          {&nodev1.EnsureJailRequest{Spec: &nodev1.JailSpec{JailId: "jail_x", Rootfs: "machine"}, HostMode: true}, fault.Invalid, "host mode is jail_id"},
		"the machine's name for a jail":     {&nodev1.EnsureJailRequest{Spec: jailtest.Spec(jail.HostID)}, fault.Invalid, "kept for the machine"},
		"the machine's name for an id only": {&nodev1.EnsureJailRequest{Spec: &nodev1.JailSpec{JailId: "host"}}, fault.Invalid, "kept for the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := server.EnsureJail(t.Context(), tc.req)
			e := fault.As(fault.FromGRPC(err))
			require.NotNil(t, e, "%v", err)
			require.Equal(t, tc.kind, e.Kind, "%v", e)
			require.Contains(t, e.Error(), tc.says)
		})
	}
	_, err := m.Init(t.Context(), jail.HostID)
	require.True(t, fault.Is(err, fault.NotFound), "nothing was made: %v", err)

	cfg.NoHostMode = true
	closed, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer closed.Close()
	_, err = closed.EnsureHost(t.Context(), hostSpec())
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.ErrorContains(t, err, "--no-host-mode")
}

// H10: commands run as root on the machine itself, their output and ends are
// kept like those of a jail, and they outlive the daemon.
func TestHostModeRunsOnTheMachineAndOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	one, err := m.EnsureHost(t.Context(), hostSpec())
	require.NoError(t, err)
	require.True(t, one.GetHostMode())
	again, err := m.EnsureHost(t.Context(), hostSpec())
	require.NoError(t, err)
	require.Equal(t, one.GetPid(), again.GetPid())

	mark := filepath.Join(cfg.DataDir, "mark")
	status, text := sh(t, m, jail.HostID, "id -u; pwd; echo $HOME $USER; echo was here > "+mark+"; readlink /proc/self/ns/pid; exit 4")
	require.EqualValues(t, 4, status.GetExitCode())
	ns, err := os.Readlink("/proc/self/ns/pid")
	require.NoError(t, err)
	require.Equal(t, "0\n/root\n/root root\n"+ns+"\n", text)
	require.FileExists(t, mark)
	info, err := os.Stat(stateOf(cfg, jail.HostID))
	require.NoError(t, err)
	require.Equal(t, 0o700|os.ModeDir, info.Mode())
	require.Zero(t, info.Sys().(*syscall.Stat_t).Uid)
	_, err = m.Workspace(jail.HostID)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	all, err := m.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)

	long := begin(t, m, jail.HostID, "echo begun; sleep 3141; echo no")
	until(t, m, jail.HostID, long, "begun")
	next, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer next.Close()
	adopted, err := next.EnsureHost(t.Context(), hostSpec())
	require.NoError(t, err)
	require.Equal(t, one.GetPid(), adopted.GetPid())
	members, err := next.Processes(t.Context(), jail.HostID)
	require.NoError(t, err)
	require.Len(t, members, 4, "init, stub, shell, sleep")
	require.NotContains(t, members, os.Getpid())
	cgroups := hostCgroups(t, members)
	require.NotEmpty(t, cgroups)

	stopped, err := next.Stop(t.Context(), jail.HostID)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, stopped.GetState())
	requireGone(t, members)
	for _, path := range cgroups {
		left, err := filepath.Glob("/sys/fs/cgroup/*" + path)
		require.NoError(t, err)
		require.Empty(t, left, "no cgroup is left")
	}
	dir, err := next.OpenExec(jail.HostID, long)
	require.NoError(t, err)
	defer dir.Close()
	_, err = dir.Stat("exit")
	require.NoError(t, err, "its end is on disk")
}

// H10: the whole tree is known, whatever it does: two forks away in a session
// of its own is still inside.
func TestTheWholeTreeOfHostModeIsKnown(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	one, err := m.EnsureHost(t.Context(), hostSpec())
	require.NoError(t, err)
	escape := begin(t, m, jail.HostID, "setsid sh -c 'setsid sleep 2718 & echo away' & sleep 2719")
	until(t, m, jail.HostID, escape, "away")
	eventually(t, func() bool {
		members, err := m.Processes(t.Context(), jail.HostID)
		return err == nil && withCommand(members, "sleep 2718") == 1
	}, "a process that had gone away")
	thaw, err := m.Freeze(t.Context(), jail.HostID)
	require.NoError(t, err)
	members, err := m.Processes(t.Context(), jail.HostID)
	require.NoError(t, err)
	require.Equal(t, 1, withCommand(members, "sleep 2718"))
	for _, pid := range members {
		if pid != int(one.GetPid()) {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	require.NoError(t, thaw())
	requireGone(t, remove(members, int(one.GetPid())))
}

// Its init is PID 1 of nothing, so that the kernel ends nothing with it: who
// finds it dead does.
func TestNothingOutlivesTheInitOfHostMode(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, m *jail.Manager, cfg jail.Config){
		"the daemon finds it": func(t *testing.T, m *jail.Manager, _ jail.Config) {
			one, err := m.Get(t.Context(), jail.HostID)
			require.NoError(t, err)
			require.Equal(t, nodev1.JailState_JAIL_STATE_LOST, one.GetState())
		},
		"the next daemon finds it": func(t *testing.T, _ *jail.Manager, cfg jail.Config) {
			again, err := jail.NewManager(t.Context(), cfg)
			require.NoError(t, err)
			defer again.Close()
			one, err := again.Get(t.Context(), jail.HostID)
			require.NoError(t, err)
			require.Equal(t, nodev1.JailState_JAIL_STATE_LOST, one.GetState())
			_, err = again.EnsureHost(t.Context(), hostSpec())
			require.NoError(t, err)
			_, text := sh(t, again, jail.HostID, "echo back")
			require.Equal(t, "back\n", text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := jailtest.Config(t)
			m := jailtest.Manager(t, cfg)
			one, err := m.EnsureHost(t.Context(), hostSpec())
			require.NoError(t, err)
			script := begin(t, m, jail.HostID, "echo begun; sleep 1618")
			until(t, m, jail.HostID, script, "begun")
			members, err := m.Processes(t.Context(), jail.HostID)
			require.NoError(t, err)
			conn, err := m.Init(t.Context(), jail.HostID)
			require.NoError(t, err)
			require.NoError(t, unix.Kill(int(one.GetPid()), unix.SIGKILL))
			<-conn.Closed
			next(t, m, cfg)
			requireGone(t, members)
		})
	}
}

// requireGone waits for processes to end.
func requireGone(t *testing.T, pids []int) {
	t.Helper()
	eventually(t, func() bool {
		for _, pid := range pids {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !strings.Contains(string(raw), ") Z ") {
				return false
			}
		}
		return true
	}, "an end of all of %v", pids)
}

func withCommand(pids []int, cmdline string) (n int) {
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " ") == cmdline {
			n++
		}
	}
	return n
}

func remove(pids []int, one int) (out []int) {
	for _, pid := range pids {
		if pid != one {
			out = append(out, pid)
		}
	}
	return out
}

// hostCgroups answers the cgroups of host mode that processes are in.
func hostCgroups(t *testing.T, members []int) (out []string) {
	t.Helper()
	for _, pid := range members {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); err == nil {
			for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
				if strings.Contains(line, "deckhand-host-") {
					out = append(out, strings.SplitN(line, ":", 3)[2])
				}
			}
		}
	}
	return out
}

// Lifecycle: a jail that nobody uses is stopped, and woken without loss.
func TestAnIdleJailIsStoppedAndWokenWithoutLoss(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	now := time.Now()
	cfg.Now = func() time.Time { return now }
	cfg.IdleStop = 10 * time.Minute
	m := jailtest.Manager(t, cfg)
	idle, busy := jailtest.Spec(ident.New("idle")), jailtest.Spec(ident.New("busy"))
	for _, spec := range []*nodev1.JailSpec{idle, busy} {
		_, err := m.Ensure(t.Context(), spec)
		require.NoError(t, err)
	}
	_, text := sh(t, m, idle.GetJailId(), "echo kept > /workspace/kept; echo said")
	require.Equal(t, "said\n", text)
	work := begin(t, m, busy.GetJailId(), "echo begun; while [ ! -e go ]; do sleep 0.01; done")
	until(t, m, busy.GetJailId(), work, "begun")
	state := func(id string) nodev1.JailState {
		one, err := m.Get(t.Context(), id)
		require.NoError(t, err)
		return one.GetState()
	}
	now = now.Add(9 * time.Minute)
	require.NoError(t, m.Tidy(t.Context()))
	require.Equal(t, running, state(idle.GetJailId()), "too early")
	now = now.Add(2 * time.Minute)
	_, err := m.Cgroup(t.Context(), idle.GetJailId())
	require.NoError(t, err, "to be looked at is not to be used")
	require.NoError(t, m.Tidy(t.Context()))
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, state(idle.GetJailId()))
	require.Equal(t, running, state(busy.GetJailId()), "a command lives in it")

	_, err = m.Ensure(t.Context(), idle)
	require.NoError(t, err)
	_, text = sh(t, m, idle.GetJailId(), "cat kept")
	require.Equal(t, "kept\n", text)

	// Its last command ends: from then on it is idle.
	sh(t, m, busy.GetJailId(), "touch go")
	conn, err := m.Init(t.Context(), busy.GetJailId())
	require.NoError(t, err)
	_, err = conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: work})
	require.NoError(t, err)
	now = now.Add(11 * time.Minute)
	require.NoError(t, m.Tidy(t.Context()))
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, state(busy.GetJailId()))
}

func TestAKeeperLooksByItself(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	cfg.IdleStop = 20 * time.Millisecond
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	k := jail.NewKeeper(m)
	require.NoError(t, k.Start(t.Context()))
	<-conn.Closed
	k.Stop()
	require.NoError(t, k.Err())
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
}

// H1: a drained node goes on with what it has, and takes nothing new, whoever
// restarts its daemon.
func TestADrainOutlastsTheDaemon(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	spec := jailtest.Spec(ident.New("jail"))
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	require.NoError(t, m.Accepting())
	require.NoError(t, m.SetDrain(jail.Drain{Draining: true, Reason: "new disks"}))

	next, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer next.Close()
	for _, m := range []*jail.Manager{m, next} {
		_, err = m.Ensure(t.Context(), spec)
		require.NoError(t, err, "it is there")
		_, err = m.Ensure(t.Context(), jailtest.Spec(ident.New("jail")))
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
		require.ErrorContains(t, err, "new disks")
		require.Error(t, m.Accepting())
		_, err = m.EnsureHost(t.Context(), hostSpec())
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	}
	require.NoError(t, next.SetDrain(jail.Drain{}))
	require.NoError(t, next.SetDrain(jail.Drain{}), "ending it again changes nothing")
	require.NoError(t, next.Accepting())
	_, err = next.Ensure(t.Context(), jailtest.Spec(ident.New("jail")))
	require.NoError(t, err)
}

// What was cut short in its making or removal is gone with the next daemon.
func TestAHalfMadeJailIsRemoved(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	workspace, err := m.Workspace(id)
	require.NoError(t, err)
	_, err = m.Stop(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(cfg.DataDir, "jails", id, "record")))
	again, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	require.NoDirExists(t, filepath.Join(cfg.DataDir, "jails", id))
	require.NoDirExists(t, workspace)
}
