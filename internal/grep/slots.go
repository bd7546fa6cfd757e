package grep

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// ErrBusy says that a caller has too many searches in progress.
var ErrBusy = errors.New("too many of your searches are in progress on this node")

// maxWaiting is how many searches of one caller wait for each other.
const maxWaiting = 8

// Slots bounds how many searches run at once: one of each caller, and as many
// as there are processors, but two, of all. A caller's further searches wait
// for its own.
type Slots struct {
	all chan struct{}

	mu      sync.Mutex
	callers map[string]*caller
}

type caller struct {
	turn  chan struct{}
	count int
}

// NewSlots creates slots.
func NewSlots() *Slots {
	return &Slots{all: make(chan struct{}, max(2, runtime.NumCPU())), callers: map[string]*caller{}}
}

// Take waits for a slot, which the function it returns gives back. A caller with
// too many searches is refused with ErrBusy.
func (s *Slots) Take(ctx context.Context, name string) (release func(), err error) {
	s.mu.Lock()
	c := s.callers[name]
	if c == nil {
		c = &caller{turn: make(chan struct{}, 1)}
		s.callers[name] = c
	}
	if c.count > maxWaiting {
		s.mu.Unlock()
		return nil, ErrBusy
	}
	c.count++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.count--; c.count == 0 {
			delete(s.callers, name)
		}
	}
	for _, slot := range []chan struct{}{c.turn, s.all} {
		select {
		case slot <- struct{}{}:
			inner := leave
			leave = func() { <-slot; inner() }
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}
