// Package lifecycle defines how everything that owns a goroutine is started and
// stopped.
//
// A Service starts once, and stops when Stop is called or its context ends.
// Done is closed when it has stopped. Stop may be called from any goroutine,
// any number of times, before, during or after Start; it returns when the
// service has stopped. A stopped service may be started again.
//
// Most services embed Runner and pass it the function to run:
//
//	type Sweeper struct{ lifecycle.Runner }
//
//	func (s *Sweeper) Start(ctx context.Context) error {
//		return s.Runner.Run(ctx, s.loop)
//	}
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Service owns goroutines.
type Service interface {
	// Start returns when the service is ready to serve. The context bounds its
	// whole life, not only its start.
	Start(ctx context.Context) error
	// Stop asks the service to end and returns when it has.
	Stop()
	// Done is closed when a started service has ended, by whatever cause.
	Done() <-chan struct{}
	// Err returns why the service ended by itself; nil while it runs and after
	// an ordinary stop.
	Err() error
}

// ErrRunning is answered by a Start of what already runs.
var ErrRunning = errors.New("already running")

// Runner runs one function as a service. The zero value is ready.
type Runner struct {
	mu     sync.Mutex
	cancel context.CancelFunc // non-nil while running
	done   chan struct{}
	err    error
}

// Run starts fn in a goroutine of its own. fn must return soon after its
// context ends. An error it returns before that is kept for Err.
func (r *Runner) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		return ErrRunning
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r.cancel, r.done, r.err = cancel, done, nil
	go func() {
		err := fn(ctx)
		ended := ctx.Err() != nil
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !ended {
			r.err = err
		}
		r.cancel = nil
		close(done)
	}()
	return nil
}

// Stop ends the function's context and waits for it to return.
func (r *Runner) Stop() {
	r.mu.Lock()
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if done != nil {
		<-done
	}
}

// Done is closed when the function has returned. Before the first Run it is
// nil, which blocks forever.
func (r *Runner) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// Err returns what the function returned, if it returned by itself.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Group starts services in order and stops them in reverse. It stops all of
// them as soon as one ends by itself.
type Group struct {
	Runner

	members []member
}

type member struct {
	name    string
	service Service
}

// Add appends a service; call it before Start.
func (g *Group) Add(name string, s Service) { g.members = append(g.members, member{name, s}) }

// Start starts every service. If one fails, those already started are stopped.
func (g *Group) Start(ctx context.Context) error {
	// The members live until they are stopped one by one, in order, even when
	// ctx ends: a hub must outlive the worker that reports to it.
	base := context.WithoutCancel(ctx)
	for i, m := range g.members {
		if err := m.service.Start(base); err != nil {
			g.stopMembers(i)
			return fmt.Errorf("start %s: %w", m.name, err)
		}
	}
	if err := g.Run(ctx, g.watch); err != nil {
		g.stopMembers(len(g.members))
		return err
	}
	return nil
}

func (g *Group) watch(ctx context.Context) error {
	ended := make(chan member, len(g.members))
	for _, m := range g.members {
		go func() {
			<-m.service.Done()
			ended <- m
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case m := <-ended:
		err = fmt.Errorf("%s ended", m.name)
		if cause := m.service.Err(); cause != nil {
			err = fmt.Errorf("%s: %w", m.name, cause)
		}
	}
	g.stopMembers(len(g.members))
	return err
}

func (g *Group) stopMembers(n int) {
	for i := n - 1; i >= 0; i-- {
		g.members[i].service.Stop()
	}
}

// Lazy is a service that is made when it is started: for one that needs others
// of its group to run before it can be put together.
type Lazy struct {
	// Make returns the service, not yet started.
	Make func(ctx context.Context) (Service, error)

	mu      sync.Mutex
	service Service // what the last start made
}

// Start makes the service and starts it.
func (l *Lazy) Start(ctx context.Context) error {
	s, err := l.Make(ctx)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		s.Stop()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.service = s
	return nil
}

func (l *Lazy) made() Service {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.service
}

// Stop ends what was made, if anything was.
func (l *Lazy) Stop() {
	if s := l.made(); s != nil {
		s.Stop()
	}
}

// Done is the made service's; nil before.
func (l *Lazy) Done() <-chan struct{} {
	if s := l.made(); s != nil {
		return s.Done()
	}
	return nil
}

// Err is the made service's.
func (l *Lazy) Err() error {
	if s := l.made(); s != nil {
		return s.Err()
	}
	return nil
}
