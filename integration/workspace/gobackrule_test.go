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

// waits waits until a run of spoils has spoiled its workspace, and has yet to fail.
func waits(f *harness.Fleet, id string) {
	f.T.Helper()
	waittest.Until(f.T, time.Minute, "the run to wait", func() bool {
		steps := f.Steps(id)
		return len(steps) == 4 && steps[3].State == "STEP_STATE_STARTED"
	})
}

// spoils names a point, and then deletes what a restore needs room for.
const spoils = `
turns:
  - text: I write.
    calls: [{tool: shell_exec, arguments: {command: "head -c 24M /dev/urandom > large"}}]
  - text: That is fine.
    calls: [{tool: checkpoint, arguments: {name: good}}]
  - text: I spoil it.
    calls: [{tool: shell_exec, arguments: {command: "SPOIL"}}]
  - text: I wait.
    calls: [{tool: wait, arguments: {seconds: SECONDS}}]
  - text: That was wrong.
    calls: [{tool: complete_task, arguments: {status: failed, summary: "I have spoiled it"}}]
`

// A restore for which the workspace has no room changes nothing, and the task's reason says so.
func TestARestoreWithoutDiskSpaceIsTold(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("careful", strings.NewReplacer("SPOIL", "rm large; head -c 30M /dev/zero > fill", "SECONDS", "1").Replace(spoils),
		"workspace: {scope: task, size: 48MiB, restore_on_failure: good}")
	id := f.Submit("careful")
	waittest.Until(t, time.Minute, "the run to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	reason := f.Task(id).Reason
	require.Contains(t, reason, `its files stay as they are, because they could not go back to checkpoint "good": `)
	require.Contains(t, reason, "space")
	files := f.CLI(0, "task", "files", "ls", id).Out
	require.Contains(t, files, "fill")
	require.NotContains(t, files, "large", "nothing was brought back, not in part either")
}

// A run that fails while its node is away ends at once, and says that its files could not go
// back; it does not say that they did.
func TestARestoreOnANodeThatIsAwayIsTold(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	f.Persona("careful", strings.NewReplacer("SPOIL", "rm large", "SECONDS", "4").Replace(spoils), "workspace: {scope: task, restore_on_failure: good}")
	id := f.Submit("careful")
	waits(f, id)
	node.Kill()
	waittest.Until(t, time.Minute, "the run to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	require.Contains(t, f.Task(id).Reason, `its files stay as they are, because they could not go back to checkpoint "good": node`)
}

// In review mode, too, a run that fails goes back and asks nobody. One that is done is reviewed
// when its background commands have ended: what a person sees is what there is.
func TestReviewModeWithBackgroundCommandsAndARestore(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	run := func(status, state string) (id string) {
		f.Persona("reviewed", `
turns:
  - text: I write.
    calls: [{tool: file_write, arguments: {path: kept, content: "good\n"}}]
  - text: That is fine.
    calls: [{tool: checkpoint, arguments: {name: good}}]
  - text: I start something.
    calls:
      - {tool: shell_exec, arguments: {command: "while echo x >> ticks; do sleep 0.05; done", background: true}}
      - {tool: wait, arguments: {file: ticks, seconds: 20}}
  - text: That is it.
    calls: [{tool: complete_task, arguments: {status: `+status+`, summary: "it ends"}}]
`, "mode: review", "workspace: {scope: task, restore_on_failure: good}")
		id = f.Submit("reviewed")
		waittest.Until(t, time.Minute, "the run to end", func() bool { return f.Task(id).State == state })
		return id
	}
	job := func(id string) string {
		var jobs []struct{ State string }
		f.JSON(&jobs, "task", "jobs", id)
		require.Len(t, jobs, 1)
		return jobs[0].State
	}

	id := run("failed", "TASK_STATE_FAILED")
	require.Contains(t, f.Task(id).Reason, `its files are as they were at checkpoint "good"`)
	require.Equal(t, "good\n", f.CLI(0, "task", "files", "cat", id, "kept").Out)
	waittest.Until(t, 30*time.Second, "the job to end", func() bool { return job(id) == "JOB_STATE_ENDED" })

	id = run("done", "TASK_STATE_REVIEW_NEEDED")
	item := f.Item(id, "")
	waittest.Until(t, 30*time.Second, "the job to end", func() bool { return job(id) == "JOB_STATE_ENDED" })
	ticks := f.CLI(0, "task", "files", "cat", id, "ticks").Out
	require.NotEmpty(t, ticks)
	f.CLI(0, "inbox", "accept", item)
	f.Ended(id)
	require.Equal(t, ticks, f.CLI(0, "task", "files", "cat", id, "ticks").Out, "nothing was written after the review was asked for")
}
