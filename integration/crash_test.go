package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// step is what the tests read of a step.
type step struct {
	ID, Tool, State string
	Attempt         int
}

func (f *fleet) steps(taskID string) (steps []step) {
	f.t.Helper()
	f.json(&steps, "task", "steps", taskID)
	return steps
}

// A counting command: it says that it began, sleeps, and ends.
const countAndSleep = `
turns:
  - text: I count and sleep.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> counter; for i in 1 2 3 4 5 6; do echo line $i; sleep 1; done; echo done"}
  - text: How often did it run?
    calls:
      - tool: shell_exec
        arguments: {command: "cat counter"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "counted"}
`

// A worker that dies while a command runs costs nothing: the
// next one goes on, and the command ran exactly once.
func TestWorkerKilledWhileACommandSleeps(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	first := f.startWorker("--name", "first")
	f.persona("sleeper", countAndSleep)
	id := f.submit("sleeper")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	first.kill()
	f.startWorker("--name", "second")
	eventually(t, 60*time.Second, "the task to end", func() bool { return f.task(id).State == "TASK_STATE_SUCCEEDED" })

	require.Equal(t, 2, f.task(id).Attempt, "a second attempt went on")
	steps := f.steps(id)
	require.Len(t, steps, 3, "no call was proposed twice")
	log := f.cli(0, "task", "logs", steps[0].ID)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", log.out, "its whole output is kept")
	require.Equal(t, "ran\n", f.cli(0, "task", "logs", steps[1].ID).out, "the command ran exactly once")
}

// A node daemon that dies while a command prints loses none of it.
func TestNodeKilledWhileACommandPrints(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	node := f.startNode()
	f.startWorker()
	const lines = 3000
	f.persona("printer", fmt.Sprintf(`
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
	id := f.submit("printer")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	node.kill()
	f.startNode()
	eventually(t, 90*time.Second, "the task to end", func() bool { return f.task(id).State == "TASK_STATE_SUCCEEDED" })

	var shown []struct {
		ID      string
		Outcome map[string]any
	}
	f.json(&shown, "task", "steps", id)
	require.InDelta(t, 7, shown[0].Outcome["exit_code"], 0)
	require.Equal(t, "exited", shown[0].Outcome["end_reason"])

	var out, errs strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&out, "line %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	log := f.cli(0, "task", "logs", shown[0].ID)
	gotOut, gotErr := split(log.out)
	require.Equal(t, digest(out.String()), digest(gotOut), "standard output is complete and in order")
	require.Equal(t, digest(errs.String()), digest(gotErr), "standard error is complete and in order")
}

// split tells the two streams' lines apart.
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
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	f.persona("sleeper", countAndSleep)
	id := f.submit("sleeper")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	api, edge, bus := f.hub.addresses(t)
	f.hub.kill()
	f.startHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
	eventually(t, 90*time.Second, "the task to end", func() bool { return f.task(id).State == "TASK_STATE_SUCCEEDED" })
	steps := f.steps(id)
	require.Len(t, steps, 3)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\ndone\n", f.cli(0, "task", "logs", steps[0].ID).out)
	require.Equal(t, "ran\n", f.cli(0, "task", "logs", steps[1].ID).out, "the command ran exactly once")
}

// Cancelling a task ends its running command.
func TestCancelEndsTheCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	f.persona("sleeper", strings.Replace(countAndSleep, "in 1 2 3 4 5 6", "in $(seq 600)", 1))
	id := f.submit("sleeper")
	eventually(t, 30*time.Second, "the command to run", func() bool {
		steps := f.steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	begin := time.Now()
	f.cli(0, "task", "cancel", id)
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Equal(t, "TASK_STATE_CANCELLED", f.task(id).State)
	steps := f.steps(id)
	require.Equal(t, "STEP_STATE_CANCELLED", steps[0].State)
	// The log does not grow any more: the command is gone.
	log := f.cli(0, "task", "logs", steps[0].ID, "--follow").out
	require.NotContains(t, log, "done")
}
