package workspace

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// A handoff's manifest shares read-only files beside those that it copies. The target
// reads them where the manifest says, on another node and on the same one, and can change
// neither with a command nor with a tool.
func TestAHandoffSharesFilesForReadingOnly(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	const coder = `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "mkdir -p app lib/deep; echo work > app/work; echo one > lib/a; echo two > lib/deep/b; printf '#!/bin/sh\necho ran\n' > lib/run; chmod 700 lib/run; chmod 600 lib/a; ln -s deep/b lib/link"}}]
  - calls: [{tool: handoff_to_agent, arguments: {target_agent: TARGET, status: done, summary_for_target: test it,
      artifacts: {working_dir: /workspace/app, files_changed: [work], files_shared: [/workspace/lib]}}}]
`
	const reader = `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "cd shared/*/lib && pwd && cat a deep/b link && ./run && cat /workspace/handoff/*/app/work && echo mine > /workspace/handoff/*/app/work"}}]
    capture: {dir: '(?m)^/workspace/(\S+)$'}
  - calls: [{tool: shell_exec, arguments: {command: "cd ${dir}; echo x > a; rm -rf deep; mv run away; touch new; chmod u+w a; cat a deep/b; ls"}}]
  - calls: [{tool: file_write, arguments: {path: "${dir}/a", content: x}}]
  - calls: [{tool: file_edit, arguments: {path: "${dir}/deep/b", old_string: two, new_string: x}}]
  - calls: [{tool: file_move, arguments: {from: "${dir}/deep", to: away}}]
  - calls: [{tool: file_read, arguments: {path: "${dir}/a"}}]
  - calls: [{tool: shell_exec, arguments: {command: "cp -r ${dir} mine && chmod -R u+w mine && echo x > mine/a && cat mine/a"}}]
  - calls: [{tool: complete_task, arguments: {summary: tested}}]
`
	tools := "tools: [shell_exec, file_read, file_write, file_edit, file_move, handoff_to_agent]"
	agents(f, map[string]string{
		"coder-far": "agents: {handoff: [far]}\nnodes: {names: [alpha]}", "coder-near": "agents: {handoff: [near]}\nnodes: {names: [alpha]}",
		"far": "nodes: {names: [beta]}", "near": "nodes: {names: [alpha]}",
	}, map[string]string{
		"coder-far": strings.ReplaceAll(coder, "TARGET", "far"), "coder-near": strings.ReplaceAll(coder, "TARGET", "near"), "far": reader, "near": reader,
	}, tools)
	sources := map[string]string{"far": f.Submit("coder-far"), "near": f.Submit("coder-near")}
	for name, source := range sources {
		f.Ended(source)
		var given []struct {
			ToTaskID string `json:"toTaskId"`
			Folder   string
			Shared   bool
			Files    int
		}
		f.JSON(&given, "task", "artifacts", source)
		require.Len(t, given, 2, name)
		target := f.Ended(given[0].ToTaskID)
		for _, one := range given {
			if one.Shared {
				require.Equal(t, 3, one.Files)
				require.True(t, strings.HasPrefix(one.Folder, "shared/handoff_"), one.Folder)
			} else {
				require.Equal(t, 1, one.Files)
			}
		}
		require.Regexp(t, `(?m)shared .*shared/handoff_`, f.CLI(0, "task", "artifacts", source).Out)
		var shown struct {
			Manifest struct {
				Artifacts struct {
					SharedDir   string   `json:"shared_dir"`
					WorkingDir  string   `json:"working_dir"`
					FilesShared []string `json:"files_shared"`
				}
			}
		}
		f.JSON(&shown, "task", "show", target)
		require.Equal(t, []string{"/workspace/lib"}, shown.Manifest.Artifacts.FilesShared)
		var steps []struct{ Tool, State, Observation string }
		f.JSON(&steps, "task", "steps", target)
		require.Len(t, steps, 8, name)
		require.Contains(t, steps[0].Observation, shown.Manifest.Artifacts.SharedDir+"/lib\none\ntwo\ntwo\nran\nwork\n", name)
		for _, part := range []string{
			" a: Permission denied", "'deep/b': Permission denied", "'run' to 'away': Permission denied", "one\ntwo\na\ndeep\nlink\nrun\n",
		} {
			require.Contains(t, steps[1].Observation, part, name)
		}
		for _, step := range steps[2:5] {
			require.Equal(t, "STEP_STATE_FAILED", step.State, "%v", step)
			require.Contains(t, step.Observation, "AGENT_002", step.Tool)
			require.Contains(t, step.Observation, "shared with this workspace for reading only", step.Tool)
			require.Contains(t, step.Observation, "copy it to another folder", step.Tool)
		}
		require.Contains(t, steps[5].Observation, "one", name)
		require.Contains(t, steps[6].Observation, "x\n", name)
		// What was shared is no step's change.
		diff := f.CLI(0, "task", "diff", target, "--steps").Out
		require.NotContains(t, diff, "~shared/", name)
		require.Contains(t, diff, "mine/a", name)
	}
}

