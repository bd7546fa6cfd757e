package hub_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Instructions of a folder that a summary has replaced are told again.
func TestInstructionsAreToldAgainAfterASummary(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("hello\n"))
	r.apply("worker", colleague("worker", "", ""))
	task := r.submit("worker")
	lease := r.begin(task.GetId(), 1)
	org := r.sql("SELECT org_id FROM tasks WHERE id = $1", task.GetId())
	told := func() []string {
		t.Helper()
		out, err := r.store().ToldInstructions(t.Context(), db.ToldInstructionsParams{OrgID: org, TaskID: task.GetId()})
		require.NoError(t, err)
		return out
	}
	save := func(iteration int32, upTo float64) {
		t.Helper()
		state, err := structpb.NewStruct(map[string]any{"iteration": iteration, "opening": "go on", "summary": map[string]any{"up_to": upTo, "at": iteration, "text": "…"}})
		require.NoError(t, err)
		_, err = r.workers.Workers.SaveCheckpoint(t.Context(), &deckhandv1.SaveCheckpointRequest{
			Lease: lease, Checkpoint: &deckhandv1.Checkpoint{Iteration: iteration, State: state},
		})
		require.NoError(t, err)
	}
	r.turn(lease, 1)
	step := r.give(lease, 1, 0, "shell_exec", `{"command":"hello"}`)
	r.sql(`UPDATE steps SET outcome = '{"instructions": ["web/AGENTS.md"]}' WHERE id = $1 RETURNING id`, step.GetId())
	require.Equal(t, []string{"web/AGENTS.md"}, told())
	save(1, 0)
	require.Equal(t, []string{"web/AGENTS.md"}, told())
	r.turn(lease, 2)
	save(2, 1)
	require.Empty(t, told())
}
