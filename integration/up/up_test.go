package up

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/child"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// Everything on one machine, from nothing; a kill -9 loses nothing,
// a second start finds everything again, and Ctrl-C leaves nothing running.
func TestUpSurvivesKillAndStopsClean(t *testing.T) {
	t.Parallel()
	dir := jailtest.Dir(t)
	up := func() *harness.Process { return startUp(t, dir) }
	first := up()
	f := &harness.Fleet{T: t, Dir: dir}
	f.Persona("sleeper", harness.CountAndSleep)
	id := f.Submit("sleeper")
	f.Started(id)

	second := harness.Run(t, nil, "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0")
	require.NotZero(t, second.Code)
	require.Contains(t, second.Err, "uses the data folder")

	first.Kill()
	again := up()
	f.Ended(id)
	steps := f.Steps(id)
	require.Len(t, steps, 3)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", f.CLI(0, "task", "logs", steps[0].ID).Out)
	require.Equal(t, "ran\n", f.CLI(0, "task", "logs", steps[1].ID).Out, "the command ran exactly once")

	again.Stop(t)
	require.Zero(t, again.Cmd.ProcessState.ExitCode(), again.Output.String())
	out, _ := exec.Command("pgrep", "-f", "-a", dir).CombinedOutput()
	require.NotContains(t, string(out), "postgres", "the private PostgreSQL has stopped")
	require.NotContains(t, string(out), filepath.Join(dir, "containerd", "config.toml"), "the private containerd has stopped")

	// Once more, from rest, as a service of systemd: it says when it is ready, feeds the
	// watchdog while its API answers, and says that it stops.
	notify := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	require.NoError(t, err)
	defer systemd.Close()
	heard := func() string {
		buf := make([]byte, 100)
		require.NoError(t, systemd.SetReadDeadline(time.Now().Add(waittest.Limit(time.Minute))))
		n, err := systemd.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	third := harness.Start(t, []string{"NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=900000"}, harness.Binary(t, "deckhand"),
		"up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0")
	require.Equal(t, "READY=1", heard())
	// The line and the message come on different paths: either may be first.
	waittest.Until(t, time.Minute, "the line that says that it is up", func() bool {
		return strings.Contains(third.Output.String(), "Deckhand is up")
	})
	require.Equal(t, "WATCHDOG=1", heard())
	require.Equal(t, "WATCHDOG=1", heard())
	require.Equal(t, "TASK_STATE_SUCCEEDED", f.Task(id).State)
	third.Stop(t)
	said := heard()
	for said == "WATCHDOG=1" {
		said = heard()
	}
	require.Contains(t, said, "STOPPING=1\nEXTEND_TIMEOUT_USEC=")
}

// startUp starts everything in a folder and waits until it is up.
func startUp(t *testing.T, dir string) *harness.Process {
	t.Helper()
	p := harness.Start(t, nil, harness.Binary(t, "deckhand"), "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0",
		"--lease-ttl", harness.LeaseTTL.String())
	waittest.Until(t, time.Minute, "everything to be up", func() bool {
		mustRun(t, p)
		return strings.Contains(p.Output.String(), "Deckhand is up")
	})
	return p
}

// mustRun fails the test when the process has ended.
func mustRun(t *testing.T, p *harness.Process) {
	t.Helper()
	select {
	case <-p.Done:
		t.Fatalf("it ended: %s", p.Output.String())
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

// A PostgreSQL and a containerd that die under up are restarted. Until then callers get
// an error that asks them to retry, and the current task continues and ends once.
func TestUpStartsWhatDiesAgain(t *testing.T) {
	t.Parallel()
	if containerd.Running(jail.DefaultContainerd) {
		t.Skip("this machine runs a containerd of its own, which up would use")
	}
	dir := jailtest.Dir(t)
	up := startUp(t, dir)
	f := &harness.Fleet{T: t, Dir: dir}
	f.Persona("waiter", countAndWait)
	id := f.Submit("waiter")
	f.Started(id)
	status := func() string {
		res, err := http.Get(f.URL() + "/status") //nolint:noctx // of this machine
		require.NoError(t, err)
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(page)
	}
	for name, part := range map[string]string{"postgres": "PostgreSQL", "containerd": "containerd"} {
		file := filepath.Join(dir, name, name+".pid")
		before, err := child.Read(file)
		require.NoError(t, err)
		require.True(t, before.Alive())
		restarting := `{"name":"` + part + `","status":"restarting"}`
		require.NotContains(t, status(), restarting)
		require.NoError(t, syscall.Kill(before.PID, syscall.SIGKILL))
		waittest.Until(t, time.Minute, "the status page to name "+part, func() bool { return strings.Contains(status(), restarting) })
		waittest.Until(t, time.Minute, name+" to run again", func() bool {
			mustRun(t, up)
			now, err := child.Read(file)
			require.NoError(t, err)
			return now.Alive() && now != before
		})
		waittest.Until(t, time.Minute, "the status page to name "+part+" no longer", func() bool { return !strings.Contains(status(), restarting) })
	}
	waittest.Until(t, time.Minute, "the task to be shown again", func() bool {
		r := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + dir}, "task", "show", id)
		if r.Code != 0 {
			require.Contains(t, r.Err, "try again")
		}
		return r.Code == 0
	})
	workspaces, err := filepath.Glob(filepath.Join(dir, "node", "workspaces", "*"))
	require.NoError(t, err)
	require.Len(t, workspaces, 1)
	require.NoError(t, os.WriteFile(filepath.Join(workspaces[0], "go"), nil, 0o644)) //nolint:gosec // the jail's user reads it
	waittest.Until(t, time.Minute, "the task to end", func() bool {
		mustRun(t, up)
		return f.Task(id).State == "TASK_STATE_SUCCEEDED"
	})
	steps := f.Steps(id)
	require.Len(t, steps, 3, "no call was made twice")
	require.Equal(t, "ran\n", f.CLI(0, "task", "logs", steps[1].ID).Out)
	// A jail of another agent's is made by the containerd that is back.
	f.Persona("later", strings.Replace(countAndWait, "while [ ! -e go ]; do sleep 0.1; done; ", "", 1))
	id = f.Submit("later")
	waittest.Until(t, time.Minute, "a task in a new jail to end", func() bool {
		mustRun(t, up)
		return f.Task(id).State == "TASK_STATE_SUCCEEDED"
	})
	for _, name := range []string{"PostgreSQL", "containerd"} {
		require.Contains(t, up.Output.String(), `"part":"`+name+`"`)
	}
	require.Contains(t, up.Output.String(), "signal: killed")

	// The log of everything shows the task in each role.
	log := filepath.Join(t.TempDir(), "up.jsonl")
	require.NoError(t, os.WriteFile(log, []byte(up.Output.String()), 0o600))
	for _, role := range []string{"hub", "worker", "node"} {
		require.Contains(t, f.CLI(0, "logs", log, "--task", id, "--role", role).Out, "up."+role, role)
	}
	// The line of a node names only its command.
	require.Contains(t, f.CLI(0, "logs", log, "--task", id, "--role", "node").Out, "a command ended")
}

// A missing requirement is reported in one line, with what to do.
func TestUpSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if containerd.Running(jail.DefaultContainerd) {
		t.Skip("this machine runs a containerd of its own, which up would use")
	}
	r := harness.Run(t, []string{"PATH=/nonexistent"}, "up", "--data-dir", jailtest.Dir(t))
	require.Equal(t, 1, r.Code, r.Err)
	require.Contains(t, r.Err, "apt-get install containerd runc")
	require.NotContains(t, r.Err, "goroutine")
}

