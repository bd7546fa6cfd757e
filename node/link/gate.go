package link

import (
	"sync"

	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// gate admits calls while a session is established, and signals when the last
// has ended. The zero value is closed; drain closes it for good.
type gate struct {
	mu      sync.Mutex
	open    bool
	drained chan struct{} // made by drain, closed when no call is inside
	inside  drain.Calls
}

// unlock opens the gate, unless it was drained before.
func (g *gate) unlock() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = g.drained == nil
	return g.open
}

// enter counts a call in; leave must be called if there is no error.
func (g *gate) enter(method string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return nil, errOutside()
	}
	left := g.inside.Enter(method)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		left()
		if g.inside.Len() == 0 && g.drained != nil {
			close(g.drained)
		}
	}, nil
}

// admit admits a call that drain does not wait for.
func (g *gate) admit() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return errOutside()
	}
	return nil
}

func errOutside() error {
	return fault.New(fault.Unavailable, "the node takes no calls outside a session").
		WithCode(fault.NodeUnavailable).WithFix("try again when the node is connected")
}

// drain shuts the gate and returns a channel that is closed when every call has
// left.
func (g *gate) drain() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
	if g.drained == nil {
		g.drained = make(chan struct{})
		if g.inside.Len() == 0 {
			close(g.drained)
		}
	}
	return g.drained
}
