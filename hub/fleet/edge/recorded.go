package edge

import "sync"

// ackQueue has the steps and execs whose end is stored here and not acknowledged to their
// node yet. They are acknowledged with the next heartbeat; if a link is lost, the node
// only keeps their results for longer.
type ackQueue struct {
	mu  sync.Mutex
	ids []string
}

// maxRecorded is how many a heartbeat takes along.
const maxRecorded = 1000

// Recorded acknowledges to the node that the end of a step or exec is stored. It does not
// block.
func (l *Link) Recorded(id string) {
	l.recorded.mu.Lock()
	defer l.recorded.mu.Unlock()
	l.recorded.ids = append(l.recorded.ids, id)
}

// take returns the next ids to acknowledge.
func (r *ackQueue) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.ids), maxRecorded)
	out := r.ids[:n:n]
	r.ids = r.ids[n:]
	return out
}
