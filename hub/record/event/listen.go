package event

import (
	"context"
	"fmt"
	"sync"
)

// Hints signals that there may be something to read.
type Hints interface {
	SubscribeEvents(orgID string, fn func(taskID string)) (stop func(), err error)
	SubscribeThinking(orgID, taskID string, fn func(piece []byte)) (stop func(), err error)
}

// listeners share one subscription of an organisation's events among its watches. If each watch
// had its own, each would cost a goroutine, and a message for each event.
type listeners struct {
	hints Hints

	mu   sync.Mutex
	orgs map[string]*listening
}

// listening is the subscription of an organisation.
type listening struct {
	// ready is closed when it has begun, or has failed with err.
	ready chan struct{}
	stop  func()
	err   error
	// joined counts its watches; guarded by listeners.mu.
	joined int

	mu sync.Mutex
	// of are the watches by task; those of the whole organisation are below "".
	of map[string]map[chan<- struct{}]bool
}

// join sends to hint, without waiting, when one of the tasks has new events; with no tasks,
// when any has. Nothing that happens after it has returned is missed, until leave is called.
func (l *listeners) join(ctx context.Context, orgID string, taskIDs []string, hint chan<- struct{}) (leave func(), err error) {
	if len(taskIDs) == 0 {
		taskIDs = []string{""}
	}
	for again := false; ; again = true {
		o, first := l.enter(orgID)
		o.add(taskIDs, hint)
		leave := func() {
			o.remove(taskIDs, hint)
			l.leave(orgID, o)
		}
		if first {
			l.begin(orgID, o)
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
		if o.err == nil {
			return leave, nil
		}
		leave()
		if first || again {
			return nil, o.err
		}
		// It has failed for a watch that may have asked before the bus came back.
	}
}

// enter counts a watch of an organisation, and reports whether it is the first one.
func (l *listeners) enter(orgID string) (o *listening, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o = l.orgs[orgID]; o == nil {
		if l.orgs == nil {
			l.orgs = map[string]*listening{}
		}
		o, first = &listening{ready: make(chan struct{}), stop: func() {}, of: map[string]map[chan<- struct{}]bool{}}, true
		l.orgs[orgID] = o
	}
	o.joined++
	return o, first
}

// begin subscribes for all that have joined.
func (l *listeners) begin(orgID string, o *listening) {
	stop, err := l.hints.SubscribeEvents(orgID, o.tell)
	if err != nil {
		o.err = fmt.Errorf("subscribe to events: %w", err)
		l.mu.Lock()
		delete(l.orgs, orgID) // the next watch subscribes again
		l.mu.Unlock()
	} else {
		o.stop = stop
	}
	close(o.ready)
}

// leave ends the subscription with the last watch.
func (l *listeners) leave(orgID string, o *listening) {
	l.mu.Lock()
	o.joined--
	last := o.joined == 0
	if last && l.orgs[orgID] == o {
		delete(l.orgs, orgID)
	}
	l.mu.Unlock()
	if last {
		o.stop()
	}
}

func (o *listening) add(taskIDs []string, hint chan<- struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range taskIDs {
		if o.of[id] == nil {
			o.of[id] = map[chan<- struct{}]bool{}
		}
		o.of[id][hint] = true
	}
}

func (o *listening) remove(taskIDs []string, hint chan<- struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range taskIDs {
		delete(o.of[id], hint)
		if len(o.of[id]) == 0 {
			delete(o.of, id)
		}
	}
}

// tell tells the watches of a task.
func (o *listening) tell(taskID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, watches := range []map[chan<- struct{}]bool{o.of[taskID], o.of[""]} {
		for hint := range watches {
			select {
			case hint <- struct{}{}:
			default:
			}
		}
	}
}
