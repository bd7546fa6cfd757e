// Package metrics exports what a hub does to Prometheus. Metrics counts almost everything
// from events that were committed, so that a count covers only what is stored; the state
// of the database is queried when it is scraped. Every hub exports the same values for
// the latter: take the maximum over hubs, and sum only the counters of processes. If a
// query fails, its values are missing from the scrape.
//
// No label has a value that users choose freely: labels are states, outcomes, tools of
// the registry, and "other".
package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// Config holds the dependencies of Metrics.
type Config struct {
	// Registry registers all metrics.
	Registry prometheus.Registerer
	// Tools are the registry's: any other name counts as "other".
	Tools []string
	// States are the states of tasks, and Open those of them that are not final.
	States, Open []string
	// InboxKinds are the kinds of inbox items.
	InboxKinds []string
	// Queries read the state of the database.
	Queries *db.Queries
	// Pool returns how the pool of connections does.
	Pool func() *pgxpool.Stat
	// Watches returns how many watches are open, Links how many nodes are linked
	// here, Bus why the bus is away, nil when it is not, and Leading whether this
	// hub leads.
	Watches func() int64
	Links   func() int
	Bus     func() error
	Leading func() bool
}

// Metrics are one hub's.
type Metrics struct {
	tools                                                                     map[string]bool
	states                                                                    map[string]bool
	moves, tasks, admissions, leases, steps, forwarded, linkChanges, rejected *prometheus.CounterVec
	inbox, deliveries, webhooks, notifications                                *prometheus.CounterVec
	duration, stepDuration                                                    *prometheus.HistogramVec
	events                                                                    prometheus.Counter
	lag                                                                       prometheus.Histogram
}

// other is the label of what is not on a list.
const other = "other"

// seconds are the bounds of durations from a moment to a day, lags those of
// what should take milliseconds.
var (
	seconds = []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	lags    = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30}
)

// New registers a hub's metrics.
func New(cfg Config) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "deckhand_hub_" + name, Help: help}, labels)
		cfg.Registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "deckhand_hub_" + name, Help: help, Buckets: buckets}, labels)
		cfg.Registry.MustRegister(h)
		return h
	}
	gauge := func(name, help string, fn func() float64) {
		cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "deckhand_hub_" + name, Help: help}, fn))
	}
	m := &Metrics{
		tools:         map[string]bool{},
		states:        map[string]bool{},
		moves:         counter("task_moves_total", "Moves of tasks from one state to another.", "from", "to"),
		tasks:         counter("tasks_finished_total", "Tasks that ended, by final state.", "state"),
		duration:      histogram("task_duration_seconds", "Time from a task's submission to its end.", seconds, "state"),
		admissions:    counter("admission_decisions_total", "Queued tasks looked at: admitted, or left waiting.", "decision"),
		leases:        counter("leases_total", "Leases of workers: claimed, renewed, refused at a renewal, lost to the sweeper.", "what"),
		steps:         counter("steps_total", "Tool calls that ended, by tool and outcome.", "tool", "outcome"),
		stepDuration:  histogram("step_duration_seconds", "Time a tool call took.", seconds, "tool"),
		rejected:      counter("tool_rejections_total", "Tool calls that never became a step, by tool.", "tool"),
		inbox:         counter("inbox_total", "What waited for a person: asked, answered, expired.", "what"),
		notifications: counter("notifications_total", "Notifications that were sent, by kind of destination and state afterwards.", "kind", "state"),
		deliveries:    counter("deliveries_total", "Firings of triggers that were handled, by source and outcome.", "source", "state"),
		webhooks:      counter("webhook_answers_total", "Answers to senders of webhooks, by HTTP status.", "status"),
		linkChanges:   counter("node_link_changes_total", "Links of nodes that came up here, and that ended.", "to"),
		forwarded:     counter("node_calls_forwarded_total", "Calls of nodes that came from another hub (in) or went to one (out).", "direction", "outcome"),
		events:        prometheus.NewCounter(prometheus.CounterOpts{Name: "deckhand_hub_events_total", Help: "Events stored."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deckhand_hub_watch_lag_seconds", Help: "Time from an event's writing to its sending to a watch.", Buckets: lags,
		}),
	}
	cfg.Registry.MustRegister(m.events, m.lag)
	for _, state := range cfg.States {
		m.states[state] = true
	}
	for _, name := range cfg.Tools {
		m.tools[name] = true
	}
	gauge("watches_open", "Watches that run.", func() float64 { return float64(cfg.Watches()) })
	gauge("node_links", "Nodes whose link this hub holds.", func() float64 { return float64(cfg.Links()) })
	gauge("bus_connected", "Whether the bus is connected.", func() float64 { return truth(cfg.Bus() == nil) })
	gauge("leader", "Whether this hub is the leader.", func() float64 { return truth(cfg.Leading()) })
	gauge("database_connections_in_use", "Connections to the database in use.", func() float64 { return float64(cfg.Pool().AcquiredConns()) })
	gauge("database_connections_idle", "Connections to the database that are idle.", func() float64 { return float64(cfg.Pool().IdleConns()) })
	gauge("database_connections_max", "Connections to the database that may be open.", func() float64 { return float64(cfg.Pool().MaxConns()) })
	cfg.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "deckhand_hub_database_waits_total", Help: "Times that a connection to the database had to be waited for.",
	}, func() float64 { return float64(cfg.Pool().EmptyAcquireCount()) }))
	cfg.Registry.MustRegister(newDatabaseCollector(cfg))
	return m
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Delivery counts a firing of a trigger that was handled.
func (m *Metrics) Delivery(source, state string) { m.deliveries.WithLabelValues(source, state).Inc() }

// Notification counts a sending of a notification.
func (m *Metrics) Notification(kind, state string) {
	m.notifications.WithLabelValues(kind, state).Inc()
}

