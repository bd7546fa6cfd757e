package initd

import (
	"context"
	"sync"
	"time"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// clock is the monotonic clock without the time for which the jail was frozen,
// which its commands could not use.
type clock struct {
	mu      sync.Mutex
	lost    time.Duration // in all holds that have ended; guarded by mu
	since   time.Time     // of the hold that goes on; zero for none; guarded by mu
	resumed chan struct{} // closed when that hold ends; guarded by mu
}

// moment is a time on a clock.
type moment struct {
	at   time.Time
	lost time.Duration // before it
}

func (m moment) before(other moment) bool { return m.at.Before(other.at) }

func (c *clock) now() moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := moment{at: time.Now(), lost: c.lost}
	if !c.since.IsZero() {
		out.lost += out.at.Sub(c.since)
	}
	return out
}

// elapsed returns how long commands ran since a moment.
func (c *clock) elapsed(since moment) time.Duration {
	now := c.now()
	return now.at.Sub(since.at) - (now.lost - since.lost)
}

// hold stops the clock, or lets it continue.
func (c *clock) hold(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case held == !c.since.IsZero():
	case held:
		c.since, c.resumed = time.Now(), make(chan struct{})
	default:
		c.lost += time.Since(c.since)
		c.since = time.Time{}
		close(c.resumed)
	}
}

// holding returns a channel that is closed when the current pause ends, or nil
// if the clock is running.
func (c *clock) holding() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return nil
	}
	return c.resumed
}

// outlast waits until left returns no remaining time while the clock runs. It
// returns false if over is closed first.
func (c *clock) outlast(over <-chan struct{}, left func() time.Duration) bool {
	for {
		resumed := c.holding()
		rest := left()
		if resumed == nil && rest <= 0 {
			return true
		}
		var timer *time.Timer
		var due <-chan time.Time
		if resumed == nil {
			timer = time.NewTimer(rest)
			due = timer.C
		}
		select {
		case <-over:
		case <-resumed:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		select {
		case <-over:
			return false
		default:
		}
	}
}

// enforceTimeout kills a run whose time is over.
func (s *server) enforceTimeout(r *run, timeout time.Duration, began moment) {
	if !s.clock.outlast(r.stub.gone, func() time.Duration { return timeout - s.clock.elapsed(began) }) {
		return
	}
	s.kill(r, func(st *initv1.Status) {
		if st.GetKilledBy() == "" && !st.GetOutputLimit() {
			st.TimedOut = true
		}
	})
}

// limitOutput kills a run once it has written more than its limit, and then
// waits for its tree to end: what is in its pipes by then is all that comes.
func (s *server) limitOutput(r *run, limit int64) {
	if limit <= 0 || r.log.Size() <= limit {
		return
	}
	go s.kill(r, func(st *initv1.Status) {
		if st.GetKilledBy() == "" && !st.GetTimedOut() {
			st.OutputLimit = true
		}
	})
	<-r.stub.gone
}

// enforceGrace kills a run once the hub was not heard of for grace, counted
// from its beginning at the earliest.
func (s *server) enforceGrace(r *run, grace time.Duration, began moment) {
	left := func() time.Duration {
		s.mu.Lock()
		since := s.heard
		s.mu.Unlock()
		if since.before(began) {
			since = began
		}
		return grace - s.clock.elapsed(since)
	}
	if !s.clock.outlast(r.stub.gone, left) {
		return
	}
	s.kill(r, func(st *initv1.Status) {
		if st.GetKilledBy() == "" && !st.GetTimedOut() && !st.GetOutputLimit() {
			st.KilledBy = OfflineGrace
		}
	})
}

// Contact implements the protocol.
func (s *server) Contact(context.Context, *initv1.ContactRequest) (*initv1.ContactResponse, error) {
	now := s.clock.now()
	s.mu.Lock()
	s.heard = now
	s.mu.Unlock()
	return &initv1.ContactResponse{}, nil
}

// Hold implements the protocol.
func (s *server) Hold(_ context.Context, req *initv1.HoldRequest) (*initv1.HoldResponse, error) {
	s.mu.Lock()
	s.held = req.GetHeld()
	s.mu.Unlock()
	if req.GetHeld() {
		s.all() // once each has been spawned
	}
	if s.kernel != nil {
		if err := s.stopCommands(req.GetHeld()); err != nil {
			return nil, err
		}
	}
	s.clock.hold(req.GetHeld())
	return &initv1.HoldResponse{}, nil
}
