package jail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// counts prints numbers forever.
const counts = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.005; done"

// requireWhole says that a log of counts has every number up to its end.
func requireWhole(t *testing.T, log string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	for i, line := range lines {
		require.Equal(t, strconv.Itoa(i+1), line)
	}
}

// When containerd dies, jails continue; what needs it is refused with what to
// do, and works again once it is back.
func TestJailsGoOnWithoutContainerd(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	// Of its own: the shared one has jails of other tests.
	dir := filepath.Join(jailtest.Dir(t), "ctr")
	own, err := containerd.Config{DataDir: dir}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, own.Start(context.WithoutCancel(t.Context())))
	cfg.Containerd = own.Address()
	var back *containerd.Daemon
	t.Cleanup(func() { back.Stop() })
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	count := begin(t, m, id, counts)
	until(t, m, id, count, "10\n")

	require.NoError(t, unix.Kill(own.PID(), unix.SIGKILL))
	<-own.Done()
	require.False(t, containerd.Running(own.Address()))
	at := len(output(t, m, id, count))
	eventually(t, func() bool { return len(output(t, m, id, count)) > at+100 }, "more output")
	status, text := sh(t, m, id, "echo started without containerd")
	require.Zero(t, status.GetExitCode())
	require.Equal(t, "started without containerd\n", text)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, running, one.GetState())
	_, err = m.Ensure(t.Context(), jailtest.Spec(ident.New("jail")))
	require.Error(t, err)

	back, err = containerd.Config{DataDir: dir}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, back.Start(context.WithoutCancel(t.Context())))
	again := jailtest.Spec(ident.New("jail"))
	eventually(t, func() bool { _, err = m.Ensure(t.Context(), again); return err == nil }, "a way back to containerd")
	after, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, one.GetPid(), after.GetPid())
	_, err = m.Stop(t.Context(), id)
	require.NoError(t, err, "it is found again, and ended in order")
	requireWhole(t, output(t, m, id, count))
}

// A jail that was to be stopped while containerd was away is stopped when that
// is back, though its record says already that it is.
func TestAJailIsStoppedThoughContainerdWasAway(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	now := time.Now()
	cfg.Now = func() time.Time { return now }
	cfg.IdleStop = 10 * time.Minute
	dir := filepath.Join(jailtest.Dir(t), "ctr")
	begin := func() *containerd.Daemon {
		own, err := containerd.Config{DataDir: dir}.Complete(t.Context())
		require.NoError(t, err)
		require.NoError(t, own.Start(context.WithoutCancel(t.Context())))
		return own
	}
	own := begin()
	cfg.Containerd = own.Address()
	t.Cleanup(func() { own.Stop() })
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	members, err := m.Processes(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(own.PID(), unix.SIGKILL))
	<-own.Done()
	now = now.Add(11 * time.Minute)
	require.Error(t, m.Tidy(t.Context()))
	own = begin()
	eventually(t, func() bool { return m.Tidy(t.Context()) == nil }, "a way back to containerd")
	requireGone(t, members)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
}

// A containerd that dies while it makes a jail leaves nothing that stands in the
// way of making it again: not even a half-made folder of a task, which only the
// next containerd that starts would remove.
func TestAJailIsMadeThoughContainerdDiesMeanwhile(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	dir := filepath.Join(jailtest.Dir(t), "ctr")
	var own *containerd.Daemon
	begin := func() {
		var err error
		own, err = containerd.Config{DataDir: dir}.Complete(t.Context())
		require.NoError(t, err)
		require.NoError(t, own.Start(context.WithoutCancel(t.Context())))
	}
	begin()
	t.Cleanup(func() { own.Stop() })
	cfg.Containerd = own.Address()
	m := jailtest.Manager(t, cfg)
	warm := jailtest.Spec(ident.New("jail"))
	since := time.Now()
	_, err := m.Ensure(t.Context(), warm)
	require.NoError(t, err)
	const moments = 12
	step := time.Since(since) / moments
	for n := range moments {
		spec := jailtest.Spec(ident.New("jail"))
		made := make(chan error, 1)
		go func() {
			_, err := m.Ensure(t.Context(), spec)
			made <- err
		}()
		// A moment in the making is all that there is to wait for.
		<-time.After(time.Duration(n) * step)
		require.NoError(t, unix.Kill(own.PID(), unix.SIGKILL))
		<-own.Done()
		begin()
		<-made
		eventually(t, func() bool { _, err = m.Ensure(t.Context(), spec); return err == nil }, "jail %d, killed after %s", n, time.Duration(n)*step)
		_, err = m.Stop(t.Context(), spec.GetJailId())
		require.NoError(t, err)
	}
}

