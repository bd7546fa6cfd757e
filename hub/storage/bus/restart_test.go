package bus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// A server that ended by itself is back at the same address, and the hub's
// connections and a worker's come back to it by themselves.
func TestAServerThatBreaksIsStartedAgain(t *testing.T) {
	t.Parallel()
	server, err := bus.NewServer(bus.ServerConfig{
		Listen: "127.0.0.1:0", HubPassword: "hub-secret", EventsPassword: "events-secret", WorkerSecret: "worker-secret",
	})
	require.NoError(t, err)
	kept := &lifecycle.Restart{Name: "the bus server", Service: server}
	require.NoError(t, kept.Start(t.Context()))
	t.Cleanup(kept.Stop)
	b := connect(t, bus.Config{Server: server})
	a := access(t, b, "", "worker_1")
	conn, _ := worker(t, server, a)
	url := server.URL()

	server.Break()
	require.Eventually(t, func() bool { return b.Connected() != nil || conn.Stats().Reconnects > 0 }, time.Minute, 5*time.Millisecond, "the loss is noticed")
	require.Eventually(t, func() bool { return b.Connected() == nil && conn.IsConnected() }, time.Minute, 10*time.Millisecond)
	require.Equal(t, url, server.URL())
	require.Eventually(t, func() bool {
		return b.Publish(t.Context(), "", bus.Wakeup{TaskID: "task_a", Attempt: 1}) == nil
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, bus.Wakeup{TaskID: "task_a", Attempt: 1}, pull(t, conn, access(t, b, "", "worker_1")))
	require.NoError(t, kept.Err())
}
