package worker

import "time"

// slowStart is how long a task that starts keeps its slot. One whose image is pulled or
// prepared, or whose node is awaited, takes longer and needs nothing of this machine.
const slowStart = 2 * time.Second

// slot is a task's place among those that run. It belongs to the task's goroutine.
type slot struct {
	of   chan struct{}
	held bool
	// settle ends the wait for a place that was lent, and reports whether it came; nil if none is
	// awaited.
	settle func() bool
}

// free gives the place to another task; it does nothing if that has happened.
func (s *slot) free() {
	if s.settle != nil {
		s.held = s.settle()
		s.settle = nil
	}
	if s.held {
		<-s.of
		s.held = false
	}
}

// lend calls fn, and gives the place to another task while fn takes longer than slowStart, if
// fewer than a worker's slots are lent already. After it, the task goes on at once, and has
// the next place that is free: for a while one task more than there are slots may run, at most
// twice as many.
func (w *Worker) lend(s *slot, fn func() error) error {
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
	stop, came := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case s.of <- struct{}{}:
			came <- true
		case <-stop:
			came <- false
		}
		<-w.lent
	}()
	s.settle = func() bool { close(stop); return <-came }
	return err
}
