package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// person is the command line as a person at this fleet runs it.
func (f *fleet) person(ctx context.Context, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.CommandContext(ctx, bin(f.t, "deckhand"), args...)
	cmd.Env = append(os.Environ(), "HOME="+f.t.TempDir(), "DECKHAND_DATA_DIR="+f.dir, "TERM=xterm")
	return cmd
}

// What a person does on a node: commands in a jail with their
// own exit codes and bytes, on the machine under its lock, a drain, logs, files
// and a terminal.
func TestWhatAPersonDoesOnANode(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	f.persona("keeper", `turns:
  - calls:
      - {tool: file_write, arguments: {path: note.txt, content: "kept\n"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`)
	f.cli(0, "run", "keeper", "begin", "--wait", "--timeout", "1m")
	var nodes []struct{ ID, Name string }
	f.json(&nodes, "node", "list")
	node := nodes[0].Name

	// In the jail.
	in := func(code int, argv ...string) result {
		t.Helper()
		return f.cli(code, append([]string{"node", "exec", node, "--agent", "keeper", "--"}, argv...)...)
	}
	require.Equal(t, "kept\n", in(0, "cat", "note.txt").out)
	require.Equal(t, result{code: 7, out: "out\n", err: "err\n"}, in(7, "sh", "-c", "echo out; echo err >&2; exit 7"))
	require.Equal(t, "\x00\xff\n\xfe", in(0, "printf", `\000\377\n\376`).out, "bytes come as they are")
	in(143, "sh", "-c", "kill -TERM $$")
	in(127, "no-such-command")
	big := in(0, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x").out
	require.Len(t, big, 3_000_000)
	require.NotEqual(t, "0\n", in(0, "id", "-u").out, "it is the jail's own user")

	// Ctrl-C kills it with all that it started.
	sleeper := f.person(t.Context(), "node", "exec", node, "--agent", "keeper", "--", "sh", "-c", "echo on; sleep 1000 & sleep 1000")
	output, err := sleeper.StdoutPipe()
	require.NoError(t, err)
	var errs bytes.Buffer
	sleeper.Stderr = &errs
	require.NoError(t, sleeper.Start())
	_, err = output.Read(make([]byte, 8))
	require.NoError(t, err)
	require.NoError(t, sleeper.Process.Signal(syscall.SIGINT))
	require.Error(t, sleeper.Wait())
	require.Equal(t, 130, sleeper.ProcessState.ExitCode(), errs.String())
	require.Contains(t, errs.String(), "0 of its processes are left")

	// Logs and files.
	var execs []struct {
		ID, EndReason string
		Argv          []string
	}
	f.json(&execs, "node", "execs", node)
	require.Equal(t, "killed", execs[0].EndReason)
	first := execs[len(execs)-1]
	require.Equal(t, []string{"cat", "note.txt"}, first.Argv)
	require.Equal(t, "kept\n", f.cli(0, "node", "logs", node, first.ID).out)
	require.Contains(t, f.cli(0, "node", "logs", node, first.ID, "--search", "kep").out, "kept")
	var agents []struct{ ID string }
	f.json(&agents, "agent", "list")
	jail := "jail_" + strings.TrimPrefix(agents[0].ID, "agent_")
	require.Equal(t, "kept\n", f.cli(0, "node", "files", "cat", node, jail, "note.txt").out)
	require.Contains(t, f.cli(0, "node", "files", "ls", node, jail).out, "note.txt")
	require.Contains(t, f.cli(0, "node", "top", node).out, jail)

	// On the machine, alone.
	mark := filepath.Join(t.TempDir(), "mark")
	require.Equal(t, "0\n", f.cli(0, "node", "exec", node, "--host", "--", "sh", "-c", "id -u; touch "+mark).out)
	require.FileExists(t, mark)
	f.cli(0, "node", "lock", node, "--reason", "kernel update")
	waiting := f.submit("keeper")
	eventually(t, 20*time.Second, "the task to say why it waits", func() bool {
		return f.task(waiting).Reason == "node "+node+" is locked by admin: kernel update"
	})
	f.cli(3, "node", "exec", node, "--agent", "nobody", "--", "true")
	f.cli(0, "node", "exec", node, "--host", "--", "true")
	require.Contains(t, f.cli(0, "node", "locks").out, "kernel update", "the person's own lock stays")
	f.cli(0, "node", "drain", node, "--reason", "new disk")
	f.cli(0, "node", "unlock", node)
	eventually(t, 20*time.Second, "the task to say why it waits now", func() bool {
		return f.task(waiting).Reason == "node "+node+" is drained by admin: new disk"
	})
	f.cli(0, "node", "undrain", node)
	eventually(t, time.Minute, "the task to end", func() bool { return f.task(waiting).State == "TASK_STATE_SUCCEEDED" })

	f.terminal(node)
}

// terminal opens one in the jail, as a person does, and looks at its recording.
func (f *fleet) terminal(node string) {
	f.t.Helper()
	shell := f.person(f.t.Context(), "node", "shell", node, "--agent", "keeper")
	master, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 30, Cols: 100})
	require.NoError(f.t, err)
	defer func() { _ = master.Close() }()
	shown := ""
	until := func(text string) {
		f.t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(shown, text) {
			n, err := master.Read(buf)
			shown += string(buf[:n])
			require.NoError(f.t, err, shown)
		}
	}
	require.NoError(f.t, master.SetReadDeadline(time.Now().Add(time.Minute)))
	until("\x1b[1;32mjail:keeper\x1b[0m")
	_, err = master.WriteString("stty size; cat note.txt\r")
	require.NoError(f.t, err)
	until("30 100")
	until("kept")
	_, err = master.WriteString("exit 9\r")
	require.NoError(f.t, err)
	require.Error(f.t, shell.Wait())
	require.Equal(f.t, 9, shell.ProcessState.ExitCode(), shown)

	id := strings.Fields(f.cli(0, "node", "execs", node, "-o", "name").out)[0]
	cast := strings.Split(strings.TrimSpace(f.cli(0, "node", "logs", node, id, "--asciicast", "-").out), "\n")
	require.Contains(f.t, cast[0], `"version":3`)
	require.Contains(f.t, strings.Join(cast, ""), "jail:keeper")
	require.Contains(f.t, cast[len(cast)-1], `"x","9"`)
}
