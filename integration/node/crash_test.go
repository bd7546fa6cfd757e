package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// A worker that dies while a command runs loses nothing: the next one continues, and the
// command ran exactly once.
func TestWorkerKilledWhileACommandSleeps(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	first := f.StartWorker("--name", "first")
	f.Persona("sleeper", harness.CountAndSleep)
	id := f.Submit("sleeper")
	f.Started(id)
	first.Kill()
	f.StartWorker("--name", "second")
	f.Ended(id)

	require.Equal(t, 2, f.Task(id).Attempt, "a second attempt went on")
	steps := f.Steps(id)
	require.Len(t, steps, 3, "no call was proposed twice")
	log := f.CLI(0, "task", "logs", steps[0].ID)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", log.Out, "its whole output is kept")
	require.Equal(t, "ran\n", f.CLI(0, "task", "logs", steps[1].ID).Out, "the command ran exactly once")
}

// A node daemon that dies while a command prints loses none of it.
func TestNodeKilledWhileACommandPrints(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	const lines = 3000
	f.Persona("printer", fmt.Sprintf(`
turns:
  - text: I print.
    calls:
      - tool: shell_exec
        arguments: {command: "for i in $(seq %d); do echo line $i; echo err $i >&2; [ $((i %% 10)) = 0 ] && sleep 0.02; done; exit 7"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "printed"}
`, lines))
	id := f.Submit("printer")
	f.Started(id)
	node.Kill()
	f.StartNode()
	f.Ended(id)

	var shown []struct {
		ID      string
		Outcome map[string]any
	}
	f.JSON(&shown, "task", "steps", id)
	require.InDelta(t, 7, shown[0].Outcome["exit_code"], 0)
	require.Equal(t, "exited", shown[0].Outcome["end_reason"])

	var out, errs strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&out, "line %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	log := f.CLI(0, "task", "logs", shown[0].ID)
	gotOut, gotErr := split(log.Out)
	require.Equal(t, digest(out.String()), digest(gotOut), "standard output is complete and in order")
	require.Equal(t, digest(errs.String()), digest(gotErr), "standard error is complete and in order")
}

// split separates the lines of the two streams.
func split(log string) (out, errs string) {
	var o, e strings.Builder
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "err ") {
			e.WriteString(line)
		} else {
			o.WriteString(line)
		}
	}
	return o.String(), e.String()
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// A hub that dies while a command runs costs nothing either.
func TestHubKilledWhileACommandSleeps(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("sleeper", harness.CountAndSleep)
	id := f.Submit("sleeper")
	f.Started(id)
	api, edge, bus := f.Hub.Addresses(t)
	f.Hub.Kill()
	f.StartHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
	f.Ended(id)
	steps := f.Steps(id)
	require.Len(t, steps, 3)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", f.CLI(0, "task", "logs", steps[0].ID).Out)
	require.Equal(t, "ran\n", f.CLI(0, "task", "logs", steps[1].ID).Out, "the command ran exactly once")
}

// Cancelling a task ends its running command.
func TestCancelEndsTheCommand(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("sleeper", strings.Replace(harness.CountAndSleep, "in 1 2 3 4 5 6", "in $(seq 600)", 1))
	id := f.Submit("sleeper")
	f.Started(id)
	begin := time.Now()
	f.CLI(0, "task", "cancel", id)
	require.Less(t, time.Since(begin), waittest.Limit(10*time.Second))
	require.Equal(t, "TASK_STATE_CANCELLED", f.Task(id).State)
	steps := f.Steps(id)
	require.Equal(t, "STEP_STATE_CANCELLED", steps[0].State)
	// The log does not grow any more: the command has ended.
	log := f.CLI(0, "task", "logs", steps[0].ID, "--follow").Out
	require.NotContains(t, log, "done")
}
