package step

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
)

const (
	// looksTimeout bounds how long a node is asked for one decision.
	looksTimeout = 2 * time.Second
	// maxRounds is how often a transaction begins again to have a node asked. What is
	// not known then counts as unknown.
	maxRounds = 3
)

// looks is what a node was asked about files for the decisions of one request. A
// node is asked only while nothing is locked: a decision in a transaction that
// needs an answer which is not there ends it with an event.Outside, by which the
// node is asked, and the transaction begins again.
type looks struct {
	// ask says that nothing is locked: the node may be asked.
	ask bool
	// texts are those of files as they are now; nil for what has none.
	texts map[lookedAt]*string
	// undoable is what calls would delete, by jail and path.
	undoable map[lookedAt]undone
	rounds   int
	end      time.Time // of asking
}

// lookedAt is a file of a jail, with the digest that the snapshots of its workspace
// say it has.
type lookedAt struct{ jail, path, digest string }

// undone is what came of a look at what a call would delete.
type undone struct {
	undoable bool
	files    int
}

func newLooks() *looks { return &looks{} }

// free returns looks that ask at once, for decisions outside of transactions.
func free() *looks { return &looks{ask: true} }

type looksKey struct{}

// looksOf returns the looks of a transaction, which may hold locks.
func looksOf(tx *event.Tx) *looks { return event.Keep(tx, looksKey{}, newLooks) }

// in has a transaction use looks that were begun before it.
func (l *looks) in(tx *event.Tx) {
	l.ask = false
	event.Keep(tx, looksKey{}, func() *looks { return l })
}

// asking calls fn while the node may be asked.
func (l *looks) asking(ctx context.Context, fn func(ctx context.Context)) {
	before := l.ask
	l.ask, l.end = true, time.Now().Add(looksTimeout)
	fn(ctx)
	l.ask = before
}

// later returns an event.Outside that has fn ask the node, or nil when that was done
// often enough.
func (l *looks) later(fn func(ctx context.Context)) error {
	if l.rounds >= maxRounds {
		return nil
	}
	return &event.Outside{Do: func(ctx context.Context) error {
		l.rounds++
		l.asking(ctx, fn)
		return nil
	}}
}

// text returns what a changed file holds now, nil where nobody can tell; asked is
// false where the node would have to be asked, and may not be now.
func (l *looks) text(c *changed, name, digest string) (text *string, asked bool) {
	at := lookedAt{c.task.JailID, name, digest}
	text, ok := l.texts[at]
	switch {
	case ok:
		return text, true
	case !l.ask:
		return nil, false
	}
	l.within(c.ctx, func(ctx context.Context) { text = c.read(ctx, name) })
	if l.texts == nil {
		l.texts = map[lookedAt]*string{}
	}
	l.texts[at] = text
	return text, true
}

// within calls fn with a context that ends when there is no more time to ask.
func (l *looks) within(ctx context.Context, fn func(ctx context.Context)) {
	if l.end.IsZero() {
		l.end = time.Now().Add(looksTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, l.end)
	defer cancel()
	fn(ctx)
}

// noteUndoable keeps what came of a look at what a call would delete.
func (l *looks) noteUndoable(at lookedAt, u undone) {
	if l.undoable == nil {
		l.undoable = map[lookedAt]undone{}
	}
	l.undoable[at] = u
}

// unseen returns why a decision about a call cannot be made yet: the node has to be
// asked first. It is nil for one that can.
func (l *looks) unseen(set policy.Set, c policy.Call) error {
	look, ok := c.Now.(*changed)
	if !ok || !look.missed {
		return nil
	}
	return l.later(func(ctx context.Context) {
		again := *look
		again.ctx, again.missed, again.names = ctx, false, nil
		c.Now = &again
		set.Decide(c)
	})
}
