package eval

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// process serves the metrics of a hub whose calls took the given times, in seconds.
func process(t *testing.T, calls map[string][]float64) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "deckhand_hub_api_request_duration_seconds", Help: "x", Buckets: []float64{0.1, 0.5, 2}}, []string{"procedure"})
	slots := prometheus.NewGauge(prometheus.GaugeOpts{Name: "deckhand_worker_slots", Help: "x"})
	registry.MustRegister(took, slots)
	slots.Set(8)
	for procedure, times := range calls {
		for _, s := range times {
			took.WithLabelValues(procedure).Observe(s)
		}
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server.URL
}

// Figures are measured from history and from all processes together, compared with their
// targets, and say so where nothing measured them.
func TestFiguresAreComparedWithTheirTargets(t *testing.T) {
	t.Parallel()
	fast := make([]float64, 90)
	scraped := map[string][]*dto.MetricFamily{}
	require.NoError(t, scrape(t.Context(), process(t, map[string][]float64{"/deckhand.v1.TaskService/GetTask": fast, worker + "ClaimTask": {60, 60, 60}}), scraped))
	// The slowest tenth is between 0.1 s and 0.5 s: half of it is the 95th percentile.
	slow := []float64{0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2}
	require.NoError(t, scrape(t.Context(), process(t, map[string][]float64{"/deckhand.v1.TaskService/ListTasks": slow, worker + "SaveCheckpoint": {9}}), scraped))
	results := []Result{{Passed: true, Iterations: 4}, {Passed: true, Iterations: 6, Resumed: true}, {Iterations: 40, Intervened: true}}
	rows := map[string]Figure{}
	for _, f := range figures(results, []float64{60, 120}, scraped) {
		rows[f.Name] = f
		require.NotEmpty(t, f.Target, f.Name)
		if f.Measured == "" {
			require.Nil(t, f.Met, f.Name)
			require.NotEmpty(t, f.Note, "%s says why it was not measured", f.Name)
		}
	}
	yes, no := true, false
	for name, want := range map[string]Figure{
		"tasks completed":                          {Target: ">= 85 %", Measured: "67 %", Met: &no, Of: 3},
		"tasks completed after a resume":           {Target: ">= 100 %", Measured: "100 %", Met: &yes, Of: 1},
		"tasks that asked a person":                {Target: "<= 20 %", Measured: "33 %", Met: &no, Of: 3},
		"iterations of a task, mean":               {Target: "<= 15", Measured: "16.7", Met: &no, Of: 3},
		"duration of a task, mean":                 {Target: "<= 30m0s", Measured: "1m30s", Met: &yes, Of: 2},
		"subtasks completed":                       {Target: ">= 90 %", Note: "no such task among them"},
		"API call, 95th percentile":                {Target: "<= 500ms", Measured: "300ms", Met: &yes, Of: 100},
		"checkpoint, 95th percentile":              {Target: "<= 500ms", Measured: "2s", Met: &no, Of: 1},
		"tool call, 95th percentile":               {Target: "<= 10s", Note: "no such call since the start"},
		"tasks at once on a worker, as configured": {Target: ">= 50", Measured: "8", Met: &no, Of: 2},
	} {
		want.Name = name
		require.Equal(t, want, rows[name])
	}
	require.Equal(t, "give --metrics", figures(nil, nil, nil)[12].Note)

	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	require.ErrorContains(t, scrape(t.Context(), other.URL, scraped), "responds with 404")
}
