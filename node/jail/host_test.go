package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func hostSpec() *nodev1.JailSpec {
	return &nodev1.JailSpec{JailId: jail.HostID, Rootfs: nodelink.RootMachine}
}

// Nobody reaches the machine by a name.
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

// Commands run as root on the machine itself, their output and ends are
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
	require.GreaterOrEqual(t, len(members), 4, "init, stub, shell, sleep, and stubs that wait")
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

// The whole tree is known, whatever it does: two forks away in a session
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

// hostCgroups returns the cgroups of host mode that processes are in.
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
