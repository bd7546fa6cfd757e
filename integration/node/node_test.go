package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// The program of a node is small enough to be sent to every machine, with deckhand-init and
// deckhand-skill in it, and deckhand does not grow unnoticed: its bound is just above what it
// has. What made one larger is in `go tool nm -size -sort size` of a build with symbols;
// text/template and html/template, called anywhere, add seven megabytes.
func TestTheProgramsAreSmall(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int64{"deckhand-node": 40_000_000, "deckhand": 140_000_000} {
		info, err := os.Stat(harness.Binary(t, name))
		require.NoError(t, err)
		require.Less(t, info.Size(), most, name)
	}
}

// What a person does on a node: commands in a jail with their
// own exit codes and bytes, on the machine under its lock, a drain, logs, files
// and a terminal.
func TestWhatAPersonDoesOnANode(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("keeper", `turns:
  - calls:
      - {tool: file_write, arguments: {path: note.txt, content: "kept\n"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`)
	f.CLI(0, "run", "keeper", "begin", "--wait", "--timeout", "1m")
	var nodes []struct{ ID, Name string }
	f.JSON(&nodes, "node", "list")
	node := nodes[0].Name

	// In the jail.
	in := func(code int, argv ...string) harness.Result {
		t.Helper()
		return f.CLI(code, append([]string{"node", "exec", node, "--agent", "keeper", "--"}, argv...)...)
	}
	require.Equal(t, "kept\n", in(0, "cat", "note.txt").Out)
	require.Equal(t, harness.Result{Code: 7, Out: "out\n", Err: "err\n"}, in(7, "sh", "-c", "echo out; echo err >&2; exit 7"))
	require.Equal(t, "\x00\xff\n\xfe", in(0, "printf", `\000\377\n\376`).Out, "bytes come as they are")
	in(143, "sh", "-c", "kill -TERM $$")
	in(127, "no-such-command")
	big := in(0, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x").Out
	require.Len(t, big, 3_000_000)
	require.NotEqual(t, "0\n", in(0, "id", "-u").Out, "it is the jail's own user")

	// Ctrl-C kills it with all that it started.
	sleeper := f.Person(t.Context(), "node", "exec", node, "--agent", "keeper", "--", "sh", "-c", "echo on; sleep 1000 & sleep 1000")
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
	f.JSON(&execs, "node", "execs", node)
	require.Equal(t, "killed", execs[0].EndReason)
	first := execs[len(execs)-1]
	require.Equal(t, []string{"cat", "note.txt"}, first.Argv)
	require.Equal(t, "kept\n", f.CLI(0, "node", "logs", node, first.ID).Out)
	require.Contains(t, f.CLI(0, "node", "logs", node, first.ID, "--search", "kep").Out, "kept")
	var agents []struct{ ID string }
	f.JSON(&agents, "agent", "list")
	jail := "jail_" + strings.TrimPrefix(agents[0].ID, "agent_")
	require.Equal(t, "kept\n", f.CLI(0, "node", "files", "cat", node, jail, "note.txt").Out)
	require.Contains(t, f.CLI(0, "node", "files", "ls", node, jail).Out, "note.txt")
	require.Contains(t, f.CLI(0, "node", "top", node).Out, jail)

	// On the machine, alone.
	mark := filepath.Join(t.TempDir(), "mark")
	require.Equal(t, "0\n", f.CLI(0, "node", "exec", node, "--host", "--", "sh", "-c", "id -u; touch "+mark).Out)
	require.FileExists(t, mark)
	f.CLI(0, "node", "lock", node, "--reason", "kernel update")
	waiting := f.Submit("keeper")
	waittest.Until(t, 20*time.Second, "the task to say why it waits", func() bool {
		return f.Task(waiting).Reason == "node "+node+" is locked by admin: kernel update"
	})
	f.CLI(3, "node", "exec", node, "--agent", "nobody", "--", "true")
	f.CLI(0, "node", "exec", node, "--host", "--", "true")
	require.Contains(t, f.CLI(0, "node", "locks").Out, "kernel update", "the person's own lock stays")
	f.CLI(0, "node", "drain", node, "--reason", "new disk")
	f.CLI(0, "node", "unlock", node)
	waittest.Until(t, 20*time.Second, "the task to say why it waits now", func() bool {
		return f.Task(waiting).Reason == "node "+node+" is drained by admin: new disk"
	})
	f.CLI(0, "node", "undrain", node)
	f.Ended(waiting)

	terminal(f, node)

	// Packs: programs for all jails.
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "tool", Mode: 0o755, Typeflag: tar.TypeReg, Size: 4}))
	_, err = w.Write([]byte("tool"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	local := filepath.Join(t.TempDir(), "tool.tar")
	require.NoError(t, os.WriteFile(local, archive.Bytes(), 0o600))
	digest := fmt.Sprintf("%x", sha256.Sum256(archive.Bytes()))
	require.Contains(t, f.CLI(0, "node", "pack", "list", node).Err, "there is no pack on "+node)
	require.Contains(t, f.CLI(4, "node", "pack", "import", node, "tool", local, "--digest", strings.Repeat("0", 64)).Err, "nothing was installed")
	require.Contains(t, f.CLI(0, "node", "pack", "import", node, "tool", local, "--digest", digest).Out, "tool")
	site := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(local))))
	defer site.Close()
	f.CLI(0, "node", "pack", "fetch", node, "other", "--url", site.URL+"/tool.tar", "--digest", digest)
	listed := f.CLI(0, "node", "pack", "list", node).Out
	require.Contains(t, listed, digest[:12])
	require.Contains(t, listed, "current")
	require.Equal(t, "tool", in(0, "cat", "/.deckhand-packs/tool/current/tool").Out)
	f.CLI(0, "node", "pack", "prune", node, "tool", "other")
	require.NotContains(t, f.CLI(0, "node", "pack", "list", node).Out, digest[:12])
}

// terminal opens a terminal in the jail, as a person does, and reads its recording.
func terminal(f *harness.Fleet, node string) {
	f.T.Helper()
	shell := f.Person(f.T.Context(), "node", "shell", node, "--agent", "keeper")
	master, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 30, Cols: 100})
	require.NoError(f.T, err)
	defer func() { _ = master.Close() }()
	shown := ""
	until := func(text string) {
		f.T.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(shown, text) {
			n, err := master.Read(buf)
			shown += string(buf[:n])
			require.NoError(f.T, err, shown)
		}
	}
	require.NoError(f.T, master.SetReadDeadline(time.Now().Add(time.Minute)))
	until("\x1b[1;32mjail:keeper\x1b[0m")
	_, err = master.WriteString("stty size; cat note.txt\r")
	require.NoError(f.T, err)
	until("30 100")
	until("kept")
	_, err = master.WriteString("exit 9\r")
	require.NoError(f.T, err)
	require.Error(f.T, shell.Wait())
	require.Equal(f.T, 9, shell.ProcessState.ExitCode(), shown)

	id := strings.Fields(f.CLI(0, "node", "execs", node, "-o", "name").Out)[0]
	cast := strings.Split(strings.TrimSpace(f.CLI(0, "node", "logs", node, id, "--asciicast", "-").Out), "\n")
	require.Contains(f.T, cast[0], `"version":3`)
	require.Contains(f.T, strings.Join(cast, ""), "jail:keeper")
	require.Contains(f.T, cast[len(cast)-1], `"x","9"`)
}
