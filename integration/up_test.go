package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/child"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// Everything on one machine, from nothing; a kill -9 loses nothing,
// a second start finds everything again, and Ctrl-C leaves nothing running.
func TestUpSurvivesKillAndStopsClean(t *testing.T) {
	t.Parallel()
	dir := jailtest.Dir(t)
	up := func() *process { return startUp(t, dir) }
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

// startUp starts everything in a folder and waits until it is up.
func startUp(t *testing.T, dir string) *process {
	t.Helper()
	p := start(t, nil, bin(t, "deckhand"), "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0",
		"--lease-ttl", leaseTTL.String())
	eventually(t, time.Minute, "everything to be up", func() bool {
		p.mustRun(t)
		return strings.Contains(p.output.String(), "Deckhand is up")
	})
	return p
}

// mustRun fails the test when the process has ended.
func (p *process) mustRun(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("it ended: %s", p.output.String())
	default:
	}
}

const countAndWait = `
turns:
  - text: I count and wait.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> counter; while [ ! -e go ]; do sleep 0.1; done; echo done"}
  - text: How often did it run?
    calls:
      - tool: shell_exec
        arguments: {command: "cat counter"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "counted"}
`

// A PostgreSQL and a containerd that die under up are started again. Meanwhile
// callers are told to try again, and the task in hand goes on and ends once.
func TestUpStartsWhatDiesAgain(t *testing.T) {
	t.Parallel()
	if containerd.Running(jail.DefaultContainerd) {
		t.Skip("this machine runs a containerd of its own, which up would use")
	}
	dir := jailtest.Dir(t)
	up := startUp(t, dir)
	f := &fleet{t: t, dir: dir}
	f.persona("waiter", countAndWait)
	id := f.submit("waiter")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	for _, name := range []string{"postgres", "containerd"} {
		file := filepath.Join(dir, name, name+".pid")
		before, err := child.Read(file)
		require.NoError(t, err)
		require.True(t, before.Alive())
		require.NoError(t, syscall.Kill(before.PID, syscall.SIGKILL))
		eventually(t, time.Minute, name+" to run again", func() bool {
			up.mustRun(t)
			now, err := child.Read(file)
			require.NoError(t, err)
			return now.Alive() && now != before
		})
	}
	eventually(t, time.Minute, "the task to be shown again", func() bool {
		r := run(t, []string{"DECKHAND_DATA_DIR=" + dir}, "task", "show", id)
		if r.code != 0 {
			require.Contains(t, r.err, "try again")
		}
		return r.code == 0
	})
	workspaces, err := filepath.Glob(filepath.Join(dir, "node", "workspaces", "*"))
	require.NoError(t, err)
	require.Len(t, workspaces, 1)
	require.NoError(t, os.WriteFile(filepath.Join(workspaces[0], "go"), nil, 0o644)) //nolint:gosec // the jail's user looks at it
	eventually(t, time.Minute, "the task to end", func() bool {
		up.mustRun(t)
		return f.task(id).State == "TASK_STATE_SUCCEEDED"
	})
	steps := f.steps(id)
	require.Len(t, steps, 3, "no call was made twice")
	require.Equal(t, "ran\n", f.cli(0, "task", "logs", steps[1].ID).out)
	// A jail of another agent's is made by the containerd that is back.
	f.persona("later", strings.Replace(countAndWait, "while [ ! -e go ]; do sleep 0.1; done; ", "", 1))
	id = f.submit("later")
	eventually(t, time.Minute, "a task in a new jail to end", func() bool {
		up.mustRun(t)
		return f.task(id).State == "TASK_STATE_SUCCEEDED"
	})
	for _, name := range []string{"PostgreSQL", "containerd"} {
		require.Contains(t, up.output.String(), `"part":"`+name+`"`)
	}
	require.Contains(t, up.output.String(), "signal: killed")
}

// What is missing is said in one line, with what to do.
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
