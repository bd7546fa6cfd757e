package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/bus"
)

// A worker that died while it was pulling must not be sent a wake-up that then
// waits for its acknowledgement to run out.
func TestPullOfAWorkerThatIsGoneTakesNoWakeup(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	b := connect(t, bus.Config{Server: server})
	first, second := access(t, b, "", "worker_1"), access(t, b, "", "worker_2")
	dead, _ := worker(t, server, first)
	js, err := jetstream.New(dead)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), first.Stream, first.Consumer)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	batch, err := consumer.Fetch(5, jetstream.FetchContext(ctx))
	require.NoError(t, err)
	require.NoError(t, dead.Flush())
	dead.Close()
	cancel()
	for range batch.Messages() {
		require.Fail(t, "nothing was published yet")
	}

	// The server learns a moment later that the worker is gone.
	hub, err := nats.Connect("", nats.InProcessServer(server), nats.UserInfo("hub", "hub-secret"))
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	hubJS, err := jetstream.New(hub)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		durable, err := hubJS.Consumer(t.Context(), first.Stream, first.Consumer)
		require.NoError(t, err)
		return durable.CachedInfo().NumWaiting == 0
	}, patience, 5*time.Millisecond)

	require.NoError(t, b.Publish(t.Context(), "", bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	began := time.Now()
	conn, _ := worker(t, server, second)
	require.Equal(t, "task_a", pull(t, conn, second).TaskID)
	require.Less(t, time.Since(began), 5*time.Second)
}
