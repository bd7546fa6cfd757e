package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// DESIGN §7: everything on one machine, from nothing; a kill -9 loses nothing,
// a second start finds everything again, and Ctrl-C leaves nothing running.
func TestUpSurvivesKillAndStopsClean(t *testing.T) {
	t.Parallel()
	dir := jailtest.Dir(t)
	up := func() *process {
		t.Helper()
		p := start(t, nil, bin(t, "deckhand"), "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0",
			"--lease-ttl", leaseTTL.String())
		eventually(t, time.Minute, "everything to be up", func() bool {
			select {
			case <-p.done:
				t.Fatalf("it ended: %s", p.output.String())
			default:
			}
			return strings.Contains(p.output.String(), "Deckhand is up")
		})
		return p
	}
	first := up()
	f := &fleet{t: t, dir: dir}
	f.persona("sleeper", countAndSleep)
	id := f.submit("sleeper")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})

	second := run(t, nil, "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0")
	require.NotZero(t, second.code)
	require.Contains(t, second.err, "uses the data folder")

	first.kill()
	again := up()
	eventually(t, 90*time.Second, "the task to end", func() bool { return f.task(id).State == "TASK_STATE_SUCCEEDED" })
	steps := f.steps(id)
	require.Len(t, steps, 3)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", f.cli(0, "task", "logs", steps[0].ID).out)
	require.Equal(t, "ran\n", f.cli(0, "task", "logs", steps[1].ID).out, "the command ran exactly once")

	again.stop(t)
	require.Zero(t, again.cmd.ProcessState.ExitCode(), again.output.String())
	out, _ := exec.Command("pgrep", "-f", "-a", dir).CombinedOutput()
	require.NotContains(t, string(out), "postgres", "the private PostgreSQL has stopped")
	require.NotContains(t, string(out), filepath.Join(dir, "containerd", "config.toml"), "the private containerd has stopped")

	// Once more, from rest.
	third := up()
	require.Equal(t, "TASK_STATE_SUCCEEDED", f.task(id).State)
	third.stop(t)
}

// DESIGN §7: what is missing is said in one line, with what to do.
func TestUpSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if containerd.Running(jail.DefaultContainerd) {
		t.Skip("this machine runs a containerd of its own, which up would use")
	}
	r := run(t, []string{"PATH=/nonexistent"}, "up", "--data-dir", jailtest.Dir(t))
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "apt-get install containerd runc")
	require.NotContains(t, r.err, "goroutine")
}
