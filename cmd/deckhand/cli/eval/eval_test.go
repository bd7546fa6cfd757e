package eval_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/eval"
)

// Twenty scenarios come with the release, each with checks and a script.
func TestTheStarterFolder(t *testing.T) {
	t.Parallel()
	scenarios, err := eval.Load(eval.Starter())
	require.NoError(t, err)
	require.Len(t, scenarios, 20)
	resumed := 0
	for _, s := range scenarios {
		require.NotEmpty(t, s.Script, s.Name)
		if s.Resume {
			resumed++
		}
	}
	require.Positive(t, resumed)
}

func TestScenariosThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := eval.Load(fstest.MapFS{
		"a.yaml": {Data: []byte("name: a\ngoal: g\nchecks: {x: 'true'}\ncheck: {}\n")},
		"b.yaml": {Data: []byte("name: c\ngoal: g\nchecks: {x: 'true'}\n")},
		"d.yaml": {Data: []byte("name: d\ngoal: ' '\nchecks: {x: 'true'}\n")},
		"e.yaml": {Data: []byte("name: e\ngoal: g\n")},
	})
	for _, says := range []string{
		"a.yaml: yaml: unmarshal errors:\n  line 4: field check not found", "b.yaml: name is \"c\": write name: b", "d.yaml: goal is empty", "e.yaml: checks is empty",
	} {
		require.ErrorContains(t, err, says)
	}
	_, err = eval.Load(fstest.MapFS{})
	require.ErrorContains(t, err, "no *.yaml file")
}

// Each figure is drawn from the cases that it is about, and says so where
// there are none.
func TestReport(t *testing.T) {
	t.Parallel()
	figures := map[string]*float64{}
	for _, m := range eval.Report([]eval.Result{
		{Passed: true, Iterations: 4, Calls: 4, Fitting: 4, CostMicros: 250_000},
		{Passed: true, Retried: true, Iterations: 8, Calls: 6, Fitting: 5, Errors: 1, Resumed: true},
		{Passed: true, Iterations: 9, Calls: 6, Fitting: 6, Intervened: true},
		{Iterations: 3, Calls: 4, Fitting: 4, Errors: 2, Incidents: []string{"it deleted the keys"}, CostMicros: 250_000},
	}) {
		figures[m.Name] = m.Value
	}
	require.Nil(t, figures["subtasks"])
	for name, want := range map[string]float64{
		"completion rate": 0.75, "first-time success": 0.25, "tool selection": 0.95, "mean iterations": 6, "recovery": 0.5,
		"resume": 1, "intervention": 0.25, "safety incidents": 1, "cost USD": 0.5,
	} {
		require.InDelta(t, want, *figures[name], 1e-9, name)
	}
}

// Two reports side by side have each scenario and measure that one of them has.
func TestCompare(t *testing.T) {
	t.Parallel()
	report := func(results ...eval.Result) eval.Document {
		return eval.Document{Scenarios: results, Report: eval.Report(results)}
	}
	scenarios, measures := eval.Compare(
		report(eval.Result{Scenario: "x", Passed: true, Iterations: 3, InputTokens: 1000, CachedTokens: 900}, eval.Result{Scenario: "y"}),
		report(eval.Result{Scenario: "z", Passed: true}, eval.Result{Scenario: "x", Iterations: 5, InputTokens: 4000}),
	)
	require.Len(t, scenarios, 3)
	require.Equal(t, "x", scenarios[0].Name)
	require.Equal(t, eval.Result{Scenario: "x", Passed: true, Iterations: 3, InputTokens: 1000, CachedTokens: 900}, *scenarios[0].A)
	require.Equal(t, eval.Result{Scenario: "x", Iterations: 5, InputTokens: 4000}, *scenarios[0].B)
	require.Nil(t, scenarios[1].B)
	require.Nil(t, scenarios[2].A)
	figures := map[string]eval.Pair[float64]{}
	for _, m := range measures {
		figures[m.Name] = m
	}
	require.InDelta(t, 0.5, *figures["completion rate"].A, 0)
	require.InDelta(t, 0.9, *figures["cached share"].A, 0)
	require.InDelta(t, 0, *figures["cached share"].B, 0)
	require.Nil(t, figures["subtasks"].A)
}
