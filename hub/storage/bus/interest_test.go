package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/bus"
)

// A worker that died while it was pulling may be sent a wake-up still: the
// server does not always notice at once. It goes to another worker when the time
// to acknowledge it has run out, and is never lost.
func TestPullOfAWorkerThatIsGoneLosesNoWakeup(t *testing.T) {
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

	require.NoError(t, b.Publish(t.Context(), "", bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	conn, _ := worker(t, server, second)
	js, err = jetstream.New(conn)
	require.NoError(t, err)
	consumer, err = js.Consumer(t.Context(), second.Stream, second.Consumer)
	require.NoError(t, err)
	// The time to acknowledge is 15 s.
	msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
	require.NoError(t, err)
	require.Contains(t, string(msg.Data()), "task_a")
}
