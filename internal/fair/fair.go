// Package fair shares a limited resource of the hub among its users, so that
// none of them makes the others wait. [Lanes] limits how many operations of one
// user run at once, [Turns] shares processor time, and [Room] limits an amount,
// such as bytes of memory, for each user and in total.
package fair

import (
	"context"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Lanes bounds what each asker does at once. It is safe for use by many
// goroutines.
type Lanes struct {
	each, waiting int

	mu sync.Mutex
	of map[string]*lane
}

type lane struct {
	turns chan struct{}
	users int // that hold a turn or wait for one
}

// NewLanes creates Lanes of so many turns for each asker, for which so many more
// may wait.
func NewLanes(each, waiting int) *Lanes {
	return &Lanes{each: each, waiting: waiting, of: map[string]*lane{}}
}

// Take waits for a turn of who, and returns what ends it. Where too many wait it
// refuses with RATE_LIMITED, and when ctx ends with its error.
func (l *Lanes) Take(ctx context.Context, who string) (done func(), err error) {
	l.mu.Lock()
	at := l.of[who]
	if at == nil {
		at = &lane{turns: make(chan struct{}, l.each)}
		l.of[who] = at
	}
	if at.users >= l.each+l.waiting {
		l.mu.Unlock()
		return nil, fault.New(fault.Exhausted, "%d such calls are in progress or wait already", l.each+l.waiting).
			WithCode(fault.RateLimited).WithFix("try again when they have ended")
	}
	at.users++
	l.mu.Unlock()
	select {
	case at.turns <- struct{}{}:
		return sync.OnceFunc(func() {
			<-at.turns
			l.leave(who, at)
		}), nil
	case <-ctx.Done():
		l.leave(who, at)
		return nil, ctx.Err()
	}
}

// leave removes a lane that is not in use.
func (l *Lanes) leave(who string, at *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(l.of, who)
	}
}

// Room is an amount that askers take parts of. It is safe for use by many
// goroutines.
type Room struct {
	total, each int64

	mu    sync.Mutex
	taken int64
	of    map[string]int64
}

// NewRoom creates Room of total, of which each asker may have so much.
func NewRoom(total, each int64) *Room {
	return &Room{total: total, each: each, of: map[string]int64{}}
}

// Take takes n for every one of who, who are the same asker under several
// names, and reports whether there was room; where not, nothing is taken.
func (r *Room) Take(n int64, who ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+n > r.total {
		return false
	}
	for _, name := range who {
		if r.of[name]+n > r.each {
			return false
		}
	}
	r.taken += n
	for _, name := range who {
		r.of[name] += n
	}
	return true
}

// Give gives back what was taken.
func (r *Room) Give(n int64, who ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
	for _, name := range who {
		if r.of[name] -= n; r.of[name] <= 0 {
			delete(r.of, name)
		}
	}
}