// People share files with a task for reading only; what its source does
// after is not seen.
func TestATaskBeginsWithSharedFiles(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	f.Persona("maker", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Persona("reader", `
turns:
  - text: I read them.
    calls:
      - tool: shell_exec
        arguments: {command: "cd shared/*; cat src/a.go; echo x >> src/a.go; cat src/a.go; rm -f src/a.go; ls src"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "read"}
`, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	made := f.Ended(f.Submit("maker"))
	share := func() string {
		id := f.Ended(strings.TrimSpace(f.CLI(0, "run", "reader", "read them", "-o", "name", "--share", made+":src").Out))
		var steps []struct{ Observation string }
		f.JSON(&steps, "task", "steps", id)
		return steps[0].Observation
	}
	// Standard output and standard error come by ways of their own.
	reads := func(content string) {
		var read, denied []string
		for line := range strings.Lines(share()) {
			if strings.Contains(line, "Permission denied") {
				denied = append(denied, line)
			} else {
				read = append(read, line)
			}
		}
		require.Contains(t, strings.Join(read, ""), content+"\n"+content+"\na.go\ndeep\nlink\n")
		require.Len(t, denied, 2, "neither changed nor removed")
	}
	reads("one")
	f.CLI(0, "node", "exec", "alpha", "--agent", "maker", "--", "sh", "-c", "echo newer > src/a.go")
	require.Equal(t, "one\n", f.CLI(0, "agent", "files", "cat", "reader", "shared/"+made+"/src/a.go").Out)
	// Shared again, the earlier files, which the target could not edit, are replaced.
	reads("newer")
	put := t.TempDir()
	require.NoError(t, os.WriteFile(put+"/a.go", []byte("mine"), 0o600))
	require.Contains(t, f.CLI(4, "agent", "files", "put", "reader", put+"/a.go", "shared/"+made+"/src").Err, "for reading only")
}

// Files that are in the way of what a task was promised are named, with
// what to do, and are not touched.
func TestFilesInTheWayOfArtifactsAreNamed(t *testing.T) {
	t.Parallel()
	f := twoNodes(t)
	f.Persona("maker", maker, "workspace: {scope: agent}", "nodes: {names: [alpha]}")
	f.Persona("reader", `
turns:
  - text: I work on them.
    calls:
      - tool: shell_exec
        arguments: {command: "cd artifacts/*; echo mine > src/a.go; echo mine > notes"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "read"}
`, "workspace: {scope: agent}", "nodes: {names: [beta]}")
	made := f.Ended(f.Submit("maker"))
	give := func() string {
		return strings.TrimSpace(f.CLI(0, "run", "reader", "work", "-o", "name", "--artifact", made+":src", "--artifact", made+":notes").Out)
	}
	f.Ended(give())
	f.CLI(0, "node", "exec", "alpha", "--agent", "maker", "--", "sh", "-c", "echo newer > src/a.go; echo newer > notes")
	id := give()
	waittest.Until(t, 90*time.Second, "the task to say what is in the way", func() bool {
		return strings.Contains(f.Task(id).Reason, "tries again")
	})
	folder := "artifacts/" + made
	for _, part := range []string{folder + `/notes"`, folder + `/src/a.go"`, "nothing was copied", "move what is there away"} {
		require.Contains(t, f.Task(id).Reason, part)
	}
	require.Equal(t, "mine\n", f.CLI(0, "agent", "files", "cat", "reader", folder+"/src/a.go").Out)
	// Out of the way, it begins by itself.
	f.CLI(0, "node", "exec", "beta", "--agent", "reader", "--", "mv", "artifacts", "old")
	db, err := pgx.Connect(t.Context(), f.Database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	_, err = db.Exec(t.Context(), "UPDATE tasks SET not_before = now() WHERE id = $1 AND not_before IS NOT NULL", id) // its retry is due
	require.NoError(t, err)
	f.Ended(id)
	require.Equal(t, "two\n", f.CLI(0, "agent", "files", "cat", "reader", folder+"/src/deep/b.go").Out)

	// A task that is run again begins with what the first one did.
	f.CLI(0, "node", "exec", "beta", "--agent", "reader", "--", "rm", "-r", "artifacts")
	again := f.Ended(strings.TrimSpace(f.CLI(0, "task", "retry", id, "-o", "name").Out))
	var given []struct{ State, Folder string }
	f.JSON(&given, "task", "artifacts", again)
	require.Len(t, given, 1)
	require.Equal(t, folder, given[0].Folder)
}
