package machine

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many nodes Each asks at the same time.
const atOnce = 16

// Each calls do for every node that has something to do and is connected, several at the
// same time, with a context that ends after a time. Link returns the link to a node.
func Each[T any](ctx context.Context, byNode map[string][]T, link func(nodeID string) (Link, error), most time.Duration, do func(ctx context.Context, node Link, all []T)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for nodeID, all := range byNode {
		node, err := link(nodeID)
		if err != nil {
			continue // not connected
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			do(ctx, node, all)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
}
