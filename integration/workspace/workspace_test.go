package workspace

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What a task changed, by whatever tool, is shown step by step and
// undone; what others changed later is not.
func TestATasksChangesAreShownAndTakenBack(t *testing.T) {
	t.Parallel()
	f := harness.NewOn(t, "--undo-window", "1h")
	f.StartNode()
	f.StartWorker()
	f.Persona("changer", `
turns:
  - text: I change files.
    calls:
      - tool: shell_exec
        arguments: {command: "seq 5 > numbers; mkdir -p d; echo keep > d/keep; echo made"}
  - text: By another tool.
    calls:
      - tool: file_edit
        arguments: {path: numbers, old_string: "3\n", new_string: "three\n"}
  - text: And again.
    calls:
      - tool: shell_exec
        arguments: {command: "rm -r d; chmod 600 numbers; echo sk-ant-api03-canarycanarycanarycanarycanary > key"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "changed"}
`, "workspace: {scope: agent}")
	id := f.Submit("changer")
	f.Ended(id)

	var steps []struct {
		StepID  string `json:"stepId"`
		Tool    string
		Files   int
		Changes []struct{ Path, Kind string }
	}
	f.JSON(&steps, "task", "diff", id, "--steps")
	require.Len(t, steps, 3)
	require.Equal(t, "file_edit", steps[1].Tool)
	require.Equal(t, "numbers", steps[1].Changes[0].Path)
	require.Equal(t, "CHANGE_KIND_MODIFIED", steps[1].Changes[0].Kind)

	asAfter(t, f, id, steps[0].StepID, map[string]string{"numbers": "1\n2\n3\n4\n5\n", "d/keep": "keep\n"})
	asAfter(t, f, id, steps[1].StepID, map[string]string{"numbers": "1\n2\nthree\n4\n5\n", "d/keep": "keep\n"})
	diff := f.CLI(0, "task", "diff", id, "--step", steps[1].StepID)
	require.Contains(t, diff.Out, "--- a/numbers\n+++ b/numbers\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n")
	all := f.CLI(0, "task", "diff", id)
	require.Contains(t, all.Out, "+three")
	require.NotContains(t, all.Out, "canarycanary", "secrets in a diff are masked")
	require.Contains(t, f.CLI(0, "task", "diff", id, "--patch").Out, "new file mode 100644")

	tarball := f.CLI(0, "agent", "files", "export", "changer")
	var names []string
	for r := tar.NewReader(strings.NewReader(tarball.Out)); ; {
		head, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, head.Name)
	}
	require.Equal(t, []string{"key", "numbers"}, names)

	preview := f.CLI(0, "task", "undo", id, "--last", "1")
	require.Contains(t, preview.Out, "+ d/keep")
	require.Contains(t, preview.Err, "nothing was done yet")
	require.Contains(t, preview.Err, "can be undone for another")
	require.Contains(t, preview.Err, "not undone: effects outside /workspace", "what cannot be undone is said before")
	require.Contains(t, preview.Err, "(shell_exec, step 3)")
	f.CLI(3, "task", "files", "cat", id, "d/keep")
	done := f.CLI(0, "task", "undo", id, "--last", "1", "--yes")
	require.Contains(t, done.Err, "undone as undo_")
	require.Equal(t, "keep\n", f.CLI(0, "task", "files", "cat", id, "d/keep").Out)
	require.Equal(t, "1\n2\nthree\n4\n5\n", f.CLI(0, "task", "files", "cat", id, "numbers").Out)

	// The agent runs again and changes a file of the first task's.
	f.Persona("changer", `
turns:
  - text: I change a file.
    calls:
      - tool: shell_exec
        arguments: {command: "echo other > d/keep"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "changed"}
`, "workspace: {scope: agent}")
	later := f.Submit("changer")
	f.Ended(later)
	conflict := f.CLI(1, "task", "undo", id, "--yes")
	require.Contains(t, conflict.Err, `"d/keep" was changed later, by step_`)
	f.CLI(0, "task", "undo", id, "--skip-conflicts", "--yes")
	// The past stays as it was, also where it was undone.
	asAfter(t, f, id, steps[0].StepID, map[string]string{"numbers": "1\n2\n3\n4\n5\n", "d/keep": "keep\n"})
	asAfter(t, f, id, steps[2].StepID, map[string]string{"numbers": "1\n2\nthree\n4\n5\n", "key": "sk-ant-api03-canarycanarycanarycanarycanary\n"})
	f.CLI(3, "task", "files", "cat", id, "numbers")
	require.Equal(t, "other\n", f.CLI(0, "task", "files", "cat", id, "d/keep").Out)
	f.CLI(3, "task", "undo", id, "--yes")

	var events []struct {
		Type    string
		Payload map[string]any
	}
	for line := range strings.Lines(f.CLI(0, "task", "watch", id, "-o", "jsonl").Out) {
		var e struct {
			Type    string
			Payload map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	var undone []map[string]any
	for _, e := range events {
		if e.Type == "workspace_undone" {
			undone = append(undone, e.Payload)
		}
	}
	require.Len(t, undone, 2)
	require.NotEqual(t, undone[0]["original_digest"], undone[0]["restored_digest"])
	var entries []struct{ Before, After map[string]any }
	f.JSON(&entries, "audit", "list", "--object", id, "--action", "workspace.undone")
	require.Len(t, entries, 2)
	digests := map[any]any{undone[0]["original_digest"]: undone[0]["restored_digest"], undone[1]["original_digest"]: undone[1]["restored_digest"]}
	for _, e := range entries {
		require.Equal(t, digests[e.Before["digest"]], e.After["digest"])
	}
}

// After its window an undo is refused, and the error names the window's length.
func TestTheTimeToUndoIsOver(t *testing.T) {
	t.Parallel()
	f := harness.NewOn(t, "--undo-window", "1ms")
	f.StartNode()
	f.StartWorker()
	f.Persona("late", `
turns:
  - text: I write.
    calls:
      - tool: file_write
        arguments: {path: a, content: "x"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "written"}
`)
	id := f.Submit("late")
	f.Ended(id)
	require.Contains(t, f.CLI(0, "task", "diff", id, "--steps").Err, "the time to undo is over")
	require.Contains(t, f.CLI(1, "task", "undo", id, "--yes").Err, "could be undone until")
	require.Equal(t, "x", f.CLI(0, "task", "files", "cat", id, "a").Out)

	var nodes []struct{ Name string }
	f.JSON(&nodes, "node", "list")
	f.CLI(0, "node", "exec", nodes[0].Name, "--agent", "late", "--", "sh", "-c", "echo y > a")
	command := strings.Fields(f.CLI(0, "node", "execs", nodes[0].Name, "-o", "name").Out)[0]
	require.Contains(t, f.CLI(0, "node", "undo", command).Err, "the time to undo is over")
	require.Contains(t, f.CLI(1, "node", "undo", command, "--yes").Err, "could be undone until")
	require.Equal(t, "y\n", f.CLI(0, "agent", "files", "cat", "late", "a").Out)
}

// Files go in and come out by the byte, and what is there is not sent twice.
func TestFilesArePutAndGot(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("keeper", `
turns:
  - text: I list.
    calls:
      - tool: shell_exec
        arguments: {command: "ls; rm -rf in/d"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "listed"}
`, "workspace: {scope: agent}")
	first := f.Submit("keeper")
	f.Ended(first)
	from, to := t.TempDir(), t.TempDir()
	large := bytes.Repeat([]byte("0123456789\n"), 300_000)
	require.NoError(t, os.MkdirAll(filepath.Join(from, "d", "e"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "d", "large"), large, 0o640))
	require.NoError(t, os.WriteFile(filepath.Join(from, "d", "run"), []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.Symlink("d/run", filepath.Join(from, "link")))
	put := f.CLI(0, "agent", "files", "put", "keeper", from, "in")
	require.Contains(t, put.Err, "2 files, 3300010 bytes copied; 0 were there already")
	put = f.CLI(0, "agent", "files", "put", "keeper", from, "in")
	require.Contains(t, put.Err, "0 files, 0 bytes copied; 2 were there already")
	f.CLI(0, "agent", "files", "get", "keeper", "in", to)
	got, err := os.ReadFile(filepath.Join(to, "in", "d", "large"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(large, got))
	info, err := os.Stat(filepath.Join(to, "in", "link"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o100)

	// A file that a person created is no step's change, and a step's deletion of it is
	// undone.
	second := f.Submit("keeper")
	f.Ended(second)
	f.CLI(3, "agent", "files", "cat", "keeper", "in/d/run")
	f.CLI(0, "task", "undo", second, "--yes")
	require.Equal(t, "#!/bin/sh\n", f.CLI(0, "agent", "files", "cat", "keeper", "in/d/run").Out)

	// A watcher sees new files.
	watching := f.Person(t.Context(), "agent", "files", "watch", "keeper", "in")
	output, err := watching.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watching.Start())
	seen := make(chan string)
	go func() {
		defer close(seen)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if strings.Contains(lines.Text(), "in/d/seen") {
				seen <- lines.Text()
				return
			}
		}
	}()
	line := ""
	waittest.Until(t, 30*time.Second, "the watcher to see a file", func() bool {
		// It does not report when it began.
		require.NoError(t, os.WriteFile(filepath.Join(from, "d", "seen"), []byte(time.Now().String()), 0o600))
		f.CLI(0, "agent", "files", "put", "keeper", from, "in")
		select {
		case line = <-seen:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	require.Regexp(t, `^[a-z]+ +in/d/seen$`, line)
	require.NoError(t, watching.Process.Signal(syscall.SIGINT))
	_ = watching.Wait()
}

// A task that is resumed from a checkpoint gets the workspace of that checkpoint, and
// never another one without a request.
func TestATaskThatGoesOnGetsTheCheckpointsWorkspace(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	f.StartWorker()
	f.Persona("back", `
turns:
  - text: I begin.
    calls:
      - tool: shell_exec
        arguments: {command: "echo 1 > a"}
  - text: I go on.
    calls:
      - tool: shell_exec
        arguments: {command: "cat a >> out; echo 2 > a; mkdir -p d; echo x > d/x"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "changed"}
`, "workspace: {scope: agent}")
	ended := func(id string) string {
		t.Helper()
		f.Ended(id)
		return id
	}
	resume := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(f.CLI(0, append([]string{"task", "resume-from", "-o", "name", "--iteration", "1"}, args...)...).Out)
	}
	cat := func(path string) string { return f.CLI(0, "agent", "files", "cat", "back", path).Out }
	first := ended(f.Submit("back"))
	require.Equal(t, "1\n", cat("out"))

	preview := f.CLI(0, "task", "resume-from", first, "--iteration", "1", "--preview")
	require.Equal(t, "~ a\n- d\n- d/x\n- out\n", preview.Out)
	require.Contains(t, preview.Err, "4 files would be restored")
	require.Equal(t, "2\n", cat("a"), "a preview does nothing")

	second := ended(resume(first))
	require.Equal(t, "1\n", cat("out"), "it began with a as it was at the checkpoint, and without out")
	watched := f.CLI(0, "task", "watch", second, "-o", "jsonl").Out
	require.Contains(t, watched, `"workspace_restored"`)
	require.Contains(t, f.CLI(0, "audit", "list", "-o", "json").Out, "workspace.restored")

	// The files as they are.
	ended(resume(second, "--workspace", "keep"))
	require.Equal(t, "1\n2\n", cat("out"))

	// A person's file would be lost.
	file := filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(file, []byte("mine\n"), 0o600))
	f.CLI(0, "agent", "files", "put", "back", file)
	require.Contains(t, f.CLI(0, "task", "resume-from", first, "--iteration", "1", "--preview").Err, "others changed some of this")
	require.Contains(t, f.CLI(1, "task", "resume-from", first, "--iteration", "1").Err, "their work would be lost")
	require.Equal(t, "mine\n", cat("notes"))
	ended(resume(first, "--workspace", "overwrite"))
	f.CLI(3, "agent", "files", "cat", "back", "notes")
	require.Equal(t, "1\n", cat("out"))

	// The node's record is lost: the checkpoint's state is gone, and its number
	// is another one's.
	node.Stop(t)
	records, err := filepath.Glob(filepath.Join(f.NodeDir, "jails", "*", "snapshots", "record.db"))
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.NoError(t, os.Remove(records[0]))
	f.StartNode()
	waittest.Until(t, 60*time.Second, "the node to be back", func() bool {
		return strings.Contains(harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "task", "resume-from", first, "--iteration", "1").Err, "is not kept any more")
	})
}

// asAfter verifies that the workspace of a task had these files, and no others, after a
// step, byte for byte but for secrets, which are masked.
func asAfter(t *testing.T, f *harness.Fleet, taskID, stepID string, want map[string]string) {
	t.Helper()
	files := f.Client().Files
	listed, err := files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
		Workspace: &deckhandv1.ListFilesRequest_TaskId{TaskId: taskID}, Recursive: true, StepId: stepID,
	})
	require.NoError(t, err)
	got := map[string]string{}
	for _, file := range listed.GetFiles() {
		if file.GetType() != "file" {
			continue
		}
		read, err := files.ReadFile(t.Context(), &deckhandv1.ReadFileRequest{
			Workspace: &deckhandv1.ReadFileRequest_TaskId{TaskId: taskID}, Path: file.GetPath(), StepId: stepID,
		})
		require.NoError(t, err)
		require.Equal(t, file.GetSize(), read.GetSize())
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(want[file.GetPath()]))), read.GetDigest(), file.GetPath())
		got[file.GetPath()] = string(read.GetContent())
		if strings.Contains(want[file.GetPath()], "canary") {
			require.NotContains(t, got[file.GetPath()], "canary", "secrets in a file are masked")
			got[file.GetPath()] = want[file.GetPath()]
		}
	}
	require.Equal(t, want, got)
}

