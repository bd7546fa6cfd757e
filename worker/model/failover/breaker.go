package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

const (
	// tripAfter is how many calls in a row must fail before a model is left alone.
	tripAfter = 5
	// openFor is how long it is skipped; then one call tests whether it
	// responds.
	openFor = 30 * time.Second
)

// Breakers keep a circuit breaker for each model of each provider, shared by
// all tasks of a worker: if one task has found that a model fails, the others
// need not try it. It is safe for use by many goroutines.
type Breakers struct {
	cfg BreakerConfig

	mu sync.Mutex
	of map[name]*breaker
}

// BreakerConfig says when a breaker opens. The zero value is for workers.
type BreakerConfig struct {
	// Failures in a row before it opens; 0 for 5.
	Failures uint32
	// OpenFor is how long it stays open; 0 for 30 s.
	OpenFor time.Duration
	// Changed, if set, is called when a model begins to be skipped, or is used
	// again.
	Changed func(provider, model string, open bool)
}

type name struct{ provider, model string }

type breaker struct {
	*gobreaker.CircuitBreaker[*deckhandv1.Turn]

	mu     sync.Mutex
	opened time.Time
	last   model.Error // how the last call failed
}

// NewBreakers creates Breakers, all closed.
func NewBreakers(cfg BreakerConfig) *Breakers {
	if cfg.Failures == 0 {
		cfg.Failures = tripAfter
	}
	if cfg.OpenFor == 0 {
		cfg.OpenFor = openFor
	}
	if cfg.Changed == nil {
		cfg.Changed = func(string, string, bool) {}
	}
	return &Breakers{cfg: cfg, of: map[name]*breaker{}}
}

func (b *Breakers) get(n name) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ok := b.of[n]; ok {
		return one
	}
	one := &breaker{}
	one.CircuitBreaker = gobreaker.NewCircuitBreaker[*deckhandv1.Turn](gobreaker.Settings{
		Timeout:     b.cfg.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= b.cfg.Failures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				one.mu.Lock()
				one.opened = time.Now()
				one.mu.Unlock()
			}
			if to != gobreaker.StateHalfOpen {
				b.cfg.Changed(n.provider, n.model, to == gobreaker.StateOpen)
			}
		},
		IsSuccessful: func(err error) bool { return !failing(err) },
		IsExcluded:   func(err error) bool { return err != nil && model.AsError(err) == nil },
	})
	b.of[n] = one
	return one
}

// failing reports whether an error shows that a model fails for every request.
// A rate limit does not, nor does a refusal.
func failing(err error) bool {
	e := model.AsError(err)
	return e != nil && !e.Hub && (e.Kind == model.Unavailable || e.Kind == model.Overloaded)
}

// Open reports whether a model is left alone now.
func (b *Breakers) Open(provider, of string) bool {
	return b.get(name{provider, of}).State() == gobreaker.StateOpen
}

// Guard returns a model that is not asked while its breaker is open: then the
// error says when it will be.
func (b *Breakers) Guard(provider, of string, inner model.Model) model.Model {
	return &guarded{breaker: b.get(name{provider, of}), inner: inner, provider: provider, model: of, openFor: b.cfg.OpenFor}
}

type guarded struct {
	breaker         *breaker
	inner           model.Model
	provider, model string
	openFor         time.Duration
}

// Generate implements model.Model.
func (g *guarded) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	turn, err := g.breaker.Execute(func() (*deckhandv1.Turn, error) {
		turn, err := g.inner.Generate(ctx, req, sink)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // whoever asked ended it: nobody's failure
		}
		if e := model.AsError(err); e != nil {
			e.Model = g.model
			g.breaker.failed(e)
		}
		return turn, err
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		last, opened := g.breaker.state()
		left := max(0, g.openFor-time.Since(opened))
		return nil, passedBy(last, err, left, fmt.Sprintf("%s is left alone for %s", g.model, left.Round(time.Second)))
	case errors.Is(err, gobreaker.ErrTooManyRequests):
		last, _ := g.breaker.state()
		return nil, passedBy(last, err, 0, fmt.Sprintf("another call looks whether %s answers now", g.model))
	}
	return turn, err
}

// failed keeps how a call failed, if that shows that the model fails.
func (b *breaker) failed(e *model.Error) {
	if !failing(e) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = *e
}

// state returns how the model last failed, and when the breaker last opened.
func (b *breaker) state() (last model.Error, opened time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last, b.opened
}

// passedBy returns how a model last failed as the error of a call that was not made.
func passedBy(last model.Error, cause error, retryAfter time.Duration, why string) *model.Error {
	last.Message, last.RetryAfter, last.Err = fmt.Sprintf("%s (the last answer; %s)", last.Message, why), retryAfter, cause
	return &last
}
