// Package failover switches a task to another model when its own fails: the
// fallback models of its persona, in order. It sits above the retries, so that
// a temporary failure changes nothing.
//
// The switch is sticky: the task stays with the fallback, so that the
// transcript does not alternate between two formats, and a later attempt
// continues with the model that responded last. Each model leaves out the parts
// that its provider's format does not have, such as another provider's signed
// thoughts.
//
// A model that fails in several calls in a row is skipped for a while by all
// tasks of the worker (see Breakers). A task that has no other model waits for
// it.
package failover

import (
	"context"
	"sync"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// Candidate is one of the models that a task may continue with.
type Candidate struct {
	Provider, Name string
	Model          model.Model
}

// Config says how a Model is made.
type Config struct {
	// Candidates in their order; at least one.
	Candidates []Candidate
	// At is the one to begin with.
	At       int
	Breakers *Breakers
}

// Model asks one of several models. It is safe for use by many goroutines.
type Model struct {
	cfg Config

	mu sync.Mutex
	at int
}

// New creates a Model.
func New(cfg Config) *Model { return &Model{cfg: cfg, at: cfg.At} }

// Generate implements model.Model: it asks the candidate that responded last
// and, if that fails, each of the others once.
func (m *Model) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	m.mu.Lock()
	first := m.at
	m.mu.Unlock()
	var failed error
	now := first
	reason := ""
	for tried := range m.cfg.Candidates {
		next := (first + tried) % len(m.cfg.Candidates)
		c := m.cfg.Candidates[next]
		if m.elsewhere(next, tried) {
			if reason == "" {
				reason = "it did not answer lately and is left alone for a while"
			}
			continue
		}
		if next != now {
			m.tell(req, sink, now, next, reason)
			now = next
		}
		turn, err := c.Model.Generate(ctx, req, sink)
		e := model.AsError(err)
		if !passesOn(e, tried > 0) || ctx.Err() != nil {
			if err == nil || e != nil && !e.Hub {
				m.mu.Lock()
				m.at = next // it answers, whatever it is
				m.mu.Unlock()
			}
			return turn, err
		}
		if reason = e.Error(); failed == nil {
			failed = err // what people are told is why the first one does not do
		}
	}
	return nil, failed
}

// elsewhere reports whether a candidate is left alone and there is one after it that
// is not.
func (m *Model) elsewhere(at, tried int) bool {
	open := func(i int) bool {
		c := m.cfg.Candidates[i%len(m.cfg.Candidates)]
		return m.cfg.Breakers.Open(c.Provider, c.Name)
	}
	if !open(at) {
		return false
	}
	for i := 1; tried+i < len(m.cfg.Candidates); i++ {
		if !open(at + i) {
			return true
		}
	}
	return tried > 0 // somebody was asked already: there is nothing to wait for
}

// passesOn reports whether another model may succeed after an error: the
// provider does not respond, or refuses to be called any more. A stand-in may
// also be not connected, or not suitable for the request; the caller then gets
// the first model's error.
func passesOn(e *model.Error, standIn bool) bool {
	if e == nil || e.Hub {
		return false
	}
	switch e.Kind {
	case model.Unavailable, model.Overloaded, model.RateLimit, model.Quota:
		return true
	case model.NoCredential, model.Auth, model.Invalid:
		return standIn
	default:
		return false
	}
}

// tell reports that another candidate continues.
func (m *Model) tell(req *model.Request, sink model.Sink, from, to int, reason string) {
	if sink != nil {
		sink(model.Delta{Restart: true})
	}
	if req.FailedOver != nil {
		f, t := m.cfg.Candidates[from], m.cfg.Candidates[to]
		req.FailedOver(model.Failover{FromProvider: f.Provider, FromModel: f.Name, ToProvider: t.Provider, ToModel: t.Name, Reason: reason})
	}
}
