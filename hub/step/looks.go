package step

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
)

const (
	// looksTimeout is how long a node may take to answer for one decision.
	looksTimeout = 2 * time.Second
	// maxRounds is how often a transaction is restarted to ask a node. What is still
	// missing then counts as unknown.
	maxRounds = 3
)

// looks holds what nodes reported about files for the decisions of one request. A node is
// asked only while no lock is held: if a decision in a transaction needs a report that is
// missing, it ends the transaction with an event.Outside, which asks the node, and the
// transaction starts again.
type looks struct {
	// ask reports that no lock is held: the node may be asked.
	ask bool
	// texts are the current contents of files.
	texts map[lookedAt]content
	// undoable is what calls would delete, by jail and path.
	undoable map[lookedAt]undone
	// inspected is what calls would do, of tools that inspect.
	inspected map[inspectedCall]inspected
	// attached are the files of questions.
	attached map[inspectedCall]attached
	// changes are what calls would do to files, of file tools.
	changes map[inspectedCall]*inbox.FileChanges
	rounds  int
	end     time.Time // deadline for asking
}

// lookedAt identifies a file of a jail, with its digest in the snapshots of its
// workspace.
type lookedAt struct{ jail, path, digest string }

// content is what a node reported about the content of a file.
type content struct {
	// text is nil for a file that is no text, is too large or does not exist.
	text *string
	// unread reports that the node did not answer in time, or could not.
	unread bool
}

// undone is what a node reported about a deletion.
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

// in makes a transaction use looks that were created before it.
func (l *looks) in(tx *event.Tx) {
	l.ask = false
	event.Keep(tx, looksKey{}, func() *looks { return l })
}

// asking calls fn with asking allowed.
func (l *looks) asking(ctx context.Context, fn func(ctx context.Context)) {
	before := l.ask
	l.ask, l.end = true, time.Now().Add(looksTimeout)
	fn(ctx)
	l.ask = before
}

// later returns an event.Outside that calls fn, which asks the node, or nil after
// maxRounds rounds.
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

// text returns the current content of a changed file. asked is false if the node would have
// to be asked and may not be asked now.
func (l *looks) text(c *changed, name, digest string) (text content, asked bool) {
	at := lookedAt{c.task.JailID, name, digest}
	text, ok := l.texts[at]
	switch {
	case ok:
		return text, true
	case !l.ask:
		return content{}, false
	}
	l.within(c.ctx, func(ctx context.Context) { text = c.read(ctx, name) })
	if l.texts == nil {
		l.texts = map[lookedAt]content{}
	}
	l.texts[at] = text
	return text, true
}

// within calls fn with a context that ends at the deadline for asking.
func (l *looks) within(ctx context.Context, fn func(ctx context.Context)) {
	if l.end.IsZero() {
		l.end = time.Now().Add(looksTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, l.end)
	defer cancel()
	fn(ctx)
}

// noteUndoable stores what a node reported about a deletion.
func (l *looks) noteUndoable(at lookedAt, u undone) {
	if l.undoable == nil {
		l.undoable = map[lookedAt]undone{}
	}
	l.undoable[at] = u
}

// unseen returns why a call cannot be decided yet, an event.Outside that asks the node
// first. It returns nil if the call can be decided.
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
