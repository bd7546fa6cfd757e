package hub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// An agent is its first applier's: nobody else's persona is run in its name but
// an administrator's, and what an administrator starts with somebody's persona
// may do no more than they may.
func TestAnothersPersonaHasNotAnAdministratorsRights(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	bob := r.as("bob", "advanced")
	apply := func(name string) error {
		_, err := bob.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Markdown: asking(name, "tools: [shell_exec]"), Script: "turns: []\n",
		})
		return err
	}
	r.apply("janitor", asking("janitor", ""))
	refused := apply("janitor")
	require.True(t, fault.Is(refused, fault.Denied), "%v", refused)
	require.ErrorContains(t, refused, "agent janitor is admin's")

	require.NoError(t, apply("bobs"))
	task, _, item := r.park("bobs", "shell_exec", command("echo 1"))
	_, err := r.answer(always(item.GetId(), "commands"))
	require.NoError(t, err)
	r.cancel(task.GetId())
	propose := func() *deckhandv1.Step {
		task := r.submit("bobs")
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		step, err := r.propose(lease, 1, 0, "shell_exec", command("echo 1"))
		require.NoError(t, err)
		r.cancel(task.GetId())
		return step
	}
	require.NotEqual(t, stepWaiting, propose().GetState(), "the administrator has said so of this version")

	// Another version of bob's is another program: what was said of the one
	// before does not hold for it.
	_, err = bob.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "bobs.md", Markdown: asking("bobs", "tools: [shell_exec]") + "\nAnd more.\n", Script: "turns: []\n",
	})
	require.NoError(t, err)
	require.Equal(t, stepWaiting, propose().GetState())

	// What an administrator starts may do what bob might when he applied it.
	r.exec("UPDATE agent_versions SET created_by_role = 'viewer' WHERE created_by = 'bob'")
	_, err = bob.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "bobs.md", Markdown: asking("bobs", "tools: [shell_exec]"), Script: "turns: []\n",
	})
	require.NoError(t, err)
	r.exec("UPDATE agent_versions SET created_by_role = 'viewer' WHERE created_by = 'bob' AND version = 3")
	require.Contains(t, propose().GetObservation(), "the role viewer of the one who applied the agent's persona does not allow it")
}

// A task of nobody, with neither an agent nor an assignee, is seen by everybody of
// the organisation, who may take it. One of an agent or a person is not.
func TestATaskOfNobodyIsSeenByAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("worker", asking("worker", ""))
	bob := r.as("bob", "viewer")
	submit := func(req *deckhandv1.SubmitTaskRequest) string {
		req.Goal = "tidy up"
		res, err := r.user.Tasks.SubmitTask(t.Context(), req)
		require.NoError(t, err)
		return res.GetTask().GetId()
	}
	free, admins := submit(&deckhandv1.SubmitTaskRequest{AssignTo: "none"}), submit(&deckhandv1.SubmitTaskRequest{AssignTo: "@human:admin"})
	agents := submit(&deckhandv1.SubmitTaskRequest{AgentId: "worker"})
	listed := func() (ids []string) {
		res, err := bob.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{})
		require.NoError(t, err)
		for _, task := range res.GetTasks() {
			ids = append(ids, task.GetId())
		}
		return ids
	}
	require.Equal(t, []string{free}, listed())
	for _, id := range []string{admins, agents} {
		_, err := bob.Tasks.GetTask(t.Context(), &deckhandv1.GetTaskRequest{TaskId: id})
		require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	}
	_, err := bob.Tasks.GetTask(t.Context(), &deckhandv1.GetTaskRequest{TaskId: free})
	require.NoError(t, err)

	_, err = r.user.Queue.AssignTask(t.Context(), &deckhandv1.AssignTaskRequest{TaskId: free, AssignTo: "@human:admin"})
	require.NoError(t, err)
	require.Empty(t, listed(), "it is somebody's now")
}

// What was sent to a trigger is seen by its maker, the owner of its agent and
// administrators, whatever the role of others.
func TestDeliveriesAreSeenByWhomTheyConcern(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Start(t, hubtest.Config(t)))
	bob, eve := r.as("bob", "advanced"), r.as("eve", "advanced")
	made, err := bob.Triggers.CreateTrigger(t.Context(), &deckhandv1.CreateTriggerRequest{
		Name: "bobs", AgentId: "watch", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, Spec: &deckhandv1.TriggerSpec{},
	})
	require.NoError(t, err)
	fired, err := bob.Triggers.FireTrigger(t.Context(), &deckhandv1.FireTriggerRequest{
		TriggerId: made.GetTrigger().GetId(), Goal: "look into the salaries",
	})
	require.NoError(t, err)
	id := fired.GetDelivery().GetId()
	sees := func(c *sdk.Client) bool {
		list, err := c.Triggers.ListDeliveries(t.Context(), &deckhandv1.ListDeliveriesRequest{TriggerId: "bobs"})
		require.NoError(t, err)
		_, got := c.Triggers.GetDelivery(t.Context(), &deckhandv1.GetDeliveryRequest{DeliveryId: id})
		_, tried := c.Triggers.TestTrigger(t.Context(), &deckhandv1.TestTriggerRequest{TriggerId: "bobs", DeliveryId: id})
		if len(list.GetDeliveries()) == 1 {
			require.NoError(t, got)
			require.NoError(t, tried)
			return true
		}
		require.True(t, fault.Is(got, fault.NotFound), "%v", got)
		require.True(t, fault.Is(tried, fault.NotFound), "%v", tried)
		_, replayed := c.Triggers.ReplayDelivery(t.Context(), &deckhandv1.ReplayDeliveryRequest{DeliveryId: id})
		require.True(t, fault.Is(replayed, fault.NotFound), "%v", replayed)
		return false
	}
	require.True(t, sees(bob), "its maker")
	require.True(t, sees(r.user), "an administrator")
	require.False(t, sees(eve), "somebody of the same role")
	r.exec("UPDATE agents SET owner = 'eve' WHERE name = 'watch'")
	require.True(t, sees(eve), "the owner of its agent")
	_, err = eve.Triggers.ReplayDelivery(t.Context(), &deckhandv1.ReplayDeliveryRequest{DeliveryId: id})
	require.True(t, fault.Is(err, fault.Denied), "its tasks run with bob's rights: %v", err)
}
