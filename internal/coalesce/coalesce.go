// Package coalesce lets concurrent callers with the same key share one call of
// a function. Unlike golang.org/x/sync/singleflight, a caller never shares a
// call that started before its own: a caller that arrives during a call shares
// the next one. The result therefore reflects everything the caller committed
// earlier.
package coalesce

import (
	"context"
	"sync"
)

// Group shares results by key. The zero value is ready; it is safe for use by
// many goroutines.
type Group[K comparable, V any] struct {
	mu   sync.Mutex
	keys map[K]*pair[V]
}

// pair is what is in progress for a key. next waits for running to end.
type pair[V any] struct{ running, next *call[V] }

type call[V any] struct {
	ctx     context.Context
	cancel  context.CancelFunc
	ask     func(ctx context.Context) (V, error)
	waiting int // callers; guarded by Group.mu
	done    chan struct{}
	value   V
	err     error
}

// Do returns the result of calling ask for key. Concurrent callers with the
// same key share one call. The result is shared and must not be modified. The
// call's context ends when none of its callers waits any more.
func (g *Group[K, V]) Do(ctx context.Context, key K, ask func(ctx context.Context) (V, error)) (V, error) {
	g.mu.Lock()
	p := g.keys[key]
	var c *call[V]
	switch {
	case p == nil:
		if g.keys == nil {
			g.keys = map[K]*pair[V]{}
		}
		c = newCall(ctx, ask)
		p = &pair[V]{running: c}
		g.keys[key] = p
		go g.run(key, p)
	case p.next == nil:
		c = newCall(ctx, ask)
		p.next = c
	default:
		c = p.next
	}
	c.waiting++
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if c.waiting--; c.waiting == 0 {
			c.cancel()
		}
		var zero V
		return zero, ctx.Err()
	}
}

func newCall[V any](ctx context.Context, ask func(ctx context.Context) (V, error)) *call[V] {
	c := &call[V]{ask: ask, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // run calls it
	return c
}

// run calls ask for a key until no caller waits.
func (g *Group[K, V]) run(key K, p *pair[V]) {
	for c := p.running; c != nil; {
		c.value, c.err = c.ask(c.ctx)
		c.cancel()
		g.mu.Lock()
		close(c.done)
		c, p.next = p.next, nil
		if p.running = c; c == nil {
			delete(g.keys, key)
		}
		g.mu.Unlock()
	}
}
