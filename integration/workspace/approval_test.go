package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// careful applies an agent whose commands need an approval, and returns a connection to
// read what the approvals are bound to.
func careful(t *testing.T, f *harness.Fleet) *pgx.Conn {
	t.Helper()
	f.Persona("careful", `
turns:
  - text: I run it.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> out; cat plan >> out"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "ran"}
`, "workspace: {scope: task}", "approvals: {tools: [shell_exec]}")
	db, err := pgx.Connect(t.Context(), f.Database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

// bound reports whether a call of a task that waits, or is granted, is bound to a
// state of the workspace.
func bound(t *testing.T, db *pgx.Conn, id string) bool {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRow(t.Context(),
		"SELECT count(*) FROM steps WHERE task_id = $1 AND state IN ('waiting', 'granted') AND asked_state IS NOT NULL", id).Scan(&n))
	return n == 1
}

// asked waits until a question of a task is bound to the workspace as it is.
func asked(f *harness.Fleet, db *pgx.Conn, id string) (item string) {
	f.T.Helper()
	waittest.Until(f.T, 90*time.Second, "the question to be bound to the workspace", func() bool {
		var n int
		require.NoError(f.T, db.QueryRow(f.T.Context(),
			"SELECT count(*) FROM steps WHERE task_id = $1 AND state = 'waiting' AND asked_state IS NOT NULL", id).Scan(&n))
		return n == 1 && f.Task(id).State == "TASK_STATE_AWAITING_APPROVAL"
	})
	var items []struct{ ID string }
	f.JSON(&items, "inbox", "list", "--task", id)
	require.Len(f.T, items, 1)
	return items[0].ID
}

// A grant is valid for the workspace that approval was requested for. If the workspace
// was changed since, approval is requested again and the call does not run.
func TestAGrantHoldsForTheWorkspaceAsItWas(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	db := careful(t, f)
	plan := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.WriteFile(plan, []byte("the plan\n"), 0o600))

	id := f.Submit("careful")
	first := asked(f, db, id)
	f.CLI(0, "task", "files", "put", id, plan)
	f.CLI(0, "inbox", "approve", first)
	second := ""
	waittest.Until(t, 90*time.Second, "another question", func() bool { second = asked(f, db, id); return second != first })
	f.CLI(3, "task", "files", "cat", id, "out")
	require.Contains(t, f.CLI(0, "inbox", "show", second, "-o", "json").Out, "has changed since: workspace")
	f.CLI(0, "inbox", "approve", second)
	f.Ended(id)
	require.Equal(t, "ran\nthe plan\n", f.CLI(0, "task", "files", "cat", id, "out").Out)
}

// A decision that comes before the jail was frozen, or while the node is offline, is
// bound to the workspace as well: to its state at the decision, at the node's return, or
// to none, and then approval is requested again.
func TestAnAnswerIsBoundToTheWorkspaceWhenItCanBe(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	node := f.StartNode()
	worker := f.StartWorker()
	db := careful(t, f)
	plan := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.WriteFile(plan, []byte("the plan\n"), 0o600))
	// unbind removes what the hub could not record when it requested the approval.
	unbind := func(id string) {
		_, err := db.Exec(t.Context(), "UPDATE steps SET asked_state = NULL, asked_record = '' WHERE task_id = $1", id)
		require.NoError(t, err)
	}

	// Before the jail was frozen: the state at the decision counts.
	id := f.Submit("careful")
	first := asked(f, db, id)
	worker.Stop(t)
	unbind(id)
	f.CLI(0, "inbox", "approve", first)
	require.True(t, bound(t, db, id), "the answer looks at the workspace")
	f.CLI(0, "task", "files", "put", id, plan)
	f.StartWorker()
	second := ""
	waittest.Until(t, 90*time.Second, "another question", func() bool { second = asked(f, db, id); return second != first })
	require.Contains(t, f.CLI(0, "inbox", "show", second, "-o", "json").Out, "has changed since: workspace")
	f.CLI(3, "task", "files", "cat", id, "out")

	// Asked while the node was away: it is that of the node's return.
	node.Kill()
	unbind(id)
	node = f.StartNode()
	waittest.Until(t, 60*time.Second, "the question to be bound", func() bool { return bound(t, db, id) })
	require.Equal(t, second, asked(f, db, id))

	// Decided while the node is offline: the workspace cannot be inspected, so the grant
	// is not valid.
	node.Kill()
	unbind(id)
	f.CLI(0, "inbox", "approve", second)
	require.False(t, bound(t, db, id))
	f.StartNode()
	third := ""
	waittest.Until(t, 120*time.Second, "another question", func() bool { third = asked(f, db, id); return third != second })
	require.Contains(t, f.CLI(0, "inbox", "show", third, "-o", "json").Out, "the node was offline, so the workspace could not be inspected")
	f.CLI(3, "task", "files", "cat", id, "out")
	f.CLI(0, "inbox", "approve", third)
	f.Ended(id)
	require.Equal(t, "ran\nthe plan\n", f.CLI(0, "task", "files", "cat", id, "out").Out)
}

