package hub_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An agent is its first applier's: nobody else's persona is run in its name but
// an administrator's, and what an administrator starts with somebody's persona
// may do no more than they may.
func TestAnothersPersonaHasNotAnAdministratorsRights(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Config(t), nil)
	bob := r.as("bob", "advanced")
	apply := func(name string) error {
		_, err := bob.Agents.ApplyAgent(t.Context(), connect.NewRequest(&deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Markdown: asking(name, "tools: [shell_exec]"), Script: "turns: []\n",
		}))
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
	_, err = bob.Agents.ApplyAgent(t.Context(), connect.NewRequest(&deckhandv1.ApplyAgentRequest{
		Filename: "bobs.md", Markdown: asking("bobs", "tools: [shell_exec]") + "\nAnd more.\n", Script: "turns: []\n",
	}))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, propose().GetState())

	// What an administrator starts may do what bob might when he applied it.
	r.exec("UPDATE agent_versions SET created_by_role = 'viewer' WHERE created_by = 'bob'")
	_, err = bob.Agents.ApplyAgent(t.Context(), connect.NewRequest(&deckhandv1.ApplyAgentRequest{
		Filename: "bobs.md", Markdown: asking("bobs", "tools: [shell_exec]"), Script: "turns: []\n",
	}))
	require.NoError(t, err)
	r.exec("UPDATE agent_versions SET created_by_role = 'viewer' WHERE created_by = 'bob' AND version = 3")
	require.Contains(t, propose().GetObservation(), "the role viewer of the one who applied the agent's persona does not allow it")
}
