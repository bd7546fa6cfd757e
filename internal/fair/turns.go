package fair

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// demandAge is the time after which what an asker did counts by about a third.
	demandAge = 2 * time.Second
	// activeFor is how long an asker counts as active after its last turn.
	activeFor = 5 * time.Second
	// turnTime is how long a turn lasts at most. A call that takes longer is taken
	// to wait for something, as for a node or a service elsewhere, which costs the
	// hub nothing.
	turnTime = 250 * time.Millisecond
	// pauses is how many times as long as a turn the pause after it is.
	pauses = 2
	// maxQueue is how many calls of one asker may wait.
	maxQueue = 2000
)

// Turns bounds how much of the processors each asker takes while others need them.
// An asker that is alone is not bounded, nor is one that uses less than its share;
// one that uses more has so many calls at once as are its share of the processors,
// and at least one, and its others wait; and after each it pauses for twice as
// long as that took, so that most of the machine is left to those that use little. It
// is safe for use by many goroutines.
type Turns struct {
	processors int
	now        func() time.Time

	mu  sync.Mutex
	of  map[string]*asker
	sum demand
}

// demand is how many calls had a turn or waited for one at once, on average over
// the last demandAge.
type demand struct {
	calls   int
	average float64
	at      time.Time
}

func (d *demand) until(now time.Time) {
	if age := now.Sub(d.at); age > 0 {
		left := math.Exp(-age.Seconds() / demandAge.Seconds())
		d.average = d.average*left + float64(d.calls)*(1-left)
		d.at = now
	}
}

func (d *demand) change(now time.Time, by int) {
	d.until(now)
	d.calls += by
}

type asker struct {
	demand

	held    int
	waiting []chan struct{} // closed when its turn has come; first come, first served
	// pause is until when no turn begins; wake ends it.
	pause time.Time
	wake  *time.Timer
}

// NewTurns creates Turns for the processors of this machine.
func NewTurns() *Turns {
	return &Turns{processors: runtime.GOMAXPROCS(0), now: time.Now, of: map[string]*asker{}}
}

// Turn makes a turn of who, which is still to begin and has to be ended.
func (t *Turns) Turn(who string) *Turn { return &Turn{of: t, who: who} }

// enter counts a turn of who, or returns what is closed when it has come.
func (t *Turns) enter(who string) (come chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	at := t.of[who]
	if at == nil {
		at = &asker{demand: demand{at: now}}
		t.of[who] = at
	}
	if len(at.waiting) >= maxQueue {
		return nil, fault.New(fault.Exhausted, "%d calls wait already", maxQueue).
			WithCode(fault.RateLimited).WithFix("try again when they have ended").WithRetryAfter(time.Second)
	}
	t.demand(at, now, 1)
	if len(at.waiting) == 0 && at.held < t.limit(who, at, now) {
		at.held++
		return nil, nil
	}
	come = make(chan struct{})
	at.waiting = append(at.waiting, come)
	t.next(who, at, now)
	return come, nil
}

// demand counts a call of an asker more, or less.
func (t *Turns) demand(at *asker, now time.Time, by int) {
	at.change(now, by)
	t.sum.change(now, by)
}

// limit returns how many turns who may hold at once.
func (t *Turns) limit(who string, at *asker, now time.Time) int {
	active := 1
	for name, other := range t.of {
		switch {
		case name == who:
		case other.calls > 0 || now.Sub(other.at) < activeFor:
			active++
		default:
			delete(t.of, name)
		}
	}
	if active == 1 {
		return math.MaxInt
	}
	at.until(now)
	t.sum.until(now)
	busy := t.sum.average > float64(t.processors)/4
	if !busy || at.average*float64(active) <= t.sum.average {
		return math.MaxInt
	}
	if now.Before(at.pause) {
		return 0
	}
	return share(t.processors, active)
}

// share returns how many of the processors each of so many askers has.
func share(processors, askers int) int { return max(1, processors/askers) }

// leave ends a turn of who that took so long.
func (t *Turns) leave(who string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	at := t.of[who]
	at.held--
	t.demand(at, now, -1)
	if until := now.Add(pauses * took); until.After(at.pause) {
		at.pause = until
	}
	t.next(who, at, now)
}

// next has those come whose turn it is.
func (t *Turns) next(who string, at *asker, now time.Time) {
	limit := t.limit(who, at, now)
	for ; len(at.waiting) > 0 && at.held < limit; at.waiting = at.waiting[1:] {
		at.held++
		close(at.waiting[0])
	}
	if len(at.waiting) > 0 && limit == 0 && at.wake == nil {
		at.wake = time.AfterFunc(at.pause.Sub(now), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			at.wake = nil
			t.next(who, at, t.now())
		})
	}
}

// forget takes back a call that waits, and reports whether its turn had not come.
func (t *Turns) forget(who string, come chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.of[who]
	for i, other := range at.waiting {
		if other == come {
			at.waiting = append(at.waiting[:i], at.waiting[i+1:]...)
			t.demand(at, t.now(), -1)
			return true
		}
	}
	return false
}

// Turn is the right of one call to use the processors. It is safe for use by
// many goroutines.
type Turn struct {
	of  *Turns
	who string

	mu      sync.Mutex
	began   time.Time
	held    bool
	ended   bool
	resting int
	timer   *time.Timer
}

type turnKey struct{}

// With returns a context that Rest finds the turn in.
func (t *Turn) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// Rest gives back the turn of ctx, if there is one, while its call waits for
// something that costs the hub nothing. What it returns waits for a turn again,
// until ctx ends.
func Rest(ctx context.Context) (again func()) {
	t, ok := ctx.Value(turnKey{}).(*Turn)
	if !ok {
		return func() {}
	}
	t.mu.Lock()
	t.resting++
	t.mu.Unlock()
	t.giveBack()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		t.resting--
		wanted := t.resting == 0 && !t.ended
		t.mu.Unlock()
		if wanted {
			_ = t.Begin(ctx) // without a turn the call goes on, and ends, for its ctx has
		}
	})
}

// End gives the turn back for good.
func (t *Turn) End() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.giveBack()
}

// Begin waits until the turn has come. Where too many wait it refuses with
// RATE_LIMITED, and when ctx ends with its error.
func (t *Turn) Begin(ctx context.Context) error {
	come, err := t.of.enter(t.who)
	if err != nil {
		return err
	}
	if come != nil {
		select {
		case <-come:
		case <-ctx.Done():
			if t.of.forget(t.who, come) {
				return ctx.Err()
			}
		}
	}
	t.mu.Lock()
	keep := !t.ended && !t.held
	if keep {
		t.held, t.began = true, t.of.now()
		t.timer = time.AfterFunc(turnTime, t.giveBack)
	}
	t.mu.Unlock()
	if !keep {
		t.of.leave(t.who, 0)
	}
	return nil
}

func (t *Turn) giveBack() {
	t.mu.Lock()
	held, took := t.held, t.of.now().Sub(t.began)
	t.held = false
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	if held {
		t.of.leave(t.who, took)
	}
}
