package daemon

import (
	"errors"

	"github.com/deckhand-sh/deckhand/internal/metricsserver"
)

// ready returns what this node needs to take work, as it is now. What runs
// continues without any of it.
func (d *Daemon) ready() []metricsserver.ReadinessCheck {
	link, disk := metricsserver.ReadinessCheck{What: "link"}, metricsserver.ReadinessCheck{What: "disk"}
	if !d.linked.Load() {
		link.Problem = errors.New("no session with the hub; see the log")
	}
	if d.ledger.Reserved() {
		disk.Problem = errors.New("it is full: only control and cancellation work")
	}
	return []metricsserver.ReadinessCheck{link, disk}
}
