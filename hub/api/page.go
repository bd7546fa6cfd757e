package api

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// withTotal returns a context with which a list is counted: for a request that asks for it, and
// for its first page.
func withTotal(ctx context.Context, req interface {
	GetWithTotal() bool
	GetPageToken() string
}) (context.Context, *store.Total) {
	if !req.GetWithTotal() || req.GetPageToken() != "" {
		return ctx, nil
	}
	return store.WithTotal(ctx)
}

// timeKey is what rows are listed by that come in the order of a time.
func timeKey(at time.Time, id string) string {
	return at.UTC().Format("2006-01-02T15:04:05.000000000Z") + "\x01" + id
}

// totalMessage returns a total; nil if it was not asked for, or not counted.
func totalMessage(t *store.Total) *deckhandv1.Total {
	if t == nil || !t.Counted {
		return nil
	}
	return &deckhandv1.Total{Count: t.Count, AtLeast: t.AtLeast}
}
