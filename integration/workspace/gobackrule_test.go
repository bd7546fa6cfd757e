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
      - {tool: file_write, arguments: {path: kept, content: "good\n"}}
  - text: That is fine.
    calls: [{tool: checkpoint, arguments: {name: good}}]
  - text: I spoil it.
    calls:
      - {tool: shell_exec, arguments: {command: "rm kept; echo x > new"}}
      - {tool: manage_scratchpad, arguments: {append: "kept is gone"}}
  - text: That was wrong.
    calls: [{tool: complete_task, arguments: {status: STATUS, summary: "I have spoiled it"}}]
`
	run := func(name, status, rule string) (id, reason string, files []string) {
		f.Persona(name, strings.ReplaceAll(spoiled, "STATUS", status), "workspace: {scope: task, restore_on_failure: "+rule+"}")
		id = f.Submit(name)
		waittest.Until(t, time.Minute, "the run to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		var listed []struct{ Path string }
		f.JSON(&listed, "task", "files", "ls", id)
		for _, file := range listed {
			files = append(files, file.Path)
		}
		return id, f.Task(id).Reason, files
	}
	id, reason, files := run("careful", "failed", "good")
	require.Equal(t, []string{"kept"}, files, "what it wrote before its checkpoint is there, what it wrote after that is not, its notes included")
	require.Contains(t, reason, `its files are as they were at checkpoint "good"`)
	require.Equal(t, "good\n", f.CLI(0, "task", "files", "cat", id, "kept").Out)

	_, reason, files = run("tidy", "failed", "start")
	require.Empty(t, files)
	require.Contains(t, reason, `its files are as they were at checkpoint "start"`)

	_, reason, files = run("hopeful", "failed", "better")
	require.Equal(t, []string{".deckhand", "new"}, files)
	require.Contains(t, reason, `its files stay as they are, because they could not go back to checkpoint "better": the run named no checkpoint "better"`)

	_, reason, files = run("halfway", "partial", "good")
	require.Equal(t, []string{".deckhand", "new"}, files, "a part that is done is kept")
	require.NotContains(t, reason, "checkpoint")
}
