package edge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// pressure is what a node says of the room that it has, on its way to the store.
type pressure struct {
	mu   sync.Mutex
	said string // guarded by mu
	// news holds an element when something else was said than before.
	news chan struct{}
	// stored is what the store has, of the goroutine that stores it.
	stored string
}

func newPressure() *pressure { return &pressure{news: make(chan struct{}, 1)} }

// say notes what the node said. It never waits.
func (p *pressure) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.said {
		return
	}
	p.said = text
	select {
	case p.news <- struct{}{}:
	default: // it is to be looked at already
	}
}

func (p *pressure) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// storePressure puts into the store what the node says of its room, as it says
// it, and again after a while what the store did not take.
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
