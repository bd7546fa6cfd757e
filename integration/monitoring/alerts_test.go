// Package monitoring verifies, with Prometheus' own tools, what packaging/monitoring
// gives to operators.
package monitoring

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	folder   = "../../packaging/monitoring"
	runbooks = "../../docs/runbooks.md"
)

// rule is an alert or a recording rule.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T, file string) (out []rule) {
	t.Helper()
	var doc struct {
		Groups []struct{ Rules []rule }
	}
	data, err := os.ReadFile(filepath.Join(folder, file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &doc))
	for _, g := range doc.Groups {
		out = append(out, g.Rules...)
	}
	require.NotEmpty(t, out)
	return out
}

// tools returns the folder of Prometheus' programs.
func tools(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("../../scripts/prometheus").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// healthy are the series of an installation of one hub, worker and node that has
// nothing to do, by name and labels. Values are in promtool's notation, one a minute.
var healthy = map[string]string{
	`up{job="deckhand-hub",instance="h"}`:                                                         "1x150",
	`deckhand_hub_leader{instance="h"}`:                                                           "1x150",
	`deckhand_hub_bus_connected{instance="h"}`:                                                    "1x150",
	`deckhand_hub_tasks{instance="h",state="queued"}`:                                             "0x150",
	`deckhand_hub_queue_oldest_wait_seconds{instance="h"}`:                                        "0x150",
	`deckhand_hub_nodes{instance="h",state="disconnected"}`:                                       "0x150",
	`deckhand_hub_budgets{instance="h",scope="user",state="reached"}`:                             "0x150",
	`deckhand_hub_budgets{instance="h",scope="user",state="warning"}`:                             "0x150",
	`deckhand_hub_inbox_open{instance="h",kind="approval"}`:                                       "3x150",
	`deckhand_hub_inbox_open{instance="h",kind="unknown"}`:                                        "0x150",
	`deckhand_hub_tasks_finished_total{instance="h",state="succeeded"}`:                           "0+1x150",
	`deckhand_hub_tasks_finished_total{instance="h",state="failed"}`:                              "0+0.05x150",
	`deckhand_hub_tasks_stuck_total{instance="h"}`:                                                "0x150",
	`deckhand_hub_agent_suspensions_total{instance="h"}`:                                          "0x150",
	`deckhand_hub_quota_events_total{instance="h",what="reached"}`:                                "0x150",
	`deckhand_hub_leases_total{instance="h",what="lost"}`:                                         "0x150",
	`deckhand_hub_notifications_total{instance="h",kind="slack",state="dead"}`:                    "0x150",
	`deckhand_hub_deliveries_total{instance="h",source="webhook",state="failed"}`:                 "0x150",
	`deckhand_hub_inbox_closed_total{instance="h",kind="approval",how="answered"}`:                "0+1x150",
	`deckhand_hub_inbox_closed_total{instance="h",kind="approval",how="expired"}`:                 "0+0.02x150",
	`deckhand_hub_task_duration_seconds_sum{instance="h",state="succeeded"}`:                      "0+60x150",
	`deckhand_hub_task_duration_seconds_count{instance="h",state="succeeded"}`:                    "0+1x150",
	`deckhand_hub_api_requests_total{instance="h",code="ok",procedure="p"}`:                       "0+100x150",
	`deckhand_hub_api_requests_total{instance="h",code="internal",procedure="p"}`:                 "0+1x150",
	`deckhand_hub_api_request_duration_seconds_bucket{instance="h",procedure="p",le="0.1"}`:       "0+100x150",
	`deckhand_hub_api_request_duration_seconds_bucket{instance="h",procedure="p",le="2"}`:         "0+100x150",
	`deckhand_hub_api_request_duration_seconds_bucket{instance="h",procedure="p",le="+Inf"}`:      "0+100x150",
	`deckhand_hub_watch_lag_seconds_bucket{instance="h",le="1"}`:                                  "0+100x150",
	`deckhand_hub_watch_lag_seconds_bucket{instance="h",le="+Inf"}`:                               "0+100x150",
	`deckhand_hub_webhook_answer_duration_seconds_bucket{instance="h",le="0.05"}`:                 "0+100x150",
	`deckhand_hub_webhook_answer_duration_seconds_bucket{instance="h",le="+Inf"}`:                 "0+100x150",
	`deckhand_hub_database_waits_total{instance="h"}`:                                             "0+1x150",
	`deckhand_hub_database_connections_in_use{instance="h"}`:                                      "10x150",
	`deckhand_hub_database_connections_max{instance="h"}`:                                         "10x150",
	`deckhand_worker_slots{instance="w"}`:                                                         "8x150",
	`deckhand_worker_tasks_running{instance="w"}`:                                                 "4x150",
	`deckhand_worker_model_calls_total{instance="w",provider="anthropic",outcome="ok"}`:           "0+10x150",
	`deckhand_worker_model_calls_total{instance="w",provider="anthropic",outcome="rate_limited"}`: "0+1x150",
	`deckhand_worker_model_breaker_open{instance="w",provider="anthropic",model="m"}`:             "0x150",
	`deckhand_node_disk_free_bytes{instance="n"}`:                                                 "1e11x150",
	`deckhand_node_disk_reserve_held{instance="n"}`:                                               "1x150",
	`deckhand_node_host_pressure_ratio{instance="n",resource="io"}`:                               "0.2x150",
	`deckhand_node_host_memory_used_bytes{instance="n"}`:                                          "8e9x150",
	`deckhand_node_host_memory_bytes{instance="n"}`:                                               "1e10x150",
	`deckhand_node_ledger_commit_duration_seconds_bucket{instance="n",le="0.05"}`:                 "0+10x150",
	`deckhand_node_ledger_commit_duration_seconds_bucket{instance="n",le="1"}`:                    "0+10x150",
	`deckhand_node_ledger_commit_duration_seconds_bucket{instance="n",le="+Inf"}`:                 "0+10x150",
}

// absent stands for a series that is not there.
const absent = "_x150"

// problems are, for each alert, the series that differ from those of a healthy
// installation when it fires, and that only it fires.
var problems = map[string]map[string]string{
	"DeckhandTargetDown":            {`up{job="deckhand-hub",instance="h"}`: "0x150"},
	"DeckhandNoHub":                 {`deckhand_hub_leader{instance="h"}`: absent},
	"DeckhandNoLeader":              {`deckhand_hub_leader{instance="h"}`: "0x150"},
	"DeckhandDatabaseUnavailable":   {`deckhand_hub_tasks{instance="h",state="queued"}`: absent},
	"DeckhandDatabasePoolExhausted": {`deckhand_hub_database_waits_total{instance="h"}`: "0+600x150"},
	"DeckhandBusDisconnected":       {`deckhand_hub_bus_connected{instance="h"}`: "0x150"},
	"DeckhandApiErrors":             {`deckhand_hub_api_requests_total{instance="h",code="internal",procedure="p"}`: "0+10x150"},
	"DeckhandApiSlow": {
		`deckhand_hub_api_request_duration_seconds_bucket{instance="h",procedure="p",le="0.1"}`: "0+10x150",
	},
	"DeckhandEventsLate":          {`deckhand_hub_watch_lag_seconds_bucket{instance="h",le="1"}`: "0+10x150", `deckhand_hub_watch_lag_seconds_bucket{instance="h",le="5"}`: "0+100x150"},
	"DeckhandTasksFailing":        {`deckhand_hub_tasks_finished_total{instance="h",state="failed"}`: "0+1x150"},
	"DeckhandQueueDeep":           {`deckhand_hub_tasks{instance="h",state="queued"}`: "11x150"},
	"DeckhandQueueStalled":        {`deckhand_hub_queue_oldest_wait_seconds{instance="h"}`: "2000x150"},
	"DeckhandTasksSlow":           {`deckhand_hub_task_duration_seconds_sum{instance="h",state="succeeded"}`: "0+2000x150"},
	"DeckhandTaskStuck":           {`deckhand_hub_tasks_stuck_total{instance="h"}`: "0x100 1x49"},
	"DeckhandAgentSuspended":      {`deckhand_hub_agent_suspensions_total{instance="h"}`: "0x120 1x29"},
	"DeckhandOutcomeUnknown":      {`deckhand_hub_inbox_open{instance="h",kind="unknown"}`: "1x150"},
	"DeckhandApprovalsExpire":     {`deckhand_hub_inbox_closed_total{instance="h",kind="approval",how="expired"}`: "0+0.2x150"},
	"DeckhandInboxFull":           {`deckhand_hub_inbox_open{instance="h",kind="approval"}`: "21x150"},
	"DeckhandNotificationsLost":   {`deckhand_hub_notifications_total{instance="h",kind="slack",state="dead"}`: "0x120 1x29"},
	"DeckhandTriggersFailing":     {`deckhand_hub_deliveries_total{instance="h",source="webhook",state="failed"}`: "0x120 1x29"},
	"DeckhandWebhooksSlow":        {`deckhand_hub_webhook_answer_duration_seconds_bucket{instance="h",le="0.05"}`: "0+10x150", `deckhand_hub_webhook_answer_duration_seconds_bucket{instance="h",le="5"}`: "0+100x150"},
	"DeckhandBudgetReached":       {`deckhand_hub_budgets{instance="h",scope="user",state="reached"}`: "2x150"},
	"DeckhandBudgetNearlyReached": {`deckhand_hub_budgets{instance="h",scope="user",state="warning"}`: "1x150"},
	"DeckhandQuotaReached":        {`deckhand_hub_quota_events_total{instance="h",what="reached"}`: "0x70 1x79"},
	"DeckhandNoWorkers": {
		`deckhand_hub_tasks{instance="h",state="queued"}`: "1x150", `deckhand_worker_slots{instance="w"}`: absent,
	},
	"DeckhandWorkersBusy":       {`deckhand_worker_tasks_running{instance="w"}`: "8x150"},
	"DeckhandWorkerLost":        {`deckhand_hub_leases_total{instance="h",what="lost"}`: "0x130 1x19"},
	"DeckhandModelErrors":       {`deckhand_worker_model_calls_total{instance="w",provider="anthropic",outcome="rate_limited"}`: "0+5x150"},
	"DeckhandModelUnavailable":  {`deckhand_worker_model_breaker_open{instance="w",provider="anthropic",model="m"}`: "1x150"},
	"DeckhandNodeLost":          {`deckhand_hub_nodes{instance="h",state="disconnected"}`: "1x150"},
	"DeckhandNodeDiskFilling":   {`deckhand_node_disk_free_bytes{instance="n"}`: "2e11-3e8x150"},
	"DeckhandNodeDiskFull":      {`deckhand_node_disk_reserve_held{instance="n"}`: "0x150"},
	"DeckhandNodeUnderPressure": {`deckhand_node_host_pressure_ratio{instance="n",resource="io"}`: "0.6x150"},
	"DeckhandNodeMemoryLow":     {`deckhand_node_host_memory_used_bytes{instance="n"}`: "9.9e9x150"},
	"DeckhandNodeLedgerSlow":    {`deckhand_node_ledger_commit_duration_seconds_bucket{instance="n",le="0.05"}`: "0+1x150"},
}

// Each alert fires, and only it, when what it is about is wrong; none fires on an
// installation that is well.
func TestEachAlertFiresAlone(t *testing.T) {
	t.Parallel()
	bin := tools(t)
	var names []string
	for _, r := range rules(t, "alerts.yaml") {
		names = append(names, r.Alert)
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(problems)))

	type series struct {
		Series, Values string
	}
	type sample struct {
		Labels string
		Value  int
	}
	type exprTest struct {
		Expr       string
		EvalTime   string   `yaml:"eval_time"`
		ExpSamples []sample `yaml:"exp_samples"`
	}
	type unit struct {
		Name        string
		Interval    string
		InputSeries []series   `yaml:"input_series"`
		ExprTests   []exprTest `yaml:"promql_expr_test"`
	}
	doc := struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []unit
	}{EvaluationInterval: "5m"}
	for _, file := range []string{"alerts.yaml", "recording.yaml"} {
		path, err := filepath.Abs(filepath.Join(folder, file))
		require.NoError(t, err)
		doc.RuleFiles = append(doc.RuleFiles, path)
	}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(problems))...) {
		all := maps.Clone(healthy)
		maps.Copy(all, problems[name])
		u := unit{Name: name, Interval: "1m", ExprTests: []exprTest{{
			Expr: `count by (alertname) (ALERTS{alertstate="firing"})`, EvalTime: "140m", ExpSamples: []sample{},
		}}}
		if name != "" {
			u.ExprTests[0].ExpSamples = []sample{{fmt.Sprintf(`{alertname=%q}`, name), 1}}
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			u.InputSeries = append(u.InputSeries, series{key, all[key]})
		}
		doc.Tests = append(doc.Tests, u)
	}
	data, err := yaml.Marshal(doc)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	out, err := exec.Command(filepath.Join(bin, "promtool"), "test", "rules", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(filepath.Join(bin, "promtool"), "check", "config", filepath.Join(folder, "prometheus.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

var (
	metricName = regexp.MustCompile(`\bdeckhand_(?:hub|worker|node)_[a-z_]+`)
	documented = regexp.MustCompile("(?m)^\\| `(deckhand_[a-z]+_[a-z_]+)")
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Rules and the dashboard name metrics that exist, and each alert has its page.
func TestRulesAndDashboardNameWhatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(string(page), -1) {
		known[m[1]] = true
	}
	for _, file := range []string{"alerts.yaml", "recording.yaml", "grafana.json"} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		require.NoError(t, err)
		for _, name := range metricName.FindAllString(string(text), -1) {
			require.True(t, known[name] || known[suffix.ReplaceAllString(name, "")], "%s names %s, which docs/monitoring.md does not have", file, name)
		}
	}
	recorded := map[string]bool{}
	for _, r := range rules(t, "recording.yaml") {
		recorded[r.Record] = true
		require.Contains(t, string(page), "`"+r.Record+"`")
	}
	dashboard, err := os.ReadFile(filepath.Join(folder, "grafana.json"))
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`deckhand:[a-z_]+:[a-z0-9_]+`).FindAllString(string(dashboard), -1) {
		require.True(t, recorded[name], "the dashboard names %s, which no rule records", name)
	}

	book, err := os.ReadFile(runbooks)
	require.NoError(t, err)
	var alerts, pages []string
	for _, r := range rules(t, "alerts.yaml") {
		alerts = append(alerts, r.Alert)
		require.Equal(t, "https://github.com/deckhand-sh/deckhand/blob/main/docs/runbooks.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
	}
	for _, m := range regexp.MustCompile(`(?m)^## (Deckhand[A-Za-z]+)$`).FindAllStringSubmatch(string(book), -1) {
		pages = append(pages, m[1])
	}
	require.Equal(t, alerts, pages, "the alerts, and the sections of docs/runbooks.md, in the same order")
}
