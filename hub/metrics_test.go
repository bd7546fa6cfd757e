package hub_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
)

// A task's life is counted from what was committed of it.
func TestATasksLifeIsCounted(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.Registry = prometheus.NewRegistry()
	r := newRig(t, hubtest.Start(t, cfg), output("hello\n"))
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo hello"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	r.finish(lease)

	families, err := cfg.Registry.Gather()
	require.NoError(t, err)
	total := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			total[family.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"deckhand_hub_tasks_finished_total":  1,
		"deckhand_hub_task_duration_seconds": 1,
		"deckhand_hub_leases_total":          1,
		"deckhand_hub_steps_total":           1,
		"deckhand_hub_step_duration_seconds": 1,
		"deckhand_hub_node_links":            1,
		"deckhand_hub_nodes":                 1,
		"deckhand_hub_task_cost_usd":         1,
		"deckhand_hub_bus_connected":         1,
		"deckhand_hub_tasks":                 0,
		"deckhand_hub_events_total":          float64(r.task(task.GetId()).GetEventSeq()),
	} {
		require.InDelta(t, want, total[name], 0, name)
	}
	require.GreaterOrEqual(t, total["deckhand_hub_admission_decisions_total"], 1.0)
}