// What people's commands change is on the node's record like what steps
// change: an undo does not lose it.
func TestAPersonsCommandIsOnRecord(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("keeper", `
turns:
  - text: I write.
    calls:
      - tool: shell_exec
        arguments: {command: "echo agent > a; echo agent > b"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "wrote"}
`, "workspace: {scope: agent}")
	id := f.Ended(f.Submit("keeper"))
	var nodes []struct{ Name string }
	f.JSON(&nodes, "node", "list")
	f.CLI(0, "node", "exec", nodes[0].Name, "--agent", "keeper", "--", "sh", "-c", "echo person > a")
	refused := f.CLI(1, "task", "undo", id, "--yes")
	require.Contains(t, refused.Out+refused.Err, "nexec_")
	f.CLI(0, "task", "undo", id, "--yes", "--skip-conflicts")
	require.Equal(t, "person\n", f.CLI(0, "agent", "files", "cat", "keeper", "a").Out)
	require.True(t, strings.Contains(f.CLI(3, "agent", "files", "cat", "keeper", "b").Err, "no file"))
}

// What a person changed by a command or a terminal is undone like what a
// step changed: with a preview, conflicts, a record, and for a time.
func TestAPersonsCommandIsTakenBack(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("keeper", `
turns:
  - text: I write.
    calls:
      - tool: shell_exec
        arguments: {command: "echo agent > a; echo agent > b"}
  - text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "wrote"}
`, "workspace: {scope: agent}")
	f.Ended(f.Submit("keeper"))
	var nodes []struct{ Name string }
	f.JSON(&nodes, "node", "list")
	node := nodes[0].Name
	type exec struct {
		ID, State, UndoID string
		Files             int
	}
	newest := func() exec {
		var execs []exec
		f.JSON(&execs, "node", "execs", node)
		return execs[0]
	}
	did := func(command string) string {
		f.CLI(0, "node", "exec", node, "--agent", "keeper", "--", "sh", "-c", command)
		return newest().ID
	}
	cat := func(path string) string { return f.CLI(0, "agent", "files", "cat", "keeper", path).Out }

	first := did("echo person > a; mkdir d; echo new > d/c; chmod 600 b")
	require.Equal(t, 4, newest().Files)
	preview := f.CLI(0, "node", "undo", first)
	require.Equal(t, "~ a\n~ b\n- d\n- d/c\n", preview.Out)
	require.Contains(t, preview.Err, "nothing was done yet")
	require.Contains(t, preview.Err, "can be undone for another")
	require.Equal(t, "person\n", cat("a"))
	require.Contains(t, f.CLI(0, "node", "undo", first, "--yes").Err, "undone as undo_")
	require.Equal(t, "agent\n", cat("a"))
	f.CLI(3, "agent", "files", "cat", "keeper", "d/c")
	require.NotEmpty(t, newest().UndoID)
	var entries []struct {
		Action, ObjectID string
		Before, After    map[string]any
	}
	f.JSON(&entries, "audit", "list", "--object", first, "--action", "workspace.undone")
	require.Len(t, entries, 1)
	require.NotEqual(t, entries[0].Before["digest"], entries[0].After["digest"])
	require.Contains(t, f.CLI(1, "node", "undo", first, "--yes").Err, "was undone at")

	// What changed later is not lost unasked.
	second := did("echo second > a; echo second > b")
	third := did("echo third > b")
	require.Contains(t, f.CLI(1, "node", "undo", second, "--yes").Err, `"b" was changed later, by `+third)
	f.CLI(0, "node", "undo", second, "--yes", "--skip-conflicts")
	require.Equal(t, "agent\nthird\n", cat("a")+cat("b"))

	// A terminal.
	shell := f.Person(t.Context(), "node", "shell", node, "--agent", "keeper")
	master, err := pty.Start(shell)
	require.NoError(t, err)
	defer func() { _ = master.Close() }()
	_, err = master.WriteString("echo typed > t; exit\r")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, master) // it ends with the terminal
	require.NoError(t, shell.Wait())
	require.Equal(t, "typed\n", cat("t"))
	f.CLI(0, "node", "undo", newest().ID, "--yes")
	f.CLI(3, "agent", "files", "cat", "keeper", "t")

	// What cannot be.
	require.Contains(t, f.CLI(3, "node", "undo", did("cat a"), "--yes").Err, "changed no files")
	f.CLI(0, "node", "exec", node, "--host", "--", "true")
	require.Contains(t, f.CLI(1, "node", "undo", newest().ID, "--yes").Err, "the machine itself")
	running := f.Person(t.Context(), "node", "exec", node, "--agent", "keeper", "--", "sh", "-c", "echo on; sleep 1000")
	output, err := running.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, running.Start())
	_, err = output.Read(make([]byte, 8))
	require.NoError(t, err)
	require.Contains(t, f.CLI(1, "node", "undo", newest().ID).Err, "has not ended")
	f.CLI(0, "node", "kill", newest().ID)
	require.Error(t, running.Wait())
}