// Webhook counts an answer to a sender.
func (m *Metrics) Webhook(status int) { m.webhooks.WithLabelValues(strconv.Itoa(status)).Inc() }

// Events counts the stored events of one task. It is called after the commit, and only
// adds.
func (m *Metrics) Events(drafts []event.Draft) {
	m.events.Add(float64(len(drafts)))
	for _, d := range drafts {
		switch d.Type {
		case eventkind.StateChanged:
			m.moves.WithLabelValues(m.state(d, "from"), m.state(d, "to")).Inc()
		case eventkind.AgentSpawned:
			m.leases.WithLabelValues("claimed").Inc()
		case eventkind.ToolDenied:
			m.steps.WithLabelValues(m.tool(d), "denied").Inc()
		case eventkind.ToolCompleted:
			m.steps.WithLabelValues(m.tool(d), outcome(d)).Inc()
			if ms, ok := d.Payload["duration_ms"].(int64); ok {
				m.stepDuration.WithLabelValues(m.tool(d)).Observe(float64(ms) / 1000)
			}
		case eventkind.ApprovalRequested, eventkind.InputRequired, eventkind.OutcomeUnknown, eventkind.ReviewRequested, eventkind.TaskEscalated:
			m.inbox.WithLabelValues("asked").Inc()
		case eventkind.InboxAnswered:
			m.inbox.WithLabelValues("answered").Inc()
		case eventkind.InboxExpired:
			m.inbox.WithLabelValues("expired").Inc()
		case eventkind.ToolRejected:
			m.rejected.WithLabelValues(m.tool(d)).Inc()
		}
	}
}

func text(d event.Draft, key string) string {
	s, _ := d.Payload[key].(string)
	return s
}

// tool returns a tool's name as a label.
func (m *Metrics) tool(d event.Draft) string {
	if name := text(d, "tool"); m.tools[name] {
		return name
	}
	return other
}

// state returns a task's state as a label: a worker's events count as well, and
// a worker is not believed.
func (m *Metrics) state(d event.Draft, key string) string {
	if name := text(d, key); m.states[name] {
		return name
	}
	return other
}

// outcome returns how a step ended as a label.
func outcome(d event.Draft) string {
	switch state := text(d, "state"); state {
	case "succeeded", "failed", "unknown", "cancelled", "skipped":
		return state
	default:
		return other
	}
}

// Ended counts a task that ended.
func (m *Metrics) Ended(t db.Task) {
	m.tasks.WithLabelValues(t.State).Inc()
	if t.FinishedAt != nil {
		m.duration.WithLabelValues(t.State).Observe(t.FinishedAt.Sub(t.CreatedAt).Seconds())
	}
}

// Admitted counts what an admission decided.
func (m *Metrics) Admitted(admitted, waiting int) {
	m.admissions.WithLabelValues("admitted").Add(float64(admitted))
	m.admissions.WithLabelValues("waiting").Add(float64(waiting))
}

// Leases counts what became of leases: "renewed", "refused" or "lost".
func (m *Metrics) Leases(what string, n int) { m.leases.WithLabelValues(what).Add(float64(n)) }

// Sent notes how late an event reached a watch.
func (m *Metrics) Sent(lag time.Duration) { m.lag.Observe(lag.Seconds()) }

// Link counts a link that came up or ended.
func (m *Metrics) Link(connected bool) {
	to := "down"
	if connected {
		to = "up"
	}
	m.linkChanges.WithLabelValues(to).Inc()
}

// Forwarded counts a call that another hub forwarded, or that was forwarded to one.
func (m *Metrics) Forwarded(direction string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.forwarded.WithLabelValues(direction, outcome).Inc()
}

// databaseCollector reads the state of the queue and the inbox at each scrape.
// While the database is away these metrics are absent, and not zero.
type databaseCollector struct {
	queries             *db.Queries
	states, kinds       []string
	open, oldest, inbox *prometheus.Desc
}

const readTimeout = 3 * time.Second

func newDatabaseCollector(cfg Config) *databaseCollector {
	return &databaseCollector{
		queries: cfg.Queries, states: cfg.Open, kinds: cfg.InboxKinds,
		open:   prometheus.NewDesc("deckhand_hub_tasks", "Tasks that have not ended, by state; queued is the queue's depth.", []string{"state"}, nil),
		oldest: prometheus.NewDesc("deckhand_hub_queue_oldest_wait_seconds", "How long the task has waited that has been in the queue longest.", nil, nil),
		inbox:  prometheus.NewDesc("deckhand_hub_inbox_open", "What waits for a person, by kind.", []string{"kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (s *databaseCollector) Describe(out chan<- *prometheus.Desc) {
	out <- s.open
	out <- s.oldest
	out <- s.inbox
}

// Collect implements prometheus.Collector.
func (s *databaseCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	tasks, err := s.queries.OpenTasks(ctx)
	if err != nil {
		return
	}
	items, err := s.queries.OpenInbox(ctx)
	if err != nil {
		return
	}
	byState, oldest := map[string]int64{}, 0.0
	for _, row := range tasks {
		byState[row.State] = row.Tasks
		oldest = max(oldest, row.OldestS)
	}
	for _, state := range s.states {
		out <- prometheus.MustNewConstMetric(s.open, prometheus.GaugeValue, float64(byState[state]), state)
	}
	out <- prometheus.MustNewConstMetric(s.oldest, prometheus.GaugeValue, oldest)
	byKind := map[string]int64{}
	for _, row := range items {
		byKind[row.Kind] = row.Items
	}
	for _, kind := range s.kinds {
		out <- prometheus.MustNewConstMetric(s.inbox, prometheus.GaugeValue, float64(byKind[kind]), kind)
	}
}
