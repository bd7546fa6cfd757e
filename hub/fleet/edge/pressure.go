package edge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// pressure is a node's reported resource pressure, on its way to the store.
type pressure struct {
	mu   sync.Mutex
	said string // guarded by mu
	// news has an element if the report has changed.
	news chan struct{}
	// stored is what the store has, of the goroutine that stores it.
	stored string
}

func newPressure() *pressure { return &pressure{news: make(chan struct{}, 1)} }

// say stores the node's report. It never blocks.
func (p *pressure) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.said {
		return
	}
	p.said = text
	select {
	case p.news <- struct{}{}:
	default: // it is queued already
	}
}

func (p *pressure) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// storePressure stores each change of the node's pressure, and repeats a write that
// failed after a while.
func (s *session) storePressure(ctx context.Context) {
	// Each change is a lock on what the organisation admits.
	changes := rate.NewLimiter(5*rate.Every(s.edge.cfg.HeartbeatInterval), 1)
	again := time.NewTicker(s.edge.cfg.HeartbeatInterval)
	defer again.Stop()
	failing := false
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.pressure.news:
		case <-again.C:
		}
		if changes.Wait(s.ctx) != nil {
			return
		}
		said := s.pressure.last()
		if said == s.pressure.stored {
			continue
		}
		storing, cancel := context.WithTimeout(ctx, storeTimeout)
		orgID, err := s.edge.cfg.Nodes.SetPressure(storing, s.node.ID, s.epoch, said)
		cancel()
		if err != nil {
			if !failing {
				s.edge.cfg.Log.Warn("cannot record a node's pressure; will try again", "node_id", s.node.ID, "error", err)
			}
			failing = true
			continue
		}
		failing, s.pressure.stored = false, said
		if orgID != "" {
			s.edge.cfg.OnPressure(orgID)
		}
	}
}
