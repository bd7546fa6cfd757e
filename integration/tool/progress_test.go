package tool

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A watch shows how far a running command is: its output, its processor time and its last whole
// line, with secrets masked. None of it is stored.
func TestAWatchShowsTheProgressOfACommand(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("slow", `
turns:
  - text: I work.
    calls:
      - {tool: shell_exec, arguments: {command: "for i in 1 2 3 4 5; do echo step-$i sk-ant-api03-CANARYCANARYCANARYCANARYCANARY; printf 'half of a line'; sleep 1; echo; done"}}
      - {tool: shell_exec, arguments: {command: "echo of the failure; exit 3"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "worked"}}
`, "mode: autonomous")
	id := f.Submit("slow")
	watched := f.CLI(0, "task", "watch", id, "--progress")
	require.Regexp(t, regexp.MustCompile(`step 1: [0-9.]+ ?[A-Za-z]+, [0-9a-zµ.]+ CPU: step-\d`), watched.Err)
	require.NotContains(t, watched.Err, "CANARY")
	require.NotContains(t, watched.Out, "step_progress")
	require.NotContains(t, f.CLI(0, "task", "watch", id, "--follow=false", "-o", "jsonl").Out, "lastLine")

	// The outputs are chosen by the error of their step.
	require.Equal(t, "of the failure\n", f.CLI(0, "task", "logs", id, "--error").Out)
	require.Equal(t, "of the failure\n", f.CLI(0, "task", "logs", id, "--error="+string(fault.CommandFailed)).Out)
	other := f.CLI(0, "task", "logs", id, "--error="+string(fault.EgressDenied))
	require.Empty(t, other.Out)
	require.Contains(t, other.Err, "no step of it with that error has written anything")
	require.Contains(t, f.CLI(0, "task", "logs", id).Out, "step-5")
	wrong := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "task", "logs", id, "--error", "--follow")
	require.Contains(t, wrong.Err, "leave out --follow")
	errors := f.CLI(0, "task", "watch", id, "--follow=false", "--error").Out
	require.Contains(t, errors, string(fault.CommandFailed))
	require.NotContains(t, errors, "step 1")
}
