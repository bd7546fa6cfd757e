package workspace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// An agent names a point, spoils the workspace with tools and commands, and goes back: all
// files are as they were. That is a change like any other, which a person can undo.
func TestAnAgentGoesBackToItsCheckpoint(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("careful", `
turns:
  - text: I write.
    calls:
      - {tool: file_write, arguments: {path: kept, content: "good\n"}}
      - {tool: file_write, arguments: {path: in/both, content: "good\n"}}
  - text: That is fine.
    calls:
      - {tool: checkpoint, arguments: {name: good}}
      - {tool: checkpoint_restore, arguments: {name: good}}
  - text: I spoil it.
    calls:
      - {tool: file_write, arguments: {path: in/both, content: "bad\n"}}
      - {tool: shell_exec, arguments: {command: "rm kept; echo x > new; mkdir more; echo y > more/file; chmod 700 in/both"}}
  - text: I go back.
    calls:
      - {tool: checkpoint_restore, arguments: {name: better}}
      - {tool: checkpoint_restore, arguments: {name: good}}
  - text: I look.
    calls:
      - {tool: shell_exec, arguments: {command: "cat kept in/both; ls; stat -c %a in/both"}}
      - {tool: checkpoint_restore, arguments: {name: good}}
      - {tool: complete_task, arguments: {summary: "as before"}}
`, "workspace: {scope: task}")
	id := f.Submit("careful")
	f.Ended(id)
	var steps []struct {
		ID, State, Observation string
		Outcome                map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 11)
	require.Contains(t, steps[3].Observation, `this task has no checkpoint "good": name one in an earlier turn`, "it is made at the end of the turn")
	require.Contains(t, steps[6].Observation, `this task has no checkpoint "better": use one of "good"`)
	require.Regexp(t, `^the workspace is as it was at checkpoint "good"\. Brought back, 5 files and folders: `, steps[7].Observation)
	require.EqualValues(t, 5, steps[7].Outcome["files_changed"])
	require.Regexp(t, `(?s)^exit status 0\ngood\ngood\nin\nkept\n6[46]4\n`, steps[8].Observation)
	require.Equal(t, `the workspace is as it was at checkpoint "good": nothing had changed`, steps[9].Observation)

	f.CLI(0, "task", "undo", id, "--step", steps[7].ID, "--yes")
	require.Equal(t, "bad\n", f.CLI(0, "task", "files", "cat", id, "in/both").Out)
	require.Equal(t, "y\n", f.CLI(0, "task", "files", "cat", id, "more/file").Out)
}