// What keeps `deckhand up` from starting is found before anything is started, and named
// with its fix.
func TestUpRefusesWhatItCannotStartOn(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	fresh := func() string { return jailtest.Dir(t) }
	written := func(text string) string {
		dir := fresh()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "format.json"), []byte(text), 0o600))
		return dir
	}
	foreign := fresh()
	require.NoError(t, os.Chown(foreign, 41234, 41234))
	open := fresh()
	require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // that is what is refused
	full := fresh()
	require.NoError(t, syscall.Mount("tmpfs", full, "tmpfs", 0, "size=16m,mode=0711"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(full, 0)) })

	for name, c := range map[string]struct {
		dir  string
		args []string
		says []string
	}{
		"a port is taken": {fresh(), []string{"--listen", taken.Addr().String()}, []string{
			"cannot listen on --listen " + taken.Addr().String(), fmt.Sprintf("(process %d) uses that port", os.Getpid()), "choose another address with --listen",
		}},
		"the port of the edge is taken": {fresh(), []string{"--edge-listen", taken.Addr().String()}, []string{"cannot listen on --edge-listen", "choose another address with --edge-listen"}},
		"an address has no port":        {fresh(), []string{"--metrics-listen", "127.0.0.1"}, []string{`--metrics-listen "127.0.0.1" has no port`, "HOST:PORT"}},
		"the disk is full":              {full, nil, []string{"the disk of data-dir " + full + " is full: ", "MiB are free", "make room"}},
		"another user owns the folder":  {foreign, nil, []string{"belongs to the user 41234, not to root", "chown root:root " + foreign}},
		"anybody may write the folder":  {open, nil, []string{"can be written by users other than root (mode 0777)", "chmod go-w " + open}},
		"a newer release wrote it":      {written(`{"format": 2, "version": "9.1.0"}`), nil, []string{"was written by a newer release, Deckhand 9.1.0", "format 2", "install Deckhand 9.1.0 or later", "restore the backup"}},
		"too old a release wrote it":    {written(`{"format": 0, "schema": 1, "version": "0.0.1"}`), nil, []string{"was written by an old release, Deckhand 0.0.1", "start a release between the two"}},
		"its format is damaged":         {written(`{"form`), nil, []string{"format.json is damaged", "remove it"}},
		"a setting that up makes itself": {fresh(), []string{"--hub-url", "https://hub.example.com"}, []string{
			"remove --hub-url: the worker and the node of deckhand up belong to its own hub",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"up", "--data-dir", c.dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0"}, c.args...)
			r := harness.Run(t, nil, args...)
			require.NotZero(t, r.Code, r.Err)
			for _, says := range c.says {
				require.Contains(t, r.Err, says)
			}
			require.NotContains(t, r.Err, "goroutine")
			require.NoDirExists(t, filepath.Join(c.dir, "postgres", "data"), "nothing was started")
		})
	}
}
