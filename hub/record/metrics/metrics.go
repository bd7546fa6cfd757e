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
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
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
	// Phases are the phases of an iteration, and Limits the kinds of limits of a run.
	Phases, Limits []string
	// StaleAfter is how long after a link's last contact its node counts as connected.
	StaleAfter time.Duration
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
	// Supervised are the services that this process starts again when they end.
	Supervised []*lifecycle.Restart
}

// Metrics are one hub's.
type Metrics struct {
	tools, states, phases, limits                                              map[string]bool
	moves, tasks, admissions, leases, steps, forwarded, linkChanges, rejected  *prometheus.CounterVec
	asked, closed, deliveries, webhooks, notifications, reached, quotas, calls *prometheus.CounterVec
	duration, stepDuration, response, phase, callDuration                      *prometheus.HistogramVec
	iterations, cost                                                           *prometheus.HistogramVec
	events, suspended, stuck, budgetWarnings                                   prometheus.Counter
	lag, webhookDuration                                                       prometheus.Histogram
}

// other is the label of what is not on a list.
const other = "other"

// seconds are the bounds of durations from a moment to a day, lags those of
// what should take milliseconds.
var (
	seconds = []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	lags    = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30}
	// calls are the bounds of RPCs, of which each has its own series: few.
	calls = []float64{0.005, 0.025, 0.1, 0.5, 2, 10}
	// iterations and dollars are those of a task.
	iterations = []float64{1, 2, 5, 10, 15, 20, 30, 50, 100}
	dollars    = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 50}
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
	one := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "deckhand_hub_" + name, Help: help})
		cfg.Registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		tools:          set(cfg.Tools),
		states:         set(cfg.States),
		phases:         set(cfg.Phases),
		limits:         set(cfg.Limits),
		moves:          counter("task_moves_total", "Moves of tasks from one state to another.", "from", "to"),
		tasks:          counter("tasks_finished_total", "Tasks that ended, by final state.", "state"),
		duration:       histogram("task_duration_seconds", "Time from a task's submission to its end.", seconds, "state"),
		admissions:     counter("admission_decisions_total", "Queued tasks looked at: admitted, or left waiting.", "decision"),
		leases:         counter("leases_total", "Leases of workers: claimed, renewed, refused at a renewal, lost to the sweeper.", "what"),
		steps:          counter("steps_total", "Tool calls that ended, by tool and outcome.", "tool", "outcome"),
		stepDuration:   histogram("step_duration_seconds", "Time a tool call took.", seconds, "tool"),
		rejected:       counter("tool_rejections_total", "Tool calls that never became a step, by tool.", "tool"),
		iterations:     histogram("task_iterations", "Iterations of tasks that ended.", iterations, "state"),
		cost:           histogram("task_cost_usd", "What the model calls of tasks that ended cost, in US dollars.", dollars, "state"),
		phase:          histogram("phase_duration_seconds", "Time an iteration spent in a phase.", seconds, "phase"),
		asked:          counter("inbox_asked_total", "Inbox items that were opened, by kind.", "kind"),
		closed:         counter("inbox_closed_total", "Inbox items that were closed, by kind and by how: answered or expired.", "kind", "how"),
		response:       histogram("inbox_response_seconds", "Time from the opening of an inbox item to a person's decision.", seconds, "kind"),
		reached:        counter("limits_reached_total", "Runs that came to a limit of theirs, by its kind.", "kind"),
		quotas:         counter("quota_events_total", "Times that a quota was used to 80 % (warning), and whole (reached).", "what"),
		calls:          counter("api_requests_total", "Calls of the API, by procedure and code.", "procedure", "code"),
		callDuration:   histogram("api_request_duration_seconds", "Time a unary call of the API took.", calls, "procedure"),
		notifications:  counter("notifications_total", "Notifications that were sent, by kind of destination and state afterwards.", "kind", "state"),
		deliveries:     counter("deliveries_total", "Firings of triggers that were handled, by source and outcome.", "source", "state"),
		webhooks:       counter("webhook_answers_total", "Answers to senders of webhooks, by HTTP status.", "status"),
		linkChanges:    counter("node_link_changes_total", "Links of nodes that came up here, and that ended.", "to"),
		forwarded:      counter("node_calls_forwarded_total", "Calls of nodes that came from another hub (in) or went to one (out).", "direction", "outcome"),
		events:         one("events_total", "Events stored."),
		suspended:      one("agent_suspensions_total", "Agents that were suspended because of the way their run ended."),
		stuck:          one("tasks_stuck_total", "Tasks that failed because the agent was stuck."),
		budgetWarnings: one("budget_warnings_total", "Times that a budget was used to 80 %."),
		webhookDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deckhand_hub_webhook_answer_duration_seconds", Help: "Time from a webhook's arrival to its answer.", Buckets: lags,
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deckhand_hub_watch_lag_seconds", Help: "Time from an event's writing to its sending to a watch.", Buckets: lags,
		}),
	}
	cfg.Registry.MustRegister(m.lag, m.webhookDuration)
	for _, s := range cfg.Supervised {
		part := prometheus.Labels{"part": s.Name}
		cfg.Registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "deckhand_hub_part_restarting", Help: "1 while a service that this process keeps running is started again.", ConstLabels: part,
			}, func() float64 {
				if s.Restarting() {
					return 1
				}
				return 0
			}),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "deckhand_hub_part_ends_total", Help: "Times that a service that this process keeps running ended by itself.", ConstLabels: part,
			}, func() float64 { return float64(s.Ends()) }))
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
	m.begin(cfg)
	return m
}

// begin has the counters that alerts watch start at 0: of a counter that appears with
// its first count, Prometheus sees no increase.
func (m *Metrics) begin(cfg Config) {
	for _, state := range cfg.States {
		if !slices.Contains(cfg.Open, state) {
			m.tasks.WithLabelValues(state)
		}
	}
	for _, kind := range cfg.InboxKinds {
		m.asked.WithLabelValues(kind)
		m.closed.WithLabelValues(kind, "answered")
		m.closed.WithLabelValues(kind, "expired")
	}
	for _, what := range []string{"claimed", "renewed", "deferred", "refused", "lost"} {
		m.leases.WithLabelValues(what)
	}
	for _, what := range []string{"warning", "reached"} {
		m.quotas.WithLabelValues(what)
	}
	for _, kind := range cfg.Limits {
		m.reached.WithLabelValues(kind)
	}
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