// A run that changes more files than its limit, or a larger one, pauses after that call and
// says how it is let have more; with more it goes on.
func TestARunStopsAtItsLimitsOfFiles(t *testing.T) {
	t.Parallel()
	f := harness.NewOn(t)
	f.StartNode()
	f.StartWorker()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "filler.md"), []byte(`---
name: filler
description: For tests.
provider: script
script: filler.script.yaml
tools: [shell_exec, complete_task]
limits: {files: 10, file_size: 1MiB, on_limit: pause}
---
Do what the script says.
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "filler.script.yaml"), []byte(`
turns:
  - calls:
      - tool: shell_exec
        arguments: {command: "touch first; for i in $(seq 8); do echo $i > f$i; done"}
  - calls:
      - tool: shell_exec
        arguments: {command: "echo more > f9; rm f1 f2"}
  - calls:
      - tool: shell_exec
        arguments: {command: "head -c 2000000 /dev/zero > big"}
  - calls:
      - tool: complete_task
        arguments: {summary: "filled"}
`), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
	id := f.Submit("filler")
	waittest.Until(t, time.Minute, "the run to pause", func() bool { return f.Task(id).State == "TASK_STATE_PAUSED" })
	reason := f.Task(id).Reason
	require.Contains(t, reason, "the limit of 1 MiB file_size is reached (now 1.9 MiB)", "never were ten files there: two are gone again")
	require.Contains(t, reason, "--limit file_size=2MiB")
	warned := f.CLI(0, "task", "watch", id, "--follow=false")
	require.Contains(t, warned.Out+warned.Err, "files: 9 of 10 used")
	f.CLI(0, "task", "resume", id, "--limit", "file_size=2MiB")
	f.Ended(id)
	asREST(t, f, id)
}