// endless is a task whose end containerd does not see, as one that was killed
// while it made the task: whoever waits for the end waits forever.
type endless struct{ client.Task }

// Delete kills what the task runs, and waits forever.
func (e endless) Delete(ctx context.Context, _ ...client.ProcessDeleteOpts) (*client.ExitStatus, error) {
	exited, err := e.Wait(ctx)
	if err == nil {
		err = e.Kill(ctx, unix.SIGKILL)
	}
	if err != nil {
		return nil, err
	}
	<-exited
	<-ctx.Done()
	return nil, ctx.Err()
}

// A task whose end containerd never tells is deleted without waiting for it, and
// its jail can be made again.
func TestATaskWhoseEndIsLostIsDeleted(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	id := spec.GetJailId()
	members, err := m.Processes(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, m.DeleteTask(t.Context(), id, func(task client.Task) client.Task { return endless{task} }))
	requireGone(t, members)
	err = m.DeleteTask(t.Context(), id, func(task client.Task) client.Task { return task })
	require.ErrorIs(t, err, errdefs.ErrNotFound, "containerd has it no more")
	require.NoError(t, m.Tidy(t.Context()))
	_, err = m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	status, _ := sh(t, m, id, "exit 6")
	require.EqualValues(t, 6, status.GetExitCode())
}

// A jail whose shim dies is lost: its processes are ended, its log is whole, and
// it can be made again.
func TestADeadShimLosesTheJailAndNoLog(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	id := spec.GetJailId()
	count := begin(t, m, id, counts)
	until(t, m, id, count, "10\n")
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	members, err := m.Processes(t.Context(), id)
	require.NoError(t, err)
	shim := parent(t, int(one.GetPid()))
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim))
	require.NoError(t, err)
	require.Contains(t, string(name), "containerd-shim")
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)

	require.NoError(t, unix.Kill(shim, unix.SIGKILL))
	select {
	case <-conn.Closed:
	case <-time.After(waittest.Limit(20 * time.Second)):
		require.FailNow(t, "its init goes on")
	}
	requireGone(t, members)
	eventually(t, func() bool {
		one, err := m.Get(t.Context(), id)
		return err == nil && one.GetState() == nodev1.JailState_JAIL_STATE_LOST
	}, "a lost jail")
	_, err = m.Init(t.Context(), id)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	requireWhole(t, output(t, m, id, count))
	require.NoError(t, m.Tidy(t.Context()), "what is left of it is cleared")
	_, err = m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	status, _ := sh(t, m, id, "exit 6")
	require.EqualValues(t, 6, status.GetExitCode())
	requireWhole(t, output(t, m, id, count))
}

// Nothing that a jail had outlives its init.
func TestADeadInitEndsAllThatItStarted(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	id := ensure(t, m)
	count := begin(t, m, id, "setsid sh -c '"+counts+"' & sleep 4321")
	until(t, m, id, count, "10\n")
	members, err := m.Processes(t.Context(), id)
	require.NoError(t, err)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(int(one.GetPid()), unix.SIGKILL))
	<-conn.Closed
	requireGone(t, members)
	eventually(t, func() bool {
		one, err := m.Get(t.Context(), id)
		return err == nil && one.GetState() == nodev1.JailState_JAIL_STATE_LOST
	}, "a lost jail")
	requireWhole(t, output(t, m, id, count))
	_, err = conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: count})
	require.Error(t, err)
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	ppid, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return ppid
}
