package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// databaseCollector reads the state of the queue, the inbox, the fleet and the budgets
// at each scrape. While the database is away these metrics are absent, and not zero.
type databaseCollector struct {
	queries                             *db.Queries
	states, kinds                       []string
	stale                               time.Duration
	open, oldest, inbox, nodes, budgets *prometheus.Desc
}

const readTimeout = 3 * time.Second

// budgetScopes and budgetStates are those of CountBudgets.
var (
	budgetScopes = []string{"organisation", "user"}
	budgetStates = []string{"ok", "warning", "reached"}
)

func newDatabaseCollector(cfg Config) *databaseCollector {
	return &databaseCollector{
		queries: cfg.Queries, states: cfg.Open, kinds: cfg.InboxKinds, stale: cfg.StaleAfter,
		open:    prometheus.NewDesc("deckhand_hub_tasks", "Tasks that have not ended, by state; queued is the queue's depth.", []string{"state"}, nil),
		oldest:  prometheus.NewDesc("deckhand_hub_queue_oldest_wait_seconds", "How long the task has waited that has been in the queue longest.", nil, nil),
		inbox:   prometheus.NewDesc("deckhand_hub_inbox_open", "What waits for a person, by kind.", []string{"kind"}, nil),
		nodes:   prometheus.NewDesc("deckhand_hub_nodes", "Enrolled nodes, by whether a hub holds their link: connected or disconnected.", []string{"state"}, nil),
		budgets: prometheus.NewDesc("deckhand_hub_budgets", "Budgets that people have set, by scope, and by how much of them is used in this period: ok, warning from 80 %, reached.", []string{"scope", "state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (s *databaseCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.open, s.oldest, s.inbox, s.nodes, s.budgets} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *databaseCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	for _, collect := range []func(context.Context, func(*prometheus.Desc, float64, ...string)) error{
		s.tasks, s.items, s.fleet, s.money,
	} {
		if collect(ctx, func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}) != nil {
			return
		}
	}
}

func (s *databaseCollector) tasks(ctx context.Context, set func(*prometheus.Desc, float64, ...string)) error {
	rows, err := s.queries.OpenTasks(ctx)
	if err != nil {
		return err
	}
	byState, oldest := map[string]int64{}, 0.0
	for _, row := range rows {
		byState[row.State] = row.Tasks
		oldest = max(oldest, row.OldestS)
	}
	for _, state := range s.states {
		set(s.open, float64(byState[state]), state)
	}
	set(s.oldest, oldest)
	return nil
}

func (s *databaseCollector) items(ctx context.Context, set func(*prometheus.Desc, float64, ...string)) error {
	rows, err := s.queries.OpenInbox(ctx)
	if err != nil {
		return err
	}
	byKind := map[string]int64{}
	for _, row := range rows {
		byKind[row.Kind] = row.Items
	}
	for _, kind := range s.kinds {
		set(s.inbox, float64(byKind[kind]), kind)
	}
	return nil
}

func (s *databaseCollector) fleet(ctx context.Context, set func(*prometheus.Desc, float64, ...string)) error {
	n, err := s.queries.CountNodes(ctx, s.stale)
	if err != nil {
		return err
	}
	set(s.nodes, float64(n.Connected), "connected")
	set(s.nodes, float64(n.Enrolled-n.Connected), "disconnected")
	return nil
}

func (s *databaseCollector) money(ctx context.Context, set func(*prometheus.Desc, float64, ...string)) error {
	rows, err := s.queries.CountBudgets(ctx)
	if err != nil {
		return err
	}
	type key struct{ scope, state string }
	counts := map[key]int64{}
	for _, row := range rows {
		counts[key{row.Scope, row.State}] = row.Budgets
	}
	for _, scope := range budgetScopes {
		for _, state := range budgetStates {
			set(s.budgets, float64(counts[key{scope, state}]), scope, state)
		}
	}
	return nil
}
