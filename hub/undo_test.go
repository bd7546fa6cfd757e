package hub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A node that does not know the paths of an undo would undo everything: the hub asks it for
// nothing, neither for the preview nor for the undo, and says which node to update.
func TestSingleFilesAreNotUndoneOnANodeThatIsTooOld(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker").GetId()
	shift(t, r.Hub, `INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state)
		SELECT 'step_of_' || t.id, t.org_id, t.id, 1, 1, 0, 'c', 1, 'file_write', 'safe', '{}', '\x00', '\x00', 'granted' FROM tasks t WHERE t.id = $1`, task)
	shift(t, r.Hub, `INSERT INTO step_changes (step_id, org_id, task_id, node_id, jail_id, change_id, state_before, state_after, files, changes, shared_with, unkept)
		SELECT s.id, s.org_id, s.task_id, $2, 'jail_x', s.id, 1, 2, 1, '[{"path":"a.txt"}]', '{}', 0 FROM steps s WHERE s.task_id = $1`, task, r.node.ID())
	undo := func(preview bool, paths ...string) error {
		_, err := r.user.Workspaces.UndoChanges(t.Context(), &deckhandv1.UndoChangesRequest{TaskId: task, Preview: preview, Paths: paths})
		return err
	}
	shift(t, r.Hub, `UPDATE nodes SET capability = $2 WHERE id = $1`, r.node.ID(), nodelink.States-1)
	for _, preview := range []bool{true, false} {
		err := undo(preview, "a.txt")
		refusedFor(t, err, fault.Precondition, "node sim cannot undo single files: its deckhand-node simulated is too old")
		require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)
	}
	require.Equal(t, "0", r.sql("SELECT count(*)::text FROM undos WHERE task_id = $1", task))
	// All of a task's files are undone there as before.
	if err := undo(true); err != nil {
		require.NotContains(t, err.Error(), "too old")
	}
	shift(t, r.Hub, `UPDATE nodes SET capability = $2 WHERE id = $1`, r.node.ID(), nodelink.States)
	if err := undo(true, "a.txt"); err != nil {
		require.NotContains(t, err.Error(), "too old")
	}

	// An undo is stored before the node is asked. When nobody knows whether the node did it, a
	// repetition with its key does not start another one.
	keyedUndo := func() error {
		_, err := r.user.Workspaces.UndoChanges(keyed(t, "undo"), &deckhandv1.UndoChangesRequest{TaskId: task})
		return fault.FromConnect(err)
	}
	require.ErrorContains(t, keyedUndo(), "not implemented", "the simulated node keeps no snapshots")
	require.Equal(t, fault.IdempotencyUnknown, fault.As(keyedUndo()).Code)
	require.Equal(t, "1", r.sql("SELECT count(*)::text FROM undos WHERE task_id = $1 AND state = 'pending'", task))
}
