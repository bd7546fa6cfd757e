package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// With checkpoints: on_risk, the point before each call that a person is asked about is a
// checkpoint: the agent goes back to exactly what the call found, a person goes on from the
// iteration before, and a run that fails goes back by itself.
func TestARuleMakesACheckpointBeforeARiskyCall(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("wary", `
turns:
  - text: I write.
    calls: [{tool: file_write, arguments: {path: kept, content: "good\n"}}]
  - text: I write once more, and then take a risk.
    calls:
      - {tool: file_write, arguments: {path: same-turn, content: "good\n"}}
      - {tool: shell_exec, arguments: {command: "rm kept; echo x > new"}}
  - text: I go back.
    calls:
      - {tool: checkpoint_restore, arguments: {name: before step 1}}
      - {tool: checkpoint_restore, arguments: {name: before risk}}
      - {tool: file_read, arguments: {path: kept}}
  - text: I take another risk.
    calls: [{tool: shell_exec, arguments: {command: "rm same-turn"}}]
  - text: It did not work.
    calls: [{tool: complete_task, arguments: {status: failed, summary: "no"}}]
`, "workspace: {scope: task, restore_on_failure: before risk}", "approvals: {tools: [shell_exec]}", "checkpoints: on_risk")
	id := f.Submit("wary")
	first := f.Item(id, "")
	f.CLI(0, "inbox", "approve", first)
	f.CLI(0, "inbox", "approve", f.Item(id, first))
	waittest.Until(t, time.Minute, "the run to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })

	var steps []struct {
		ID, Observation string
		Number          int
	}
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 8)
	require.Contains(t, steps[3].Observation, `this task has no checkpoint "before step 1": use one of "before step 3"`, "a file that is written is no risk")
	require.Regexp(t, `^the workspace is as it was at checkpoint "before risk"\. Brought back, 2 files and folders: (kept, new|new, kept)$`, steps[4].Observation)
	require.Contains(t, steps[5].Observation, "good")

	require.Contains(t, f.Task(id).Reason, `its files are as they were at checkpoint "before risk"`)
	require.Equal(t, "good\n", f.CLI(0, "task", "files", "cat", id, "same-turn").Out, "what the last risky call did is undone, and nothing else")
	require.Equal(t, "good\n", f.CLI(0, "task", "files", "cat", id, "kept").Out)

	var points []struct {
		Iteration            int
		Reason               string
		BeforeSteps          []int
		CreatedAt, ExpiresAt time.Time
	}
	f.JSON(&points, "task", "checkpoints", id)
	byIteration := map[int][]int{}
	for _, p := range points {
		byIteration[p.Iteration] = p.BeforeSteps
		if len(p.BeforeSteps) > 0 {
			require.Equal(t, "risk", p.Reason)
			require.Greater(t, p.ExpiresAt.Sub(p.CreatedAt), 6*24*time.Hour, "it is kept as long as one that an agent names")
		}
	}
	require.Equal(t, []int{3}, byIteration[1])
	require.Equal(t, []int{7}, byIteration[3])
	require.Contains(t, f.CLI(0, "task", "checkpoints", id).Out, "before step 3")
	require.Contains(t, f.CLI(0, "task", "watch", "--follow=false", id).Out, "before step 3")

	resumed := strings.TrimSpace(f.CLI(0, "task", "resume-from", id, "-o", "name", "--name", "before step 3").Out)
	f.Item(resumed, "")
	steps = nil
	f.JSON(&steps, "task", "steps", resumed)
	require.Equal(t, 2, steps[len(steps)-1].Number, "it takes that turn over, and is at the same call again")
}
