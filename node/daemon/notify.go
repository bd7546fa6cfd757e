package daemon

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/sdnotify"
)

// notifier reports the daemon's status to systemd (sd_notify(3)). Only contact
// with the hub feeds the watchdog: systemd restarts a daemon that has had no
// contact for WatchdogSec. A restart ends no command, and repairs every cause
// of the lost contact that a restart can repair.
//
// Without a socket a notifier does nothing.
type notifier struct {
	address string
	log     hclog.Logger

	mu  sync.Mutex
	fed time.Time // the watchdog, last
}

// feedEvery spares systemd a message for each of the hub's.
const feedEvery = time.Second

// ready says that the daemon serves.
func (n *notifier) ready() { n.send(sdnotify.Ready + "\nSTATUS=Waiting for the hub") }

// stopping says that it ends in order, and how long that may take.
func (n *notifier) stopping(within time.Duration) { n.send(sdnotify.StoppingWithin(within)) }

// upgrading says that another program takes its place.
func (n *notifier) upgrading(version string) { n.send("STATUS=Trying release " + version) }

// linked reports whether the link is connected.
func (n *notifier) linked(connected bool) {
	status := "STATUS=No link to the hub; commands go on"
	if connected {
		status = "STATUS=Linked to the hub"
	}
	n.send(status)
}

// contact says that the hub was heard of.
func (n *notifier) contact() {
	n.mu.Lock()
	now := time.Now()
	due := now.Sub(n.fed) >= feedEvery
	if due {
		n.fed = now
	}
	n.mu.Unlock()
	if due {
		n.send(sdnotify.Watchdog)
	}
}

func (n *notifier) send(text string) {
	if err := sdnotify.Send(n.address, text); err != nil {
		n.log.Warn("cannot notify systemd", "message", text, "error", err)
	}
}
