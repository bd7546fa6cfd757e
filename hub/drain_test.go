package hub_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(all)
}

// Ready means database, schema and not stopping; a bus that is away is told
// of, and gRPC's health service says the same.
func TestReadiness(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	nats := hubtest.NewNATS(t)
	nats.Use(&cfg)
	h := hubtest.Start(t, cfg)
	status, body := get(t, h.URL()+"/readyz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "serving: ok\ndatabase: ok\nbus: ok\nvault: ok\n", body)

	health := func(service string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL()+"/grpc.health.v1.Health/Check",
			strings.NewReader(`{"service":"`+service+`"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(all)
	}
	require.Contains(t, health("deckhand.v1.TaskService"), `"SERVING_STATUS_SERVING"`)
	require.Contains(t, health("deckhand.enrollment.v1.EnrollmentService"), `"SERVING_STATUS_SERVING"`)
	require.Contains(t, health("other.Service"), "not_found")

	nats.Stop()
	require.Eventually(t, func() bool {
		status, body = get(t, h.URL()+"/readyz")
		return body == "serving: ok\ndatabase: ok\nbus: degraded: NATS cannot be reached for wake-ups\nvault: ok\n" ||
			body == "serving: ok\ndatabase: ok\nbus: degraded: NATS cannot be reached for events\nvault: ok\n"
	}, waittest.Limit(20*time.Second), 20*time.Millisecond)
	require.Equal(t, http.StatusOK, status, "the hub works without it")

	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id > 1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // it is looked at once a second
		status, body = get(t, h.URL()+"/readyz")
		return status == http.StatusServiceUnavailable
	}, waittest.Limit(10*time.Second), 100*time.Millisecond)
	require.Contains(t, body, "database: it cannot be used")
	require.Contains(t, health(""), `"SERVING_STATUS_NOT_SERVING"`)
	status, _ = get(t, h.URL()+"/healthz")
	require.Equal(t, http.StatusOK, status)
}

// A hub that is told to stop says first that it is not ready, still serves,
// then tells its streams to go elsewhere, and is gone within a bounded time.
func TestDraining(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.DrainDelay = 2 * time.Second
	h := hubtest.Start(t, cfg)
	user := h.Client(t, h.AdminToken)
	stream, err := user.Events.Watch(t.Context(), &deckhandv1.WatchRequest{Follow: true})
	require.NoError(t, err)
	require.True(t, stream.Receive(), "the watch stands")
	stopped := make(chan struct{})
	go func() {
		h.Stop()
		close(stopped)
	}()
	require.Eventually(t, func() bool {
		status, body := get(t, h.URL()+"/readyz")
		return status == http.StatusServiceUnavailable && body == "serving: this hub is stopping\ndatabase: ok\nbus: ok\nvault: ok\n"
	}, cfg.DrainDelay, 5*time.Millisecond)
	_, err = user.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
	require.NoError(t, err, "it serves still")
	require.False(t, stream.Receive())
	require.True(t, fault.Is(fault.FromConnect(stream.Err()), fault.Unavailable), "%v", stream.Err())
	require.ErrorContains(t, stream.Err(), "watch again from the last cursor")
	select {
	case <-stopped:
	case <-time.After(waittest.Limit(30 * time.Second)):
		t.Fatal("it does not stop")
	}
}