// Two runs write one file. The one that read it before the other wrote gets an error,
// overwrites nothing, and merges.
func TestTwoAgentsThatWriteOneFile(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("writer", `
turns:
  - when: add the second line
    text: I add it.
    calls:
      - tool: file_edit
        arguments: {path: shared.md, old_string: "first\n", new_string: "first\nsecond\n"}
    next: done
  - text: I begin.
    calls:
      - tool: file_write
        arguments: {path: shared.md, content: "first\n"}
    capture: {digest: 'sha256 (\w+)'}
  - text: Another does a part.
    calls:
      - tool: create_subtask
        arguments: {goal: add the second line}
  - text: I write what I have.
    calls:
      - tool: file_write
        arguments: {path: shared.md, content: "first\nthird\n", expect_digest: "${digest}"}
      - tool: file_edit
        arguments: {path: shared.md, old_string: "first\n", new_string: "mine\n", expect_digest: "${digest}"}
      - tool: file_append
        arguments: {path: shared.md, content: "mine\n", expect_digest: "${digest}"}
  - when: AGENT_026
    text: Somebody else was there.
    calls:
      - tool: file_read
        arguments: {path: shared.md}
    capture: {now: 'sha256 (\w+)'}
  - text: I merge.
    calls:
      - tool: file_write
        arguments: {path: shared.md, content: "first\nsecond\nthird\n", expect_digest: "${now}"}
  - name: done
    text: All done.
    calls:
      - tool: complete_task
        arguments: {summary: "written"}
`, "workspace: {scope: agent}")
	id := f.Ended(f.Submit("writer"))
	require.Equal(t, "first\nsecond\nthird\n", f.CLI(0, "agent", "files", "cat", "writer", "shared.md").Out)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	for _, step := range steps[2:5] {
		require.Equal(t, "STEP_STATE_FAILED", step.State, step.Tool)
		require.Contains(t, step.Observation, "AGENT_026", step.Tool)
		require.Contains(t, step.Observation, "it was changed in the meantime", step.Tool)
	}
	require.Contains(t, steps[5].Observation, "     1\tfirst\n     2\tsecond\n")
}
