package tool

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
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
	// Nothing of it had an error.
	require.NotContains(t, f.CLI(0, "task", "watch", id, "--follow=false", "--error").Out, "shell_exec")
}
