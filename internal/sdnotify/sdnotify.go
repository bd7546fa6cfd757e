// Package sdnotify reports the state of a service to systemd (sd_notify(3)).
//
// Send writes one message. Watch feeds the watchdog for as long as a check passes:
// systemd restarts a service that has not fed it for WatchdogSec. Without systemd,
// which sets the socket's address in NOTIFY_SOCKET, nothing is sent.
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Messages.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// stopMargin is what a stop may take beside the time that is given to work in progress.
const stopMargin = 30 * time.Second

// StoppingWithin says that the service ends in order and gives work in progress some time
// first. systemd waits for TimeoutStopSec of the unit, or longer if that needs more.
func StoppingWithin(d time.Duration) string {
	return fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", Stopping, (d + stopMargin).Microseconds())
}

// Send writes a message to the socket at address; an empty address takes nothing.
func Send(address, text string) error {
	if address == "" {
		return nil
	}
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

// Watch feeds the watchdog at each tick at which alive returns nil, until ctx ends.
// failed is called with what kept it from being fed.
func Watch(ctx context.Context, address string, tick <-chan time.Time, alive func(context.Context) error, failed func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		err := alive(ctx)
		if err == nil {
			err = Send(address, Watchdog)
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}
