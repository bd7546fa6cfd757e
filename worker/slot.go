package worker

import (
	"context"
	"time"
)

// slowStart is how long a task that starts keeps its slot. One whose image is pulled or
// prepared, or whose node is awaited, takes longer and needs nothing of this machine.
const slowStart = 2 * time.Second

// slot is a task's place among those that run. It belongs to the task's goroutine.
type slot struct {
	of   chan struct{}
	held bool
}

// free gives the place to another task; it does nothing if that has happened.
func (s *slot) free() {
	if s.held {
		<-s.of
		s.held = false
	}
}

// take waits for a place, until the context ends.
func (s *slot) take(ctx context.Context) error {
	if s.held {
		return nil
	}
	select {
	case s.of <- struct{}{}:
		s.held = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lend calls fn, and gives the place to another task while fn takes longer than slowStart, if
// fewer than a worker's slots are lent already. After it, the place is taken again: an error
// of the context leaves it to others.
func (w *Worker) lend(ctx context.Context, s *slot, fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	slow := time.NewTimer(slowStart)
	defer slow.Stop()
	select {
	case err := <-done:
		return err
	case <-slow.C:
	}
	select {
	case w.lent <- struct{}{}:
	default:
		return <-done // as many wait as there are slots
	}
	s.free()
	err := <-done
	<-w.lent
	if taken := s.take(ctx); err == nil {
		err = taken
	}
	return err
}
