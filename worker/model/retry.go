package model

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// RetryConfig says how a model is asked again after an error that may pass.
type RetryConfig struct {
	// Retries after the first try; 0 for 3.
	Retries int
	// Backoff between tries where the provider does not say; the zero value
	// waits 1 s to 30 s.
	Backoff backoff.Policy
	// MaxRetryAfter is the longest wait that a provider may ask for: past it
	// the error is answered at once. 0 for 2 minutes.
	MaxRetryAfter time.Duration
	// OnRetry, if set, is called before each wait.
	OnRetry func(err *Error, try int, wait time.Duration)
}

// WithRetries returns a model that asks inner again after errors that may
// pass. It honours retry-after, and waits under the context only.
func WithRetries(inner Model, cfg RetryConfig) Model {
	if cfg.Retries == 0 {
		cfg.Retries = 3
	}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = backoff.Policy{Base: time.Second, Max: 30 * time.Second}
	}
	if cfg.MaxRetryAfter == 0 {
		cfg.MaxRetryAfter = 2 * time.Minute
	}
	return &retrying{inner: inner, cfg: cfg}
}

type retrying struct {
	inner Model
	cfg   RetryConfig
}

// Generate implements Model.
func (r *retrying) Generate(ctx context.Context, req *Request, sink Sink) (*deckhandv1.Turn, error) {
	for try := 1; ; try++ {
		turn, err := r.inner.Generate(ctx, req, sink)
		if err == nil {
			return turn, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := AsError(err)
		if e == nil || !e.Retryable() || e.RetryAfter > r.cfg.MaxRetryAfter {
			return nil, err
		}
		if try > r.cfg.Retries {
			return nil, fmt.Errorf("after %d tries: %w", try, err)
		}
		wait := r.cfg.Backoff.Delay(try)
		if e.RetryAfter > 0 {
			// Never earlier than asked; the jitter keeps a fleet from coming
			// back at one moment.
			wait = e.RetryAfter + wait/10
		}
		if r.cfg.OnRetry != nil {
			r.cfg.OnRetry(e, try, wait)
		}
		if sink != nil {
			sink(Delta{Restart: true})
		}
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}
