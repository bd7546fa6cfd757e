package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/internal/metricsserver"
)

// missable is how many renewals may be missing before the hub counts as away.
const missable = 3

// Ready returns what this worker needs to take on tasks, as it is now. What it
// has continues for as long as its leases last.
func (w *Worker) Ready() []metricsserver.ReadinessCheck {
	hub, bus := metricsserver.ReadinessCheck{What: "hub"}, metricsserver.ReadinessCheck{What: "wake-ups"}
	interval := w.registered.Load().GetRenewInterval().AsDuration()
	if interval <= 0 {
		interval = defaultRenewal
	}
	switch heard := w.heard.Load(); {
	case heard == nil:
		hub.Problem = errors.New("not registered yet; see the log")
	case time.Since(*heard) > missable*interval:
		hub.Problem = fmt.Errorf("no answer for %s", time.Since(*heard).Round(time.Second))
	}
	if conn := w.bus.Load(); conn == nil || !conn.IsConnected() {
		bus.Problem = errors.New("they cannot be heard; see the log")
	}
	return []metricsserver.ReadinessCheck{hub, bus}
}

// heardNow notes that the hub has answered.
func (w *Worker) heardNow() {
	now := time.Now()
	w.heard.Store(&now)
}
