package env

import (
	"context"

	"github.com/deckhand-sh/deckhand/sdk"
)

// Each calls do for each name, one after another, and returns the results. It ends
// with the first error.
func Each[T any](ctx context.Context, e *Env, names []string, do func(ctx context.Context, client *sdk.Client, name string) (T, error)) ([]T, error) {
	client, err := e.Client()
	if err != nil {
		return nil, err
	}
	var out []T
	for _, name := range names {
		one, err := do(ctx, client, name)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
