package child_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a shell that says it is ready by making a file in $1.
func daemon(dir, script string) child.Config {
	return child.Config{
		Name: "daemon", StateDir: dir, Path: "/bin/sh", Env: []string{"PATH=/usr/bin:/bin"},
		Args:        []string{"-c", `trap 'exit 0' TERM; ` + script, "daemon", dir},
		StopTimeout: 10 * time.Second,
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err
		},
	}
}

const serve = `touch "$1/ready"; while :; do sleep 0.05; done`

func TestProcessIsReadyWhenStartAnswersAndGoneWhenStopDoes(t *testing.T) {
	t.Parallel()
	p := child.New(daemon(t.TempDir(), serve))
	require.NoError(t, p.Start(t.Context()))
	pid := p.PID()
	require.NoError(t, syscall.Kill(pid, 0))
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	require.Zero(t, errno)
	require.EqualValues(t, pid, sid, "a session of its own: Ctrl-C does not reach it")
	p.Stop()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoError(t, p.Err())

	require.NoError(t, p.Start(t.Context()), "a stopped one starts again")
	p.Stop()
}

func TestProcessThatEndsBeforeItIsReadySaysWhatItsLogSays(t *testing.T) {
	t.Parallel()
	p := child.New(daemon(t.TempDir(), `echo no room at the inn >&2; exit 3`))
	err := p.Start(t.Context())
	require.ErrorContains(t, err, "start daemon: exit status 3")
	require.ErrorContains(t, err, "no room at the inn")
}

func TestProcessThatNeverGetsReadyIsStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := daemon(dir, `while :; do sleep 0.05; done`)
	cfg.StartTimeout = 200 * time.Millisecond
	p := child.New(cfg)
	require.ErrorContains(t, p.Start(t.Context()), "not ready in time")
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
	require.NoFileExists(t, filepath.Join(dir, "daemon.pid"))
}

func TestProcessThatIgnoresItsSignalIsKilled(t *testing.T) {
	t.Parallel()
	cfg := daemon(t.TempDir(), `trap '' TERM; `+serve)
	cfg.StopTimeout = 100 * time.Millisecond
	p := child.New(cfg)
	require.NoError(t, p.Start(t.Context()))
	p.Stop()
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
}

func TestProcessOfAnotherParentIsAdopted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := child.New(daemon(dir, serve))
	require.NoError(t, first.Start(t.Context()))
	t.Cleanup(first.Stop)
	require.False(t, first.Adopted())

	second := child.New(daemon(dir, serve))
	require.NoError(t, second.Start(t.Context()))
	require.True(t, second.Adopted())
	require.Equal(t, first.PID(), second.PID())
	second.Stop()
	require.ErrorIs(t, syscall.Kill(first.PID(), 0), syscall.ESRCH)
	<-first.Done()
	require.ErrorContains(t, first.Err(), "ended by itself")
}

func TestPidFileNeverLeadsToAStranger(t *testing.T) {
	t.Parallel()
	stranger := exec.Command("sleep", "60")
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	id, err := child.Of(stranger.Process.Pid)
	require.NoError(t, err)
	require.True(t, id.Alive())

	stat := func(pid int, start uint64) string {
		return fmt.Sprintf("%d (a) b)) S%s%d 0 0\n", pid, strings.Repeat(" 0", 18)+" ", start)
	}
	for name, text := range map[string]string{
		"an older process of the same pid": id.BootID + "\n" + stat(id.PID, id.Start-1),
		"the same numbers in another boot": "another-boot\n" + stat(id.PID, id.Start),
		"a file that was cut short":        strings.TrimSuffix(id.BootID+"\n"+stat(id.PID, id.Start), "\n"),
		"an empty file":                    "",
		"nonsense":                         "1\n2\n3\n",
		"pid 0":                            id.BootID + "\n" + stat(0, id.Start),
		"a negative pid":                   id.BootID + "\n" + stat(-1, id.Start),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.pid")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			got, err := child.Read(path)
			require.NoError(t, err)
			require.False(t, got.Alive())
		})
	}
	path := filepath.Join(t.TempDir(), "x.pid")
	require.NoError(t, os.WriteFile(path, []byte(id.BootID+"\n"+stat(id.PID, id.Start)), 0o600))
	got, err := child.Read(path)
	require.NoError(t, err)
	require.Equal(t, id, got)
}

func TestStartThatIsCancelledStopsTheProcess(t *testing.T) {
	t.Parallel()
	cfg := daemon(t.TempDir(), `while :; do sleep 0.05; done`)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Ready = func(context.Context) error { cancel(); return context.Canceled }
	p := child.New(cfg)
	require.ErrorIs(t, p.Start(ctx), context.Canceled)
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
}
