package task_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// The zero Viewer sees nothing, although many rows have no user; only one with All sees
// everything.
func TestAViewerWithoutANameSeesNothing(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	agent := f.Agent("seen", persona.ScopeAgent)
	anns := f.Submit(agent, "ann", nil).ID
	open := f.Submit("", "ann", nil).ID // not assigned
	f.Exec("UPDATE agents SET owner = '' WHERE id = $1", agent)
	node := f.Node("n")
	_, err := f.Store.CreateStep(t.Context(), db.CreateStepParams{
		ID: "step_a", OrgID: tasktest.Org, TaskID: anns, Turn: 1, Tool: "file_list", Category: "safe",
		Arguments: json.RawMessage("{}"), ArgumentsSealed: []byte{0}, ArgumentsDigest: []byte{0}, State: "granted", NodeID: &node,
	})
	require.NoError(t, err)
	step := "step_a"
	_, err = f.Store.CreateInboxItem(t.Context(), db.CreateInboxItemParams{
		ID: "inbox_a", OrgID: tasktest.Org, Kind: "unknown", TaskID: anns, StepID: &step, AgentID: agent, Tool: "file_list", Category: "safe",
		Arguments: json.RawMessage("{}"), Binding: json.RawMessage("{}"),
	})
	require.NoError(t, err)
	_, err = f.Store.CreateNodeExec(t.Context(), db.CreateNodeExecParams{
		ID: "nexec_a", OrgID: tasktest.Org, NodeID: node, Target: "jail", AgentID: &agent, JailID: "jail_x", Argv: []string{"true"}, SpecSealed: []byte{0},
	})
	require.NoError(t, err)

	// How many of each kind a viewer sees, of two tasks and one of each of the others.
	seen := func(v task.Viewer) (out [5]int) {
		t.Helper()
		ctx := t.Context()
		tasks, _, err := f.Tasks.List(ctx, v, task.Filter{PageSize: 10})
		require.NoError(t, err)
		steps, err := f.Store.FindSteps(ctx, db.FindStepsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: step})
		require.NoError(t, err)
		found, err := f.Store.FindInboxItems(ctx, db.FindInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: "inbox_a"})
		require.NoError(t, err)
		items, err := f.Store.ListInboxItems(ctx, db.ListInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: 10})
		require.NoError(t, err)
		require.Len(t, items, len(found))
		exec, err := f.Store.FindNodeExecs(ctx, db.FindNodeExecsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: "nexec_a"})
		require.NoError(t, err)
		execs, err := f.Store.ListNodeExecs(ctx, db.ListNodeExecsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: 10})
		require.NoError(t, err)
		require.Len(t, execs, len(exec))
		sees := 0
		for _, id := range []string{anns, open} {
			yes, err := f.Tasks.Sees(ctx, v, id)
			require.NoError(t, err)
			_, err = f.Tasks.Find(ctx, v, id)
			require.Equal(t, yes, err == nil, "%v", err)
			if yes {
				sees++
			}
		}
		return [5]int{len(tasks), sees, len(steps), len(items), len(execs)}
	}
	require.Equal(t, [5]int{}, seen(task.Viewer{}))
	require.Equal(t, [5]int{}, seen(task.Viewer{OrgID: tasktest.Org}), "a viewer without a name")
	require.Equal(t, [5]int{2, 2, 1, 1, 0}, seen(task.Viewer{OrgID: tasktest.Org, Name: "ann"}), "one's own")
	require.Equal(t, [5]int{2, 2, 1, 1, 1}, seen(task.Viewer{OrgID: tasktest.Org, Name: "root", All: true}))
	require.Equal(t, [5]int{}, seen(task.Viewer{OrgID: "org_other", All: true}), "another organisation's")
}
