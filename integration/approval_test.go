package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// E3: a grant holds for the workspace that was asked about. When somebody
// changed it meanwhile, the call is asked about again and not made.
func TestAGrantHoldsForTheWorkspaceAsItWas(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	f.persona("careful", `
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
	db, err := pgx.Connect(t.Context(), f.database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	// asked waits until a question is bound to the workspace as it is.
	asked := func(id string) (item string) {
		t.Helper()
		eventually(t, 90*time.Second, "the question to be bound to the workspace", func() bool {
			var bound int
			require.NoError(t, db.QueryRow(t.Context(),
				"SELECT count(*) FROM steps WHERE task_id = $1 AND state = 'waiting' AND asked_state IS NOT NULL", id).Scan(&bound))
			return bound == 1 && f.task(id).State == "TASK_STATE_AWAITING_APPROVAL"
		})
		var items []struct{ ID, State, Why string }
		f.json(&items, "inbox", "list", "--task", id)
		require.Len(t, items, 1)
		return items[0].ID
	}
	plan := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.WriteFile(plan, []byte("the plan\n"), 0o600))

	id := f.submit("careful")
	first := asked(id)
	f.cli(0, "task", "files", "put", id, plan)
	f.cli(0, "inbox", "approve", first)
	second := ""
	eventually(t, 90*time.Second, "another question", func() bool { second = asked(id); return second != first })
	f.cli(3, "task", "files", "cat", id, "out")
	require.Contains(t, f.cli(0, "inbox", "show", second, "-o", "json").out, "has changed since: workspace")
	f.cli(0, "inbox", "approve", second)
	f.ended(id)
	require.Equal(t, "ran\nthe plan\n", f.cli(0, "task", "files", "cat", id, "out").out)
}

// H7, C9: what people's commands change is on the node's record like what steps
// change: an undo does not lose it.
func TestAPersonsCommandIsOnRecord(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startNode()
	f.startWorker()
	f.persona("keeper", `
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
	id := f.ended(f.submit("keeper"))
	var nodes []struct{ Name string }
	f.json(&nodes, "node", "list")
	f.cli(0, "node", "exec", nodes[0].Name, "--agent", "keeper", "--", "sh", "-c", "echo person > a")
	refused := f.cli(1, "task", "undo", id, "--yes")
	require.Contains(t, refused.out+refused.err, "nexec_")
	f.cli(0, "task", "undo", id, "--yes", "--skip-conflicts")
	require.Equal(t, "person\n", f.cli(0, "agent", "files", "cat", "keeper", "a").out)
	require.True(t, strings.Contains(f.cli(3, "agent", "files", "cat", "keeper", "b").err, "no file"))
}
