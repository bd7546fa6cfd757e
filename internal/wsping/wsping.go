// Package wsping closes WebSockets whose other end no longer responds.
package wsping

import (
	"context"
	"time"

	"github.com/coder/websocket"
)

// Interval is how often a connection is pinged, and how long its other end may take to
// respond.
const Interval = 20 * time.Second

// Keep pings a connection until ctx ends, and closes it if a ping gets no response within
// the interval. Somebody has to read from the connection meanwhile.
func Keep(ctx context.Context, conn *websocket.Conn, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		answered, cancel := context.WithTimeout(ctx, interval)
		err := conn.Ping(answered)
		cancel()
		if err != nil {
			_ = conn.CloseNow()
			return
		}
	}
}
