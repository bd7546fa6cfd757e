package pressure

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// lookEvery, relief and restate keep the promise that a reason shows within
	// 5 s and that starts resume within 30 s of relief, with time to spare for
	// the way to the hub.
	lookEvery = time.Second
	// relief is how long nothing must be short before the pressure is over.
	relief = 10 * time.Second
	// restate is how often the sentence may change while the same is short.
	restate = 15 * time.Second
)

// Config says what a Watch looks at.
type Config struct {
	Limits Limits
	// Measure reads the figures; see Machine.
	Measure func(ctx context.Context) (Figures, error)
	// Tick, if set, says when to look, at the time that it gives; nil for each
	// second.
	Tick <-chan time.Time
	Log  hclog.Logger
}

// Watch looks at a machine again and again. It is a lifecycle.Service. Without
// limits it looks at nothing.
type Watch struct {
	lifecycle.Runner

	cfg Config

	mu       sync.Mutex
	sentence string
	changed  chan struct{} // closed and renewed with each change of the sentence

	// Of the loop alone.
	kinds         string    // what was short when the sentence was written
	since, lastOf time.Time // when it was written, and when something was short last
	failing       bool
}

var _ lifecycle.Service = (*Watch)(nil)

// New creates a Watch. Before its first look there is no pressure.
func New(cfg Config) *Watch {
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Watch{cfg: cfg, changed: make(chan struct{})}
}

// Start starts the checks. The first check is done when it returns.
func (w *Watch) Start(ctx context.Context) error {
	if w.cfg.Limits != (Limits{}) {
		w.look(ctx, time.Now())
	}
	return w.Run(ctx, w.loop)
}

func (w *Watch) loop(ctx context.Context) error {
	if w.cfg.Limits == (Limits{}) {
		<-ctx.Done()
		return nil
	}
	tick := w.cfg.Tick
	if tick == nil {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick:
			w.look(ctx, now)
		}
	}
}

// look measures once.
func (w *Watch) look(ctx context.Context, now time.Time) {
	figures, err := w.cfg.Measure(ctx)
	if err != nil {
		if !w.failing && ctx.Err() == nil {
			w.cfg.Log.Warn("cannot determine whether the machine has room for new work; assuming that it has", "error", err)
		}
		w.failing, figures = true, Figures{}
	} else {
		w.failing = false
	}
	sentence, kinds := join(w.cfg.Limits.short(figures))
	was, _ := w.Now()
	switch {
	case sentence != "":
		w.lastOf = now
		if kinds == w.kinds && now.Sub(w.since) < restate {
			return
		}
	case was == "" || now.Sub(w.lastOf) < relief:
		return
	}
	w.kinds, w.since = kinds, now
	if sentence == was {
		return
	}
	switch {
	case was == "":
		w.cfg.Log.Warn("the machine is under pressure: nothing new is started", "reason", sentence)
	case sentence == "":
		w.cfg.Log.Info("the machine has room again")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentence = sentence
	close(w.changed)
	w.changed = make(chan struct{})
}

// Now returns what is short, in words; empty for nothing. The channel is closed
// when that has changed.
func (w *Watch) Now() (sentence string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sentence, w.changed
}
