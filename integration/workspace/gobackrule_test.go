package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// The files of a run that fails go back to the checkpoint that its persona names; the others
// of the run stay as they are.
func TestTheFilesOfAFailedRunGoBackToACheckpoint(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	const spoiled = `
turns:
  - text: I write.
    calls:
      - {tool: file_write, arguments: {path: kept.txt, content: "good\n"}}
  - text: That is fine.
    calls: [{tool: checkpoint, arguments: {name: good}}]
  - text: I spoil it.
    calls:
      - {tool: shell_exec, arguments: {command: "rm kept.txt; echo x > spoiled.txt"}}
      - {tool: manage_scratchpad, arguments: {append: "it is gone"}}
  - text: That was wrong.
    calls: [{tool: complete_task, arguments: {status: STATUS, summary: "I have spoiled it"}}]
`
	run := func(name, status, rule string) (id, reason, files string) {
		f.Persona(name, strings.ReplaceAll(spoiled, "STATUS", status), "workspace: {scope: task, restore_on_failure: "+rule+"}")
		id = f.Submit(name)
		waittest.Until(t, time.Minute, "the run to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		return id, f.Task(id).Reason, f.CLI(0, "task", "files", "ls", id).Out
	}
	id, reason, files := run("careful", "failed", "good")
	require.NotContains(t, files, "spoiled.txt", "what it wrote after its checkpoint is gone")
	require.NotContains(t, files, ".deckhand", "and so are its notes")
	require.Equal(t, "good\n", f.CLI(0, "task", "files", "cat", id, "kept.txt").Out, "what it wrote before is there")
	require.Contains(t, reason, `its files are as they were at checkpoint "good"`)

	_, reason, files = run("tidy", "failed", "start")
	require.NotContains(t, files, ".txt")
	require.Contains(t, reason, `its files are as they were at checkpoint "start"`)

	_, reason, files = run("hopeful", "failed", "better")
	require.Contains(t, files, "spoiled.txt")
	require.Contains(t, reason, `its files stay as they are, because they could not go back to checkpoint "better": the run named no checkpoint "better"`)

	_, reason, files = run("halfway", "partial", "good")
	require.Contains(t, files, "spoiled.txt", "a part that is done is kept")
	require.NotContains(t, reason, "checkpoint")
}
