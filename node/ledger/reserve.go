package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// DefaultReserve is how much of the disk is kept for a full one, in bytes.
const DefaultReserve = 8 << 20

// reserve is a file that takes room until the disk is full. It is given up
// then, so that what runs can be ended and its end be recorded; nothing new is
// accepted until it has been taken back.
type reserve struct {
	path string
	size int64

	mu   sync.Mutex
	held bool
}

// take makes the reserve and says whether it is there. A disk that has no room
// for it, and as much again, has none for anything new either.
func (r *reserve) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held || r.size == 0 {
		return true
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	if info.Size() < r.size {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || int64(fs.Bavail)*fs.Bsize < 2*r.size {
			return false
		}
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, r.size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		// A file system that promises no room: there is nothing to keep.
		err = nil
	}
	if err != nil {
		_ = f.Truncate(0)
		return false
	}
	r.held = true
	return true
}

// beside reports whether there is room for a while beside the reserve.
func (r *reserve) beside() bool {
	if r.size == 0 {
		return true
	}
	var fs unix.Statfs_t
	err := unix.Statfs(filepath.Dir(r.path), &fs)
	return err == nil && int64(fs.Bavail)*fs.Bsize >= r.size/4
}

// release gives the room back and says whether there was any to give.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.path)
	r.held = false
	return err == nil && info.Size() > 0 && os.Truncate(r.path, 0) == nil
}

// isFull reports whether something failed for want of room.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// withReserve runs fn, and once more with the reserve given up when the disk is
// full.
func (r *reserve) withReserve(fn func() error) error {
	err := fn()
	if isFull(err) && r.release() {
		err = fn()
	}
	if isFull(err) {
		return fault.New(fault.Exhausted, "the node's disk is full").
			WithFix("make room on the file system of %s", r.path).WithCause(err)
	}
	return err
}

// WithReserve runs a write of a few kilobytes on the ledger's file system, and
// once more with the reserve given up when the disk is full: for what the node
// must be able to do even then.
func (l *Ledger) WithReserve(write func() error) error { return l.reserve.withReserve(write) }

// Reserved reports whether the room for a full disk is kept.
func (l *Ledger) Reserved() bool {
	l.reserve.mu.Lock()
	defer l.reserve.mu.Unlock()
	return l.reserve.held || l.reserve.size == 0
}

// Accepting refuses what is new while the disk is full.
func (l *Ledger) Accepting() error { return l.reserve.accepting() }

// accepting refuses while there is no reserve, or nothing but the reserve.
func (r *reserve) accepting() error {
	if r.take() && r.beside() {
		return nil
	}
	return fault.New(fault.Exhausted, "the node's disk is full, and the remaining space is reserved for stopping commands").
		WithFix("make room on the file system of %s: at least %s", r.path, fmt.Sprintf("%d MiB", 2*r.size>>20))
}
