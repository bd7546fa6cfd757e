package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// All nodes of a replica are touched at once: those that stay are recorded, and for each
// other one the reason is returned.
func TestTouchTellsWhichSessionsAreOver(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), storetest.Database(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	const org = "org_1"
	_, err = s.CreateOrganisation(t.Context(), db.CreateOrganisationParams{ID: org, Name: "one"})
	require.NoError(t, err)
	nodes := node.New(s, nil, &redact.Redactor{}, time.Minute)
	session := func(name string) edge.Session {
		row, err := s.CreateNode(t.Context(), db.CreateNodeParams{
			ID: "node_" + name, OrgID: org, Name: name, KeyFingerprint: "key of " + name, Labels: []byte("{}"), PinnedLabels: []byte("{}"),
		})
		require.NoError(t, err)
		epoch, err := nodes.OpenSession(t.Context(), ca.Node{ID: row.ID, OrgID: org, KeyFingerprint: row.KeyFingerprint}, "hub_1")
		require.NoError(t, err)
		return edge.Session{NodeID: row.ID, Epoch: epoch}
	}
	stays, revoked, replaced, closed := session("stays"), session("revoked"), session("replaced"), session("closed")
	_, err = s.RevokeNode(t.Context(), db.RevokeNodeParams{OrgID: org, ID: revoked.NodeID})
	require.NoError(t, err)
	_, err = nodes.OpenSession(t.Context(), ca.Node{ID: replaced.NodeID, OrgID: org, KeyFingerprint: "key of replaced"}, "hub_2")
	require.NoError(t, err)
	require.NoError(t, nodes.CloseSession(t.Context(), closed.NodeID, closed.Epoch))

	over, err := nodes.Touch(t.Context(), []edge.Session{stays, revoked, replaced, closed, {NodeID: "node_removed", Epoch: 1}})
	require.NoError(t, err)
	kinds := map[string]fault.Kind{}
	for id, why := range over {
		kinds[id] = fault.As(why).Kind
	}
	require.Equal(t, map[string]fault.Kind{
		revoked.NodeID: fault.Denied, replaced.NodeID: fault.Aborted, closed.NodeID: fault.Aborted, "node_removed": fault.NotFound,
	}, kinds)
	seen := func(id string) bool {
		row, err := s.NodeByID(t.Context(), id)
		require.NoError(t, err)
		return row.LastSeenAt != nil
	}
	require.True(t, seen(stays.NodeID))
	require.False(t, seen(replaced.NodeID))
	over, err = nodes.Touch(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, over)
}
