package daemon

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
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
func (n *notifier) ready() { n.send("READY=1\nSTATUS=Waiting for the hub") }

// stopping says that it ends in order.
func (n *notifier) stopping() { n.send("STOPPING=1") }

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
		n.send("WATCHDOG=1")
	}
}

func (n *notifier) send(text string) {
	if n.address == "" {
		return
	}
	if err := notify(n.address, text); err != nil {
		n.log.Warn("cannot notify systemd", "message", text, "error", err)
	}
}

func notify(address, text string) error {
	// systemd writes the NUL of an abstract address as @.
	if rest, abstract := strings.CutPrefix(address, "@"); abstract {
		address = "\x00" + rest
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text)); err != nil {
		return fmt.Errorf("write to %s: %w", address, err)
	}
	return nil
}
