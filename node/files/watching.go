package files

import (
	"sync"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Bounds of all watches. Each has one of the 128 inotify instances that the
// kernel gives root for the whole machine, and holds its folders open.
const (
	maxWatches      = 64
	maxJailWatches  = 16
	maxFolders      = 32 << 10
	maxJailFolders  = 8 << 10
	maxWatchFolders = 4096
)

// watching counts the watches that are in progress.
type watching struct {
	mu      sync.Mutex
	watches int
	folders int
	jails   map[string]*jailWatching
}

type jailWatching struct{ watches, folders int }

// begin counts a watch of a jail, or refuses it.
func (w *watching) begin(jailID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jails[jailID]
	if j == nil {
		j = &jailWatching{}
	}
	if j.watches >= maxJailWatches {
		return fault.New(fault.Exhausted, "%d watches of this workspace are open", j.watches).
			WithFix("end one of them first").WithObject(jailID)
	}
	if w.watches >= maxWatches {
		return fault.New(fault.Exhausted, "%d watches of workspaces are open on this node", w.watches).
			WithFix("end one of them first").WithObject(jailID)
	}
	if w.jails == nil {
		w.jails = map[string]*jailWatching{}
	}
	w.jails[jailID] = j
	j.watches++
	w.watches++
	return nil
}

// folder counts one more folder of a watch that has so many; false when there
// is no room for it.
func (w *watching) folder(jailID string, have int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jails[jailID]
	if have >= maxWatchFolders || j.folders >= maxJailFolders || w.folders >= maxFolders {
		return false
	}
	j.folders++
	w.folders++
	return true
}

// end gives back a watch with its folders.
func (w *watching) end(jailID string, folders int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jails[jailID]
	j.watches--
	j.folders -= folders
	w.watches--
	w.folders -= folders
	if j.watches == 0 {
		delete(w.jails, jailID)
	}
}
