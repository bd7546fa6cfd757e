package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// agents applies scripted agents that name each other, each with its script. They have
// the given tools, or those that create subtasks.
func agents(f *harness.Fleet, frontMatter map[string]string, scripts map[string]string, tools ...string) {
	f.T.Helper()
	if tools == nil {
		tools = []string{"tools: [shell_exec, create_subtask, delegate, handoff_to_agent]"}
	}
	dir := f.T.TempDir()
	for name, script := range scripts {
		require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
limits: {iterations: 30}
workspace: {scope: task, size: 16MiB}
%[2]s
%[3]s
---
Do what the script says.
`, name, frontMatter[name], strings.Join(tools, "\n")), 0o600))
		require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".script.yaml"), []byte(script), 0o600))
	}
	f.CLI(0, "agent", "apply", "-f", dir)
}

type kin struct {
	ID, State, Reason, Summary, AgentName, HandedFrom string
	Attempt                                           int
}

func below(f *harness.Fleet, id string) (tasks []kin) {
	f.T.Helper()
	f.JSON(&tasks, "task", "list", "--parent", id)
	return tasks
}

// A parent's subtasks run at the same time on real workers while the parent has no slot;
// a worker that dies then loses nothing, and one of them hands its work off. The parent's
// next turn has the results of all of them.
func TestSubtasksOfAParentWhoseWorkerDies(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	gate := func(name string) string { return "until test -e go; do sleep 0.1; done; echo " + name }
	agents(f, map[string]string{
		"lead": "agents: {delegate: [hand]}", "hand": "agents: {handoff: [finisher]}",
	}, map[string]string{
		"lead": `
turns:
  - text: Two parts that do not depend on each other.
    calls:
      - {tool: delegate, arguments: {agent: hand, goal: measure the first}}
      - {tool: delegate, arguments: {agent: hand, goal: measure the second}}
    capture: {first: 'first=(\d+)', second: 'second=(\d+)'}
  - calls: [{tool: complete_task, arguments: {summary: "first ${first}, second ${second}"}}]
`,
		"hand": `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "` + gate("ready") + `"}}]
  - when: ready
    calls: [{tool: handoff_to_agent, arguments: {target_agent: finisher, status: partial, artifacts: {working_dir: "."}, summary_for_target: finish it}}]
`,
		"finisher": `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "echo $((40 + 2))"}}]
    capture: {n: 'exit status 0\n(\d+)'}
  - calls: [{tool: complete_task, arguments: {summary: "first=${n} second=${n}"}}]
`,
	})
	first := f.StartWorker("--name", "first", "--slots", "2")
	id := f.Submit("lead")
	waittest.Until(t, time.Minute, "both subtasks to run while the parent waits", func() bool {
		states := map[string]int{}
		for _, child := range below(f, id) {
			states[child.State]++
		}
		return states["TASK_STATE_RUNNING"] == 2 && f.Task(id).State == "TASK_STATE_WAITING"
	})
	require.Contains(t, f.Task(id).Reason, "waits for 2 subtasks")
	first.Kill()
	f.StartWorker("--name", "second", "--slots", "2")
	for _, child := range below(f, id) {
		local := filepath.Join(t.TempDir(), "go")
		require.NoError(t, os.WriteFile(local, nil, 0o600))
		f.CLI(0, "task", "files", "put", child.ID, local, "go")
	}
	waittest.Until(t, 2*time.Minute, "the parent to end", func() bool {
		state := f.Task(id).State
		return state == "TASK_STATE_SUCCEEDED" || state == "TASK_STATE_FAILED"
	})
	lead := f.Task(id)
	require.Equal(t, "first 42, second 42", lead.Summary, lead.Reason)
	require.Equal(t, 2, lead.Attempt, "it was claimed once more, when both had ended")
	steps := f.Steps(id)
	require.Len(t, steps, 3, "no call was made twice")
	handed := 0
	for _, child := range below(f, id) {
		require.Equal(t, "TASK_STATE_SUCCEEDED", child.State, child.Reason)
		if child.HandedFrom != "" {
			handed++
			require.Equal(t, "finisher", child.AgentName)
		} else {
			require.Contains(t, child.Summary, "handed over to finisher as task")
		}
	}
	require.Equal(t, 2, handed)
	shown := f.CLI(0, "task", "show", id).Out
	require.True(t, strings.Contains(shown, "4 (0 in progress, 4 succeeded)"), shown)
}
