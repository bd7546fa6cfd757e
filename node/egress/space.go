package egress

import (
	"fmt"
	"io"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxHeld and maxAllHeld bound what the requests of a jail, and of all, keep in memory
	// because it must be read before it is passed on: bodies that are read to decide them,
	// heads of pushes and what judging them takes, and responses of Git LFS; in bytes.
	maxHeld    = 96 << 20
	maxAllHeld = 320 << 20
	// pushMemory is what judging one push may take; pushLimits bound it.
	pushMemory = 36 << 20
	// lfsCopies is how often a response of Git LFS is in memory while it is rewritten: as it
	// came, as it was understood, and as it is passed on.
	lfsCopies = 3
)

// space counts bytes of files or of memory, up to a limit.
type space struct {
	most int64

	mu   sync.Mutex
	used int64 // guarded by mu
}

func newSpace(most int64) *space { return &space{most: most} }

func (s *space) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.most {
		return false
	}
	s.used += n
	return true
}

func (s *space) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// spaces are those of a jail and of all.
type spaces [2]*space

// take takes bytes of both, or of none; full is the one that has no more.
func (s spaces) take(n int64) (full *space) {
	for i, one := range s {
		if !one.take(n) {
			for _, before := range s[:i] {
				before.give(n)
			}
			return one
		}
	}
	return nil
}

func (s spaces) give(n int64) {
	for _, one := range s {
		one.give(n)
	}
}

// hold is what one request keeps in memory. It is used by one goroutine at a time.
type hold struct {
	spaces spaces
	n      int64
}

func (j *jail) newHold() *hold { return &hold{spaces: spaces{j.memory, j.p.memory}} }

// take counts bytes that are about to be kept. The error is a fault.Exhausted.
func (h *hold) take(n int64) error {
	full := h.spaces.take(n)
	if full == nil {
		h.n += n
		return nil
	}
	whose := "this jail's requests keep"
	if full != h.spaces[0] {
		whose = "the requests of all jails on this node keep"
	}
	return fault.New(fault.Exhausted, "%s as much in memory as they may, %d MiB: bodies that must be read before they are passed on", whose, full.most>>20).
		WithFix("send fewer of them at once, or try again in a moment")
}

// keep gives back all but some bytes.
func (h *hold) keep(n int64) {
	if n < h.n {
		h.spaces.give(h.n - n)
		h.n = n
	}
}

// release gives back everything.
func (h *hold) release() { h.keep(0) }

// holding is a body that is kept in memory as it is read, until it is let go: then it is only
// passed on.
type holding struct {
	io.ReadCloser

	hold *hold
	let  bool
	full error // why no more could be kept
}

// Read implements io.Reader.
func (b *holding) Read(p []byte) (int, error) {
	if b.full != nil {
		return 0, b.full
	}
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.let {
		if b.full = b.hold.take(int64(n)); b.full != nil {
			return 0, b.full
		}
	}
	return n, err
}

// holdText returns what is said of a body that could not be kept.
func holdText(err error) string {
	e := fault.As(err)
	if e == nil {
		return err.Error()
	}
	return fmt.Sprintf("%s; %s", e.Message, e.Fix)
}
