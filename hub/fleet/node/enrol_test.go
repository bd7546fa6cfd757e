package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestAnEnrolmentIsOnRecordAndHappensOnce(t *testing.T) {
	t.Parallel()
	const org = "org_1"
	s, err := store.Open(t.Context(), storetest.Database(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.CreateOrganisation(t.Context(), db.CreateOrganisationParams{ID: org, Name: "one"})
	require.NoError(t, err)
	mask := &redact.Redactor{}
	nodes := node.New(s, event.NewRecorder(event.RecorderConfig{Store: s, Redact: mask, Notify: func(_, _ string) {}}), mask, time.Minute)
	token := func(labels map[string]string) []byte {
		made, _, err := nodes.CreateJoinToken(t.Context(), org, node.User{Name: "ada"}, strings.Repeat("ab", 16), time.Hour, labels)
		require.NoError(t, err)
		return made.Hash()
	}
	audited := func(action string) []db.AuditEntry {
		rows, err := audit.List(t.Context(), s, org, audit.Filter{Action: action, Max: 10})
		require.NoError(t, err)
		return rows
	}
	row := func(id string) db.Node {
		row, err := s.NodeByID(t.Context(), id)
		require.NoError(t, err)
		return row
	}
	asks := enroll.Redemption{
		TokenHash: token(map[string]string{"tier": "test"}), KeyFingerprint: "key", Name: "scratch-7", Version: "1",
		Labels: map[string]string{"tier": "prod", "zone": "a"}, From: enroll.From{Address: "192.0.2.7:1234", UserAgent: "machine"},
	}
	got, err := nodes.Redeem(t.Context(), asks)
	require.NoError(t, err)
	first := row(got.ID)
	require.JSONEq(t, `{"tier": "test", "zone": "a"}`, string(first.Labels))
	entries := audited("node.enrolled")
	require.Len(t, entries, 1)
	require.Equal(t, "192.0.2.7:1234", entries[0].Address)
	require.Equal(t, got.ID, entries[0].ObjectID)
	require.Contains(t, string(entries[0].After), "scratch-7")

	// A spent token returns the same node, and changes nothing.
	again := asks
	again.Name, again.Version, again.Labels = "prod-db", "2", map[string]string{"zone": "b"}
	same, err := nodes.Redeem(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, got, same)
	require.Equal(t, first, row(got.ID))
	require.Len(t, audited("node.enrolled"), 1)
	require.Empty(t, audited("node.renamed"))

	// What a node says of itself later never beats what its token says.
	require.NoError(t, nodes.UpdateHello(t.Context(), got.ID, 1, &nodev1.SessionResponse_Hello{Labels: map[string]string{"tier": "prod", "zone": "c"}}))
	require.JSONEq(t, `{"tier": "test", "zone": "c"}`, string(row(got.ID).Labels))

	// With another token it may have another name, which is on record.
	again.TokenHash = token(nil)
	_, err = nodes.Redeem(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, "prod-db", row(got.ID).Name)
	require.JSONEq(t, `{"zone": "b"}`, string(row(got.ID).Labels))
	renamed := audited("node.renamed")
	require.Len(t, renamed, 1)
	require.Contains(t, string(renamed[0].Before), "scratch-7")
	require.Len(t, audited("node.enrolled"), 2)

	// A certificate after a lapse too; and a key that was revoked is refused, also
	// with the token that it spent.
	known := ca.Node{ID: got.ID, OrgID: org, KeyFingerprint: "key"}
	require.NoError(t, nodes.RecordRenewal(t.Context(), known, asks.From))
	require.Equal(t, "192.0.2.7:1234", audited("node.certificate_renewed")[0].Address)
	_, err = s.RevokeNode(t.Context(), db.RevokeNodeParams{OrgID: org, ID: got.ID})
	require.NoError(t, err)
	_, err = nodes.Redeem(t.Context(), again)
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
}
