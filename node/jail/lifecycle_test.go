package jail_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	k := jail.NewReaper(m)
	require.NoError(t, k.Start(t.Context()))
	<-conn.Closed
	k.Stop()
	require.NoError(t, k.Err())
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
}

// A drained node continues with what it has, and takes nothing new, whoever
// restarts its daemon.
func TestADrainOutlastsTheDaemon(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	spec := jailtest.Spec(ident.New("jail"))
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	asleep := jailtest.Spec(ident.New("jail"))
	_, err = m.Ensure(t.Context(), asleep)
	require.NoError(t, err)
	require.NoError(t, m.SetDrain(jail.Drain{Draining: true, Reason: "new disks"}))

	next, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer next.Close()
	for _, m := range []*jail.Manager{m, next} {
		_, err = m.Ensure(t.Context(), spec)
		require.NoError(t, err, "it is there")
		status, _ := sh(t, m, spec.GetJailId(), "exit 3")
		require.EqualValues(t, 3, status.GetExitCode(), "and goes on")
		_, err = m.Stop(t.Context(), asleep.GetJailId())
		require.NoError(t, err)
		_, err = m.Ensure(t.Context(), asleep)
		require.NoError(t, err, "who works in it may have slept")
		_, err = m.Ensure(t.Context(), jailtest.Spec(ident.New("jail")))
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
		require.ErrorContains(t, err, "new disks")
		_, err = m.EnsureHost(t.Context(), hostSpec())
		require.NoError(t, err, "people may work there")
	}
	require.NoError(t, next.SetDrain(jail.Drain{}))
	require.NoError(t, next.SetDrain(jail.Drain{}), "ending it again changes nothing")
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

// What the runtime makes behind containerd's back, because whoever asked died, is
// ended and removed; what is another containerd's is left alone.
func TestWhatTheRuntimeLeftIsRemoved(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	pattern := filepath.Join("/sys/fs/cgroup", "*", cfg.Namespace)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		pattern = filepath.Join("/sys/fs/cgroup", cfg.Namespace)
	}
	parents, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, parents, "the live jail has some")
	live, err := filepath.Glob(filepath.Join(pattern, "ctr_*"))
	require.NoError(t, err)

	sleeper := exec.Command("sleep", "600")
	require.NoError(t, sleeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	name, others := ident.New("ctr"), ident.New("ctr")
	// Processes that look like shims: of a container that containerd does not have,
	// and of another containerd, with a namespace of the same name.
	shim := filepath.Join(t.TempDir(), "containerd-shim-runc-v2")
	require.NoError(t, os.WriteFile(shim, []byte("#!/bin/sh\nread forever\n"), 0o755)) //nolint:gosec // it is run
	play := func(id, address string) *exec.Cmd {
		cmd := exec.Command(shim, "-namespace", cfg.Namespace, "-id", id, "-address", address) //nolint:gosec // of this test
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = in.Close() })
		return cmd
	}
	left, foreign := play(name, cfg.Containerd), play(others, "/run/another/containerd.sock")
	for _, parent := range parents {
		require.NoError(t, os.Mkdir(filepath.Join(parent, others), 0o755)) //nolint:gosec // as the runtime makes it
		t.Cleanup(func() { _ = os.Remove(filepath.Join(parent, others)) })
	}
	for _, parent := range parents {
		dir := filepath.Join(parent, name, "inner")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		if strings.Contains(parent, "/cpuset/") {
			continue // has no processors yet, so nobody may join
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0))
	}
	eventually(t, func() bool {
		require.NoError(t, m.Tidy(t.Context()))
		left, err := filepath.Glob(filepath.Join(pattern, name))
		require.NoError(t, err)
		return len(left) == 0
	}, "the cgroups to be gone")
	require.EqualError(t, <-ended, "signal: killed")
	require.EqualError(t, left.Wait(), "signal: killed")
	require.NoError(t, foreign.Process.Signal(unix.Signal(0)), "another containerd's runs on")
	after, err := filepath.Glob(filepath.Join(pattern, "ctr_*"))
	require.NoError(t, err)
	require.Len(t, after, len(live)+len(parents), "those of the live jail stay, and another containerd's")
	require.Subset(t, after, live)
	require.NoError(t, foreign.Process.Kill())
	_ = foreign.Wait()
	status, _ := sh(t, m, id, "true")
	require.Zero(t, status.GetExitCode())
}
