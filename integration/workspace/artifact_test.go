package workspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// twoNodes starts nodes named alpha and beta.
func twoNodes(t *testing.T) *harness.Fleet {
	f := harness.New(t)
	f.StartNodeIn(f.NodeDir, "--name", "alpha")
	f.AddNode("beta")
	f.StartWorker()
	return f
}

const maker = `
turns:
  - text: I make files.
    calls:
      - tool: shell_exec
        arguments: {command: "mkdir -p src/deep; echo one > src/a.go; echo two > src/deep/b.go; chmod 755 src/a.go; ln -s a.go src/link; head -c 3000000 /dev/urandom > big; echo no > notes; mkfifo src/pipe"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "made"}
`

// Files of one task are in the workspace of the next before it begins,
// also on another node, as they were when they were handed over.
func TestATaskBeginsWithArtifactsOfAnotherOnAnotherNode(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	f.Persona("maker", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Persona("reader", `
turns:
  - text: I read them.
    calls:
      - tool: shell_exec
        arguments: {command: "cd artifacts/*; find . | sort; cat src/a.go src/deep/b.go src/link; sha256sum < big; test -x src/a.go && touch src/a.go && echo mine"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "read"}
`, "workspace: {scope: task}", "nodes: {names: [beta]}")
	made := f.Ended(f.Submit("maker"))
	read := f.Ended(strings.TrimSpace(f.CLI(0, "run", "reader", "read them", "-o", "name", "--artifact", made+":src", "--artifact", made+":b*").Out))
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", read)
	for _, part := range []string{"./big\n./src\n./src/a.go\n./src/deep\n./src/deep/b.go\n./src/link\n", "one\ntwo\none\n", "mine"} {
		require.Contains(t, steps[0].Observation, part)
	}
	sum := strings.Fields(f.CLI(0, "node", "exec", "alpha", "--agent", "maker", "--", "sha256sum", "big").Out)[0]
	require.Contains(t, steps[0].Observation, sum)

	var given []struct {
		FromTaskID string `json:"fromTaskId"`
		ToTaskID   string `json:"toTaskId"`
		State      string
		Files      int
		Missing    []string
	}
	f.JSON(&given, "task", "artifacts", made)
	require.Len(t, given, 1)
	require.Equal(t, []any{made, read, "done", 3}, []any{given[0].FromTaskID, given[0].ToTaskID, given[0].State, given[0].Files})
	watched := f.CLI(0, "task", "watch", read, "-o", "jsonl").Out
	require.Contains(t, watched, `"artifacts_promised"`)
	require.Contains(t, watched, `"artifacts_delivered"`)

	// Nothing there is a step's own change.
	require.Empty(t, f.CLI(0, "task", "diff", read).Out)
	require.Contains(t, f.CLI(3, "run", "reader", "x", "--artifact", made+":none").Err, `nothing in the workspace is at "none"`)
	require.Contains(t, f.CLI(4, "run", "reader", "x", "--artifact", made+":../x").Err, "leads out of the workspace")
}

// The files that a handoff's manifest names are in the target's workspace, on another
// node, at the place that the manifest names.
func TestAHandoffBringsItsFiles(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	agents(f, map[string]string{
		"coder": "agents: {handoff: [tester]}\nnodes: {names: [alpha]}", "tester": "nodes: {names: [beta]}",
	}, map[string]string{
		"coder": `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "mkdir -p app/sub; echo parser > app/sub/parser; echo run > app/run; echo private > other"}}]
  - calls: [{tool: handoff_to_agent, arguments: {target_agent: tester, status: done, summary_for_target: test it,
      artifacts: {working_dir: /workspace/app, files_changed: [sub/parser, app/run, app/deleted], cli_entrypoint: sh run}}}]
`,
		"tester": `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "cd handoff/*/app && pwd && cat sub/parser run; find /workspace/handoff -type f | wc -l"}}]
  - calls: [{tool: complete_task, arguments: {summary: tested}}]
`,
	})
	source := f.Ended(f.Submit("coder"))
	var given []struct {
		ToTaskID string `json:"toTaskId"`
		Folder   string
	}
	f.JSON(&given, "task", "artifacts", source)
	require.Len(t, given, 1)
	target := f.Ended(given[0].ToTaskID)
	var shown struct {
		Manifest struct {
			Artifacts struct {
				WorkingDir string `json:"working_dir"`
			}
		}
	}
	f.JSON(&shown, "task", "show", target)
	require.Equal(t, "/workspace/"+given[0].Folder+"/app", shown.Manifest.Artifacts.WorkingDir)
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", target)
	require.Contains(t, steps[0].Observation, shown.Manifest.Artifacts.WorkingDir+"\nparser\nrun\n2\n")
}

// A file that changes after it was handed over is not passed off as what
// was handed over.
func TestAnArtifactThatChangedIsNotDelivered(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	f.Persona("maker", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Persona("reader", `
turns:
  - text: I read them.
    calls:
      - tool: shell_exec
        arguments: {command: "cd artifacts/*; find . -type f | sort"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "read"}
`, "workspace: {scope: task}", "nodes: {names: [beta]}")
	made := f.Ended(f.Submit("maker"))
	f.CLI(0, "node", "drain", "beta")
	read := strings.TrimSpace(f.CLI(0, "run", "reader", "read them", "-o", "name", "--artifact", made+":src", "--artifact", made+":notes").Out)
	f.CLI(0, "node", "exec", "alpha", "--agent", "maker", "--", "sh", "-c", "echo changed > src/a.go; rm src/deep/b.go")
	f.CLI(0, "node", "undrain", "beta")
	f.Ended(read)
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", read)
	require.Contains(t, steps[0].Observation, "./notes")
	require.NotContains(t, steps[0].Observation, "a.go")
	var given []struct{ Missing []string }
	f.JSON(&given, "task", "artifacts", read)
	require.Equal(t, []string{"src/a.go", "src/deep/b.go"}, given[0].Missing)
	require.Contains(t, f.CLI(0, "task", "watch", read, "-o", "jsonl").Out, "had changed or gone before you began")
}

// An agent copies files between its jails on its nodes by digest; a change of another
// agent there is not lost silently, and the copy can be undone.
func TestAnAgentSyncsItsWorkspacesOnTwoNodes(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	sync := func(direction, more string) string {
		return fmt.Sprintf(`
turns:
  - text: I copy.
    calls:
      - tool: workspace_sync
        arguments: {node: beta, direction: %s, paths: ["src/**/*.go", notes]%s}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "copied"}
`, direction, more)
	}
	keys := []string{"workspace: {scope: agent}", "nodes: {names: [alpha, beta]}"}
	f.Persona("twin", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Ended(f.Submit("twin"))
	run := func(direction, more string) (id, said string) {
		f.Persona("twin", sync(direction, more), keys...)
		id = f.Ended(f.Submit("twin"))
		var steps []struct{ Observation string }
		f.JSON(&steps, "task", "steps", id)
		return id, steps[0].Observation
	}
	first, said := run("to", "")
	require.Contains(t, said, "copied 3 files")
	_, said = run("to", "")
	require.Contains(t, said, "copied 0 files, 0 bytes; 3 were there already")

	// What was copied there and not touched is replaced.
	alpha := func(command string) {
		f.CLI(0, "node", "exec", "alpha", "--agent", "twin", "--", "sh", "-c", command)
	}
	alpha("echo newer > notes")
	second, said := run("to", "")
	require.Contains(t, said, "copied 1 files, 6 bytes; 2 were there already")

	// The other way round, alpha's own is in the way.
	alpha("echo mine > notes")
	_, said = run("from", "")
	require.Contains(t, said, "AGENT_026")
	require.Equal(t, "mine\n", f.CLI(0, "agent", "files", "cat", "twin", "notes").Out)
	third, said := run("from", ", overwrite: true")
	require.Contains(t, said, "copied 1 files")
	require.Equal(t, "newer\n", f.CLI(0, "agent", "files", "cat", "twin", "notes").Out)
	f.CLI(0, "task", "undo", third, "--yes")
	require.Equal(t, "mine\n", f.CLI(0, "agent", "files", "cat", "twin", "notes").Out)

	// What it changed on the other node is shown and undone there.
	require.Contains(t, f.CLI(0, "task", "diff", second).Out, "-no\n+newer")
	f.CLI(0, "task", "undo", second, "--yes")
	f.CLI(0, "agent", "files", "send", "twin", "notes", "--from-node", "beta", "--into", "back")
	require.Equal(t, "no\n", f.CLI(0, "agent", "files", "cat", "twin", "back/notes").Out)
	f.CLI(0, "task", "undo", first, "--yes")
	require.Contains(t, f.CLI(3, "agent", "files", "send", "twin", "notes", "--from-node", "beta", "--into", "again").Err, "nothing in the workspace is at")

	// A node that the persona does not name.
	f.Persona("twin", sync("to", ""), "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	id := f.Ended(f.Submit("twin"))
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Contains(t, steps[0].Observation, "AGENT_002")
}

// People send files from one agent's workspace to another's.
func TestFilesAreSentBetweenAgents(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	f.Persona("maker", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Persona("other", maker, "workspace: {scope: agent}", "nodes: {names: [beta]}")
	made := f.Ended(f.Submit("maker"))
	f.Ended(f.Submit("other"))
	sent := f.CLI(0, "agent", "files", "send", "maker", "src", "--to-agent", "other", "--into", "in")
	require.Contains(t, sent.Err, "2 files, 8 bytes copied; 0 were there already")
	require.Contains(t, sent.Err, `not copied: "src/pipe"`)
	require.Equal(t, "two\n", f.CLI(0, "agent", "files", "cat", "other", "in/src/deep/b.go").Out)
	require.Contains(t, f.CLI(1, "agent", "files", "send", "maker", "big", "--to-agent", "other").Err, "AGENT_026")
	require.Contains(t, f.CLI(0, "task", "files", "send", made, "big", "--to-agent", "other", "--overwrite").Err, "1 files, 3000000 bytes")
	require.Contains(t, f.CLI(0, "audit", "list", "-o", "json").Out, "workspace.sent")
	f.CLI(2, "agent", "files", "send", "maker", "src")
	require.Contains(t, f.CLI(2, "agent", "files", "send", "maker", "src", "--to-agent", "maker", "--into", "").Err, "same workspace")
}
