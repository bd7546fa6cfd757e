package api

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// withTotal returns a context for reading a list, and a total that counts it; nil unless the
// request asks for it, and is for the first page.
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

// totalMessage returns the total of a list whose first page has so many rows; nil if it was not
// asked for. A list is counted only if another page follows.
func totalMessage(t *store.Total, shown int, nextPage string) (*deckhandv1.Total, error) {
	switch {
	case t == nil || !t.Countable():
		return nil, nil //nolint:nilnil // no total is no error
	case nextPage == "":
		return &deckhandv1.Total{Count: int32(shown)}, nil //nolint:gosec // at most a page
	}
	rows, atLeast, err := t.Count()
	return &deckhandv1.Total{Count: rows, AtLeast: atLeast}, err
}
