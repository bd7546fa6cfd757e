package edge

import "sync"

// ackQueue are the steps and execs whose end is on record here and whose node
// has not been told yet. It is told with the next heartbeat; what a lost link
// takes along the node only keeps for longer.
type ackQueue struct {
	mu  sync.Mutex
	ids []string
}

// maxRecorded is how many a heartbeat takes along.
const maxRecorded = 1000

// Recorded has the node told that the end of a step or exec is on record. It
// does not block.
func (l *Link) Recorded(id string) {
	l.recorded.mu.Lock()
	defer l.recorded.mu.Unlock()
	l.recorded.ids = append(l.recorded.ids, id)
}

// take returns the next that the node is told of.
func (r *ackQueue) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.ids), maxRecorded)
	out := r.ids[:n:n]
	r.ids = r.ids[n:]
	return out
}
