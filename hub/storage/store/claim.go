package store

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Claim is the hold of a call on its idempotency key.
type Claim struct{ ID, Owner string }

type (
	claimKey   struct{}
	refusalKey struct{}
)

// WithClaim returns a context whose transactions record, as they commit, that the call of
// the claim has changed something. They fail if another call has taken the key over.
func WithClaim(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// WithRefusal returns a context for a transaction that records that the call was refused
// after it had stored what it was going to do: as the transaction commits, the call counts as
// one that has changed nothing, and its key can be used again.
func WithRefusal(ctx context.Context) context.Context {
	return context.WithValue(ctx, refusalKey{}, true)
}

// Touch records that the call of a claim is about to change something outside the database,
// such as a file on a node, with no transaction before it. It fails if another call has taken
// the key over. Without a claim it does nothing.
func (s *Store) Touch(ctx context.Context) error {
	c, ok := ctx.Value(claimKey{}).(Claim)
	if !ok {
		return nil
	}
	n, err := s.MarkIdempotencyKey(ctx, db.MarkIdempotencyKeyParams{Touched: true, ID: c.ID, Owner: c.Owner})
	if err != nil {
		return fmt.Errorf("record what a call with an idempotency key changes: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Aborted, "another call has taken over the idempotency key").WithCode(fault.IdempotencyInProgress).
			WithFix("call again in a second for its response")
	}
	return nil
}

// touch adds to the statements of a COMMIT what records the claim of its context.
func touch(ctx context.Context, p *pipeline, last *collector) error {
	c, ok := ctx.Value(claimKey{}).(Claim)
	if !ok || !p.begun && len(p.ahead) == 0 && len(last.statements) == 0 {
		return nil
	}
	if ctx.Value(refusalKey{}) != nil {
		_, err := db.New(last).MarkIdempotencyKey(ctx, db.MarkIdempotencyKeyParams{Touched: false, ID: c.ID, Owner: c.Owner})
		return err
	}
	return db.New(last).TouchIdempotencyKey(ctx, db.TouchIdempotencyKeyParams{ID: c.ID, Owner: c.Owner})
}
