package store

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Claim is the hold of a call on its idempotency key.
type Claim struct{ ID, Owner string }

type claimKey struct{}

// WithClaim returns a context whose transactions record, as they commit, that the call of
// the claim has changed something. They fail if another call has taken the key over.
func WithClaim(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// touch adds to the statements of a COMMIT what records the claim of its context.
func touch(ctx context.Context, p *pipeline, last *collector) error {
	c, ok := ctx.Value(claimKey{}).(Claim)
	if !ok || !p.begun && len(p.ahead) == 0 && len(last.statements) == 0 {
		return nil
	}
	return db.New(last).TouchIdempotencyKey(ctx, db.TouchIdempotencyKeyParams{ID: c.ID, Owner: c.Owner})
}
