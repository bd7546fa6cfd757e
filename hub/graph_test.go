package hub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The graph shows who may give work to whom and who did, who waits for
// whom, and what was used; what is permitted no more stays as long as it was
// used.
func TestTheGraphOfAgents(t *testing.T) {
	t.Parallel()
	r, task, lease := team(t, "", "")
	graph := func() map[string]*deckhandv1.AgentEdge {
		t.Helper()
		res, err := r.user.Agents.GetAgentGraph(t.Context(), &deckhandv1.GetAgentGraphRequest{})
		require.NoError(t, err)
		out := map[string]*deckhandv1.AgentEdge{}
		for _, e := range res.GetEdges() {
			out[e.GetFrom()+" "+e.GetKind()+" "+e.GetTo()] = e
		}
		return out
	}
	before := graph()
	for _, edge := range []string{"boss delegate hand", "boss handoff hand", "hand delegate boss", "hand handoff boss"} {
		require.True(t, before[edge].GetPermitted(), edge)
		require.Zero(t, before[edge].GetTasks(), edge)
		require.Nil(t, before[edge].GetLastAt(), edge)
	}
	r.give(lease, 1, 0, "delegate", `{"agent": "hand", "goal": "do it"}`)
	_, err := r.workers.Workers.YieldTask(t.Context(), &deckhandv1.YieldTaskRequest{Lease: lease})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_WAITING, r.task(task.GetId()).GetState())
	waits := graph()["boss delegate hand"]
	require.EqualValues(t, []int64{1, 1, 1}, []int64{waits.GetTasks(), waits.GetLive(), waits.GetWaiting()})
	require.NotNil(t, waits.GetLastAt())

	child := r.below(task.GetId())[0]
	// Tokens are recent for five minutes.
	for _, ago := range []string{"1 minute", "6 minutes"} {
		r.sql(`INSERT INTO model_calls (id, org_id, task_id, attempt, user_name, provider, model, basis, reserved_micros, input_tokens, scopes, objects, periods, started_at, lost_at, settled_at)
			SELECT $1 || id, org_id, id, 1, created_by, 'p', 'm', 'reported', 0, 70, '{}', '{}', '{}', now() - $1::interval, now(), now() FROM tasks WHERE id = $2 RETURNING id`, ago, child.GetId())
	}
	require.EqualValues(t, 70, graph()["boss delegate hand"].GetRecentTokens())

	// Of one lineage are the task and its subtask, whichever is named.
	other := r.submit("boss")
	for _, of := range []string{task.GetId(), child.GetId()} {
		res, err := r.user.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{LineageOf: of})
		require.NoError(t, err)
		require.Len(t, res.GetTasks(), 2)
		for _, one := range res.GetTasks() {
			require.NotEqual(t, other.GetId(), one.GetId())
		}
	}
	r.cancel(other.GetId())
	r.finish(r.begin(child.GetId(), 1))
	r.applyAll(map[string]string{"boss": colleague("boss", "", "")})
	after := graph()
	ended := after["boss delegate hand"]
	require.False(t, ended.GetPermitted())
	require.EqualValues(t, []int64{1, 0, 0}, []int64{ended.GetTasks(), ended.GetLive(), ended.GetWaiting()})
	require.Nil(t, after["boss handoff hand"], "it was never used")
}
