package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/metrics"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver/scrapetest"
)

// What is registered keeps Prometheus' rules and is documented; what a
// worker or a model may choose becomes no label.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), storetest.Database(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	r := scrapetest.New()
	m := metrics.New(metrics.Config{
		Registry: r, Tools: []string{"shell_exec"}, States: []string{"queued", "starting", "succeeded"}, Open: []string{"queued", "starting"},
		InboxKinds: []string{"approval"}, Phases: []string{"think"}, Limits: []string{"tokens"}, StaleAfter: time.Minute, Queries: s.Queries, Pool: func() *pgxpool.Stat { return s.Pool() },
		Watches: func() int64 { return 3 }, Links: func() int { return 2 },
		Bus: func() error { return errors.New("away") }, Leading: func() bool { return true }, Supervised: []*lifecycle.Restart{{Name: "PostgreSQL"}},
	})
	m.Events([]event.Draft{
		{Type: "state_changed", Payload: map[string]any{"from": "queued", "to": "starting"}},
		{Type: "state_changed", Payload: map[string]any{"from": "a-worker's own", "to": "starting"}},
		{Type: "agent.spawned"},
		{Type: "tool_completed", Payload: map[string]any{"tool": "shell_exec", "state": "succeeded", "duration_ms": int64(40)}},
		{Type: "tool_denied", Payload: map[string]any{"tool": "an invented one"}},
		{Type: "tool_rejected", Payload: map[string]any{"tool": "an invented one"}},
		{Type: "approval_requested"},
		{Type: "task.escalated"},
		{Type: "inbox_answered", Payload: map[string]any{"kind": "approval", "waited_ms": int64(2000)}},
		{Type: "inbox_expired", Payload: map[string]any{"kind": "question"}},
		{Type: "phase_changed", Payload: map[string]any{"phase": "select_tool", "from": "think", "from_ms": 1500.0}},
		{Type: "phase_changed", Payload: map[string]any{"phase": "select_tool", "from": "a worker's own", "from_ms": 1500.0}},
		{Type: "limit_reached", Payload: map[string]any{"kind": "a worker's own"}},
	})
	now := time.Now()
	m.Ended(db.Task{State: "succeeded", CreatedAt: now.Add(-time.Minute), StartedAt: &now, FinishedAt: &now, Iteration: 3, CostMicros: 20_000})
	m.Call("/deckhand.v1.TaskService/GetTask", "not_found", time.Millisecond, false)
	m.Webhook(202, time.Millisecond)
	m.Admitted(2, 5)
	m.Leases("renewed", 4)
	m.Sent(time.Millisecond)
	m.Link(true)
	m.Forwarded("in", errors.New("gone"))

	r.Check(t, "deckhand_hub_", "../../../docs/monitoring.md")
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP deckhand_hub_task_moves_total Moves of tasks from one state to another.
# TYPE deckhand_hub_task_moves_total counter
deckhand_hub_task_moves_total{from="other",to="starting"} 1
deckhand_hub_task_moves_total{from="queued",to="starting"} 1
# HELP deckhand_hub_steps_total Tool calls that ended, by tool and outcome.
# TYPE deckhand_hub_steps_total counter
deckhand_hub_steps_total{outcome="denied",tool="other"} 1
deckhand_hub_steps_total{outcome="succeeded",tool="shell_exec"} 1
# HELP deckhand_hub_part_restarting 1 while a service that this process keeps running is started again.
# TYPE deckhand_hub_part_restarting gauge
deckhand_hub_part_restarting{part="PostgreSQL"} 0
# HELP deckhand_hub_events_total Events stored.
# TYPE deckhand_hub_events_total counter
deckhand_hub_events_total 13
# HELP deckhand_hub_inbox_asked_total Inbox items that were opened, by kind.
# TYPE deckhand_hub_inbox_asked_total counter
deckhand_hub_inbox_asked_total{kind="approval"} 1
deckhand_hub_inbox_asked_total{kind="escalation"} 1
# HELP deckhand_hub_inbox_closed_total Inbox items that were closed, by kind and by how: answered or expired.
# TYPE deckhand_hub_inbox_closed_total counter
deckhand_hub_inbox_closed_total{how="answered",kind="approval"} 1
deckhand_hub_inbox_closed_total{how="expired",kind="approval"} 0
deckhand_hub_inbox_closed_total{how="expired",kind="question"} 1
# HELP deckhand_hub_limits_reached_total Runs that came to a limit of theirs, by its kind.
# TYPE deckhand_hub_limits_reached_total counter
deckhand_hub_limits_reached_total{kind="other"} 1
deckhand_hub_limits_reached_total{kind="tokens"} 0
# HELP deckhand_hub_api_requests_total Calls of the API, by procedure and code.
# TYPE deckhand_hub_api_requests_total counter
deckhand_hub_api_requests_total{code="not_found",procedure="/deckhand.v1.TaskService/GetTask"} 1
# HELP deckhand_hub_nodes Enrolled nodes, by whether a hub holds their link: connected or disconnected.
# TYPE deckhand_hub_nodes gauge
deckhand_hub_nodes{state="connected"} 0
deckhand_hub_nodes{state="disconnected"} 0
# HELP deckhand_hub_bus_connected Whether the bus is connected.
# TYPE deckhand_hub_bus_connected gauge
deckhand_hub_bus_connected 0
# HELP deckhand_hub_queue_oldest_wait_seconds How long the task has waited that has been in the queue longest.
# TYPE deckhand_hub_queue_oldest_wait_seconds gauge
deckhand_hub_queue_oldest_wait_seconds 0
`), "deckhand_hub_task_moves_total", "deckhand_hub_steps_total", "deckhand_hub_part_restarting", "deckhand_hub_events_total",
		"deckhand_hub_inbox_asked_total", "deckhand_hub_inbox_closed_total", "deckhand_hub_limits_reached_total",
		"deckhand_hub_api_requests_total", "deckhand_hub_nodes", "deckhand_hub_bus_connected", "deckhand_hub_queue_oldest_wait_seconds"))
}
