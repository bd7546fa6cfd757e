package jail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// eventually waits for something that only the kernel knows.
func eventually(t *testing.T, is func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, is, time.Minute, 5*time.Millisecond, "there never was "+fmt.Sprintf(what, args...))
}

// A tree that doubles itself as fast as it can is known whole while its jail is
// frozen, and gone when what was killed is thawed: the way to a truthful
// "members left: 0".
func TestWhatIsKilledInAFrozenJailIsGoneWhenItIsThawed(t *testing.T) {
	t.Parallel()
	m := jailtest.Manager(t, jailtest.Config(t))
	id := ensure(t, m)
	storm := begin(t, m, id, `echo storm; while :; do (sleep 0.02 & sleep 0.01 &); done`)
	until(t, m, id, storm, "storm")
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)

	thaw, err := m.Freeze(t.Context(), id)
	require.NoError(t, err)
	again, err := m.Freeze(t.Context(), id)
	require.NoError(t, err, "two may hold it")
	before, err := m.Processes(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, before, int(one.GetPid()), "init stands as well")
	require.Greater(t, len(before), 2)
	for _, pid := range before {
		if pid != int(one.GetPid()) {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	require.NoError(t, thaw())
	require.NoError(t, thaw(), "once is enough")
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	require.True(t, conn.Alive())
	require.NoError(t, again())
	eventually(t, func() bool {
		for _, pid := range before {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil && pid != int(one.GetPid()) {
				return false // a stub among them, whose end init has yet to see
			}
		}
		left, err := m.Processes(t.Context(), id)
		for _, pid := range left {
			line, gone := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			err = errors.Join(err, gone)
			if !strings.Contains(string(line), "deckhand-init") {
				return false
			}
		}
		return err == nil
	}, "init alone, with the stubs that wait in its memory")
	status, _ := sh(t, m, id, "exit 3")
	require.EqualValues(t, 3, status.GetExitCode(), "init serves on")
}

func TestAFrozenJailMakesNoStep(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id := ensure(t, m)
	count := begin(t, m, id, `i=0; while :; do i=$((i+1)); echo $i; done`)
	until(t, m, id, count, "100\n")
	thaw, err := m.Freeze(t.Context(), id)
	require.NoError(t, err)
	size := func() int64 {
		info, err := os.Stat(execDir(cfg, id, count) + "/data")
		require.NoError(t, err)
		return info.Size()
	}
	at := size()
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	silent, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = conn.Info(silent, nil)
	require.Error(t, err, "init stands still")
	require.Equal(t, at, size())
	require.NoError(t, thaw())
	eventually(t, func() bool { return size() > at }, "another line")
}

// A daemon that was killed while it held a jail frozen holds it no longer.
func TestTheNextDaemonThawsWhatTheLastOneFroze(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	id, other := ensure(t, m), ensure(t, m)
	for _, one := range []string{id, other} {
		_, err := m.Freeze(t.Context(), one)
		require.NoError(t, err)
	}
	again, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	defer again.Close()
	status, text := sh(t, again, id, "echo thawed")
	require.Zero(t, status.GetExitCode())
	require.Equal(t, "thawed\n", text)
	one, err := again.Stop(t.Context(), other)
	require.NoError(t, err, "one that is frozen can be stopped")
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, one.GetState())
	_, err = again.Freeze(t.Context(), other)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
}
