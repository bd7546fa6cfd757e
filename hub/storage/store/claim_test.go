package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A claim records what its call has committed, and what it changes outside the database,
// until the call is known to have been refused.
func TestAClaimRecordsWhatItsCallChanges(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), storetest.Database(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.CreateOrganisation(t.Context(), db.CreateOrganisationParams{ID: "org", Name: "org"})
	require.NoError(t, err)
	claim := func(owner string, lease time.Duration) error {
		_, err := s.ClaimIdempotencyKey(t.Context(), db.ClaimIdempotencyKeyParams{
			ID: "idem", OrgID: "org", Caller: "token", Procedure: "/p", KeyHash: []byte("k"), RequestDigest: []byte("d"), Owner: owner, Lease: lease, Keep: time.Hour,
		})
		return err
	}
	require.NoError(t, claim("first", -time.Second))
	touched := func() bool {
		row, err := s.GetIdempotencyKey(t.Context(), db.GetIdempotencyKeyParams{OrgID: "org", Caller: "token", Procedure: "/p", KeyHash: []byte("k")})
		require.NoError(t, err)
		return row.Touched
	}
	ctx := store.WithClaim(t.Context(), store.Claim{ID: "idem", Owner: "first"})
	n := 0
	write := func(q *db.Queries) error {
		n++
		_, err := q.CreateSecret(ctx, db.CreateSecretParams{Name: string(rune('a' + n)), Sealed: []byte("x")})
		return err
	}
	refusal := func() { require.NoError(t, s.Tx(store.WithRefusal(ctx), write)) }

	require.NoError(t, s.Tx(ctx, func(q *db.Queries) error {
		_, err := q.GetIdempotencyKey(ctx, db.GetIdempotencyKeyParams{OrgID: "org", Caller: "token", Procedure: "/p", KeyHash: []byte("k")})
		return err
	}))
	require.False(t, touched(), "a transaction that only reads")
	failed := errors.New("failed")
	require.ErrorIs(t, s.Tx(ctx, func(q *db.Queries) error { return errors.Join(write(q), failed) }), failed)
	require.False(t, touched(), "a transaction that was rolled back")
	refusal()
	require.False(t, touched(), "the record of a refusal")
	require.NoError(t, s.Tx(ctx, write))
	require.True(t, touched())
	released, err := s.ReleaseIdempotencyKey(t.Context(), db.ReleaseIdempotencyKeyParams{OrgID: "org", ID: "idem", Owner: "first"})
	require.NoError(t, err)
	require.Zero(t, released, "an error of a call that has committed something does not free its key")
	require.True(t, store.IsNotFound(claim("second", time.Minute)), "nor does the end of its hub")
	refusal()
	require.False(t, touched(), "it was refused after it had stored what it was going to do")
	require.NoError(t, s.Touch(ctx))
	require.True(t, touched(), "a file on a node")
	refusal()

	require.NoError(t, s.Touch(t.Context()), "a call without a key")
	require.NoError(t, claim("second", time.Minute))
	require.True(t, fault.Is(s.Touch(ctx), fault.Aborted), "another call has the key")
	require.ErrorContains(t, s.Tx(ctx, write), "taken over")
	require.False(t, touched())
}
