package snapshot_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// envVictim makes this test's program a daemon that undoes or looks, and is
// killed: the machine's folder, what to do, and at which moment; "-" for a
// moment that is not its own choice.
const envVictim = "DECKHAND_TEST_SNAPSHOT_VICTIM"

func TestMain(m *testing.M) {
	if text := os.Getenv(envVictim); text != "" {
		victim(strings.Split(text, ","))
	}
	goleak.VerifyTestMain(m)
}

func victim(args []string) {
	m := &machine{top: args[0]}
	cfg := m.config()
	cfg.At = func(moment string) {
		if moment == args[2] {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	s, err := snapshot.New(cfg)
	fail(err)
	fail(s.Start(ctx))
	fmt.Println("begins")
	switch args[1] {
	case "undo":
		_, err = s.UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: jailID, OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{"step_1"}},
		})
		fail(err)
	case "undo on the machine":
		_, err = s.UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: m.hostID(), OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{"step_1"}},
		})
		fail(err)
	case "look":
		s.End(ctx, jailID, "step_1", true)
	}
	fmt.Println("ended")
	select {}
}

// kill runs a victim until it dies at its moment, or kills it after a while.
func (m *machine) kill(t *testing.T, what, moment string, after time.Duration) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envVictim+"="+strings.Join([]string{m.top, what, moment}, ","))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "begins\n", line)
	if after > 0 {
		timer := time.NewTimer(after)
		<-timer.C
		require.NoError(t, cmd.Process.Kill())
	}
	require.ErrorContains(t, cmd.Wait(), "killed")
}

// prepare makes a workspace with a step to undo, and returns what it was like
// before and after that step.
func (m *machine) prepare(t *testing.T) (before, after []string) {
	t.Helper()
	s := m.service(t, m.config())
	m.step(t, s, "step_0", `mkdir d0 d1 d2 d3 d4 d5 d6; for i in $(seq 300); do echo $i > d$((i % 7))/$i; done; ln d1/1 hard; ln -s a l; mkdir -p x/y/z`)
	before = picture(t, m.dir())
	m.step(t, s, "step_1", `for i in $(seq 0 3 300); do echo changed > d$((i % 7))/$i; done; rm -r d5; rm hard l; echo f > l; rm -r x; echo x > x
		mkdir -p new/er; for i in $(seq 50); do echo $i > new/er/$i; done; chmod 700 d2`)
	after = picture(t, m.dir())
	s.Stop()
	return before, after
}

// The daemon is killed in the middle of an undo: afterwards the workspace
// is exactly that of before it or that of after it.
func TestSIGKILLDuringAnUndo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		moment string
		undone bool
	}{
		{"undo: made ready", false}, {"undo: written down", true}, {"undo: put in place", true},
	} {
		t.Run(c.moment, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			before, after := m.prepare(t)
			m.kill(t, "undo", c.moment, 0)
			s := m.service(t, m.config())
			want := after
			if c.undone {
				want = before
			}
			require.Equal(t, want, picture(t, m.dir()))
			out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
				JailId: jailID, OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{"step_1"}},
			})
			require.NoError(t, err)
			require.True(t, out.GetApplied(), "%v", out.GetConflicts())
			require.NotZero(t, out.GetFiles(), "asked again it answers what it did")
			require.Equal(t, before, picture(t, m.dir()))
			require.Zero(t, m.step(t, s, "step_2", "true").GetFiles())
		})
	}
}

func TestSIGKILLAtAnyTimeDuringAnUndo(t *testing.T) {
	t.Parallel()
	for range 10 {
		m := newMachine(t)
		before, after := m.prepare(t)
		m.kill(t, "undo", "-", time.Duration(rand.IntN(60_000))*time.Microsecond)
		s := m.service(t, m.config())
		now := picture(t, m.dir())
		if len(now) == len(before) {
			require.Equal(t, before, now)
		} else {
			require.Equal(t, after, now)
		}
		require.True(t, undo(t, s, "step_1").GetApplied())
		require.Equal(t, before, picture(t, m.dir()))
		s.Stop()
	}
}

// The daemon is killed while it looks: the next look finds what this one had.
func TestSIGKILLDuringALook(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "step_0", "echo one > a")
	before := picture(t, m.dir())
	require.NoError(t, s.Begin(t.Context(), jailID, "step_1", true))
	m.shell(t, "echo two > a; mkdir b; echo three > b/c")
	s.Stop()
	m.kill(t, "look", "look: before the record", 0)
	s = m.service(t, m.config())
	out := s.End(t.Context(), jailID, "step_1", true)
	require.Equal(t, []string{"modified a", "added b", "added b/c"}, paths(out.GetChanges()))
	require.True(t, undo(t, s, "step_1").GetApplied())
	require.Equal(t, before, picture(t, m.dir()))
}

// Whenever it is killed while it looks, also for the first time, the next look
// finds the same, and an undo restores what was there.
func TestSIGKILLAtAnyTimeDuringALook(t *testing.T) {
	t.Parallel()
	for range 4 {
		m := newMachine(t)
		s := m.service(t, m.config())
		m.step(t, s, "step_0", "mkdir d; for i in $(seq 200); do echo $i > d/$i; done")
		before := picture(t, m.dir())
		require.NoError(t, s.Begin(t.Context(), jailID, "step_1", true))
		m.shell(t, "for i in $(seq 0 2 200); do echo changed > d/$i; done; mkdir e; for i in $(seq 200); do echo new $i > e/$i; done; rm d/7; ln d/9 hard")
		after := picture(t, m.dir())
		s.Stop()
		m.kill(t, "look", "-", time.Duration(rand.IntN(40_000))*time.Microsecond)
		require.Equal(t, after, picture(t, m.dir()), "a look changes nothing")
		s = m.service(t, m.config())
		out := s.End(t.Context(), jailID, "step_1", true)
		require.Empty(t, out.GetError())
		undone := undo(t, s, "step_1")
		require.True(t, undone.GetApplied(), "%v", undone.GetConflicts())
		require.Equal(t, before, picture(t, m.dir()))
		s.Stop()
	}
}
