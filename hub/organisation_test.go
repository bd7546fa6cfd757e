package hub_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/simnode"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// O2: an operator makes an organisation. It has its own people, nodes, workers and
// agents, of the same names as another one's, and neither sees the other.
func TestAnOrganisationOfItsOwn(t *testing.T) {
	t.Parallel()
	first := newRig(t, hubtest.Config(t), nil)
	create := func(r *rig, name string) (*deckhandv1.CreateOrganisationResponse, error) {
		res, err := r.user.Organisations.CreateOrganisation(t.Context(), connect.NewRequest(&deckhandv1.CreateOrganisationRequest{Name: name}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	made, err := create(first, "research")
	require.NoError(t, err)
	_, err = create(first, "research")
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	_, err = create(first, "No Name")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	admin := first.Client(t, made.GetToken())
	worker, err := admin.Tokens.CreateToken(t.Context(), connect.NewRequest(&deckhandv1.CreateTokenRequest{Name: "w", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER}))
	require.NoError(t, err)
	join, err := admin.Nodes.CreateJoinToken(t.Context(), connect.NewRequest(&deckhandv1.CreateJoinTokenRequest{}))
	require.NoError(t, err)
	second := joinedAs(t, first.Hub, simnode.Config{}, made.GetToken(), worker.Msg.GetSecret(), join.Msg.GetToken())

	for _, r := range []*rig{first, second} {
		task := r.submit("walker")
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		r.finish(lease)
		list, err := r.user.Tasks.ListTasks(t.Context(), connect.NewRequest(&deckhandv1.ListTasksRequest{}))
		require.NoError(t, err)
		require.Len(t, list.Msg.GetTasks(), 1)
		require.Equal(t, task.GetId(), list.Msg.GetTasks()[0].GetId())
		nodes, err := r.user.Nodes.ListNodes(t.Context(), connect.NewRequest(&deckhandv1.ListNodesRequest{}))
		require.NoError(t, err)
		require.Len(t, nodes.Msg.GetNodes(), 1)
		require.Equal(t, r.node.ID(), nodes.Msg.GetNodes()[0].GetId())
		require.Len(t, r.audited("organisation.created"), 1)
	}
	_, err = create(second, "mine")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	all, err := first.user.Organisations.ListOrganisations(t.Context(), connect.NewRequest(&deckhandv1.ListOrganisationsRequest{}))
	require.NoError(t, err)
	require.Len(t, all.Msg.GetOrganisations(), 2)
	research := all.Msg.GetOrganisations()[1]
	require.Equal(t, "research", research.GetName())
	require.EqualValues(t, 1, research.GetUsers())
	require.EqualValues(t, 1, research.GetNodes())
	require.EqualValues(t, 0, research.GetTasks())
}
