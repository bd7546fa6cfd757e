package node

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// waitForGo is the script of an agent whose command lasts until its workspace has a file go.
const waitForGo = `
turns:
  - calls:
      - {tool: shell_exec, arguments: {command: "while [ ! -e go ]; do sleep 0.1; done"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`

// says waits until a process has logged a text.
func says(t *testing.T, p *harness.Process, text string) {
	t.Helper()
	waittest.Until(t, time.Minute, "the line "+text, func() bool { return strings.Contains(p.Output.String(), text) })
}

// ends waits until a process has ended, and checks its exit code.
func ends(t *testing.T, p *harness.Process, code int) {
	t.Helper()
	select {
	case <-p.Done:
	case <-time.After(waittest.Limit(time.Minute)):
		t.Fatalf("it does not end: %s", p.Output.String())
	}
	require.Equal(t, code, p.Cmd.ProcessState.ExitCode(), p.Output.String())
}

// Each role that is told to stop takes nothing new, gives what runs its time, says what that
// is, and hands over what is left; a second signal ends it at once.
func TestRolesDrainBeforeTheyStop(t *testing.T) {
	t.Parallel()
	f := harness.NewOn(t, "--drain-timeout", "1h", "--drain-delay", "0s")
	node := f.StartNodeIn(f.NodeDir, "--drain-timeout", "1h")
	for _, name := range []string{"first", "second"} {
		f.Persona(name, waitForGo)
	}
	term := func(p *harness.Process) { require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM)) }

	// A task ends on the worker that was told to stop; the next one does not start there.
	worker := f.StartWorker("--drain-timeout", "1h")
	first := f.Submit("first")
	f.Started(first)
	// Nothing has been stopped yet: a drain of either waits for the task, and says so.
	for _, drain := range [][]string{{"workers", "drain", strings.TrimSpace(f.CLI(0, "workers", "list", "-o", "name").Out)}, {"node", "drain", f.NodeName()}} {
		require.Contains(t, f.CLI(1, append(drain, "--wait", "--timeout", "1s")...).Err, "1 still running")
		f.CLI(0, drain[0], "undrain", drain[2])
	}
	term(worker)
	says(t, worker, `"what":"`+first+`"`)
	waittest.Until(t, time.Minute, "the worker's state", func() bool { return strings.Contains(f.CLI(0, "workers", "list").Out, "it is stopping") })
	second := f.Submit("second")
	workspaces, err := filepath.Glob(filepath.Join(f.NodeDir, "workspaces", "*"))
	require.NoError(t, err)
	require.Len(t, workspaces, 1)
	require.NoError(t, os.WriteFile(filepath.Join(workspaces[0], "go"), nil, 0o644)) //nolint:gosec // the jail's user reads it
	ends(t, worker, 0)
	done := f.Task(first)
	require.Equal(t, "TASK_STATE_SUCCEEDED", done.State)
	require.Equal(t, 1, done.Attempt)
	require.Equal(t, "TASK_STATE_QUEUED", f.Task(second).State)

	// What does not end in time goes back to the queue.
	worker = f.StartWorker("--drain-timeout", "1s")
	f.Started(second)
	term(worker)
	says(t, worker, "the drain timeout is reached")
	ends(t, worker, 0)
	require.Contains(t, worker.Output.String(), "handed back")
	require.Equal(t, "TASK_STATE_QUEUED", f.Task(second).State)

	// A second signal.
	worker = f.StartWorker("--drain-timeout", "1h")
	waittest.Until(t, time.Minute, "the task to run again", func() bool { return f.Task(second).State == "TASK_STATE_RUNNING" })
	term(worker)
	says(t, worker, "waiting for what is in progress")
	term(worker)
	ends(t, worker, 130)

	// A node waits for no command: those go on without it.
	term(node)
	ends(t, node, 0)
	require.Contains(t, node.Output.String(), "commands in jails continue")

	// A hub finishes the call that it has begun to read.
	at, err := url.Parse(f.URL())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	defer conn.Close()
	body := fmt.Sprintf(`{"taskId": %q}`, first)
	_, err = fmt.Fprintf(conn, "POST /deckhand.v1.TaskService/GetTask HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		at.Host, f.Token("admin-token"), len(body), body[:5])
	require.NoError(t, err)
	// Whatever else was called is answered by now; the hub reads this call when it says so.
	term(f.Hub)
	says(t, f.Hub, `"what":"deckhand.v1.TaskService/GetTask"`)
	_, err = fmt.Fprint(conn, body[5:])
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	ends(t, f.Hub, 0)
	require.Contains(t, f.Hub.Output.String(), "everything in progress has ended")
}
