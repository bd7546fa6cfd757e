package api

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// glances shares what was found out a moment ago by its key. Concurrent callers share one look,
// and those who come within its ttl share the result. A result must not be modified.
type glances[V any] struct {
	group  singleflight.Group
	recent *ttlcache.Cache[string, V]
	// timeout bounds one look.
	timeout time.Duration
}

func newGlances[V any](size int, ttl, timeout time.Duration) *glances[V] {
	return &glances[V]{recent: ttlcache.New[string, V](size, ttl), timeout: timeout}
}

// of returns the result for a key. A look outlives the caller that began it, because others may
// share it. The zero value is returned if ctx ends first.
func (g *glances[V]) of(ctx context.Context, key string, look func(ctx context.Context) V) (value V) {
	if v, ok := g.recent.Get(key); ok {
		return v
	}
	found := g.group.DoChan(key, func() (any, error) {
		if v, ok := g.recent.Get(key); ok {
			return v, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
		defer cancel()
		v := look(ctx)
		g.recent.Add(key, v)
		return v, nil
	})
	select {
	case r := <-found:
		value, _ = r.Val.(V)
	case <-ctx.Done():
	}
	return value
}
