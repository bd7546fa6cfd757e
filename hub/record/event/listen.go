package event

import (
	"fmt"
	"sync"
)

// Hints signals that there may be something to read.
type Hints interface {
	SubscribeEvents(orgID string, fn func(taskID string)) (stop func(), err error)
	SubscribeThinking(orgID, taskID string, fn func(piece []byte)) (stop func(), err error)
}

// listeners share one subscription of an organisation's events among its watches: one of
// each would cost a goroutine, and a message for each event.
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
func (l *listeners) join(orgID string, taskIDs []string, hint chan<- struct{}) (leave func(), err error) {
	if len(taskIDs) == 0 {
		taskIDs = []string{""}
	}
	l.mu.Lock()
	o := l.orgs[orgID]
	first := o == nil
	if first {
		o = &listening{ready: make(chan struct{}), stop: func() {}, of: map[string]map[chan<- struct{}]bool{}}
		if l.orgs == nil {
			l.orgs = map[string]*listening{}
		}
		l.orgs[orgID] = o
	}
	o.joined++
	l.mu.Unlock()
	o.add(taskIDs, hint)
	if first {
		if stop, err := l.hints.SubscribeEvents(orgID, o.tell); err != nil {
			o.err = fmt.Errorf("subscribe to events: %w", err)
		} else {
			o.stop = stop
		}
		close(o.ready)
	}
	<-o.ready
	leave = func() {
		o.remove(taskIDs, hint)
		l.mu.Lock()
		o.joined--
		last := o.joined == 0
		if last {
			delete(l.orgs, orgID)
		}
		l.mu.Unlock()
		if last {
			o.stop()
		}
	}
	if o.err != nil {
		leave()
		return nil, o.err
	}
	return leave, nil
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
