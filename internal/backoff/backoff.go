// Package backoff computes the delay before a retry: exponential and always
// jittered. Wait sleeps for such a delay and returns early, with an error, if
// its context ends. All retries in this module use it.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy says how long to wait. The zero value waits 100 ms to 10 s.
type Policy struct {
	// Base bounds the first wait; 0 for 100 ms.
	Base time.Duration
	// Max bounds every wait; 0 for 10 s.
	Max time.Duration
}

// Delay returns how long to wait after failure number n, from 1: "full
// jitter", uniform between a tenth of the bound and the bound, which doubles
// with every failure. (AWS Architecture Blog, "Exponential Backoff And
// Jitter"; the floor keeps an unlucky draw from being a busy loop.)
func (p Policy) Delay(n int) time.Duration {
	bound := p.bound(n)
	floor := bound / 10
	return floor + rand.N(bound-floor+1)
}

// FullDelay is Delay without the floor, uniform between nothing and the bound:
// for many that lost the same neighbour at the same moment, and are not to come
// back in waves.
func (p Policy) FullDelay(n int) time.Duration { return rand.N(p.bound(n) + 1) }

// bound returns the longest wait after failure number n.
func (p Policy) bound(n int) time.Duration {
	base, limit := p.Base, p.Max
	if base <= 0 {
		base = 100 * time.Millisecond
	}
	if limit <= 0 {
		limit = 10 * time.Second
	}
	bound := base
	for i := 1; i < n && bound < limit; i++ {
		bound *= 2
	}
	return min(bound, limit)
}

// Wait sleeps for d or until the context ends, and returns the context's error
// in the second case.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
