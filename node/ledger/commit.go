package ledger

import (
	"sync"

	"go.etcd.io/bbolt"
)

// commits batches writes to disk: those that arrive while a transaction is
// being committed share the next one. A single write is not delayed.
type commits struct {
	turn chan struct{} // holds one while a transaction is in progress

	mu      sync.Mutex
	waiting []*write // guarded by mu
}

// write is one caller's part of a transaction.
type write struct {
	fn   func(tx *bbolt.Tx) error
	err  error         // set before done is closed
	done chan struct{} // closed when it is on disk, or failed
}

func newCommits() *commits { return &commits{turn: make(chan struct{}, 1)} }

// do returns when fn's writes are on disk. commit is one transaction, the same
// for every caller.
func (c *commits) do(fn func(tx *bbolt.Tx) error, commit func(func(tx *bbolt.Tx) error) error) error {
	w := &write{fn: fn, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	all := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	commitAll(all, commit)
	return w.err // it was among all, or among those of a turn before
}

// commitAll commits writes together. When one of them fails, nothing of the
// transaction stays: each then has one of its own, so that it fails alone.
func commitAll(all []*write, commit func(func(tx *bbolt.Tx) error) error) {
	defer func() {
		for _, w := range all {
			close(w.done)
		}
	}()
	if len(all) > 1 {
		if commit(func(tx *bbolt.Tx) error {
			for _, w := range all {
				if err := w.fn(tx); err != nil {
					return err
				}
			}
			return nil
		}) == nil {
			return
		}
	}
	for _, w := range all {
		w.err = commit(w.fn)
	}
}
