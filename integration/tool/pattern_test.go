package tool

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Three tasks of one kind: the first two find out by a failure what works, and the third, which
// may take two iterations only, succeeds by the pattern that they taught.
func TestTheThirdTaskSucceedsByWhatTheFirstTwoTaught(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("exporter", `
turns:
  - when: '(?s)# Earlier runs.*<tool_output tool="pattern_match">.*then worked: (?:[^\n]*)--format wide'
    text: Earlier runs needed the wide format.
    calls: [{tool: shell_exec, arguments: {command: "test -n '--format wide' && echo exported"}}]
    next: finish
  - text: I try the short format.
    calls: [{tool: shell_exec, arguments: {command: "echo unknown format; exit 3"}}]
  - text: The wide format may work.
    calls: [{tool: shell_exec, arguments: {command: "test -n '--format wide' && echo exported"}}]
  - name: finish
    text: Done.
    calls: [{tool: complete_task, arguments: {summary: "exported"}}]
`)
	ctx := t.Context()
	client := f.Client()
	_, err := client.Patterns.SetPatternSettings(ctx, &deckhandv1.SetPatternSettingsRequest{HoldOut: new(int32(0))})
	require.NoError(t, err)
	run := func(goal string, flags ...string) string {
		return strings.TrimSpace(f.CLI(0, append([]string{"run", "exporter", goal, "-o", "name"}, flags...)...).Out)
	}
	sources := func(n int32) {
		require.Eventually(t, func() bool {
			res, err := client.Patterns.ListPatterns(ctx, &deckhandv1.ListPatternsRequest{})
			return err == nil && len(res.GetPatterns()) == 1 && res.GetPatterns()[0].GetSources() == n
		}, waittest.Limit(20*time.Second), 50*time.Millisecond, "a pattern with %d sources", n)
	}
	for i, shop := range []string{"north", "south"} {
		id := run("Export the customer ledger of the " + shop + " shop")
		f.Ended(id)
		require.Equal(t, "TASK_STATE_SUCCEEDED", f.Task(id).State)
		require.Len(t, f.Steps(id), 3)
		sources(int32(i + 1)) //nolint:gosec // two
	}
	require.Contains(t, f.CLI(0, "pattern", "match", "Export the customer ledger of the east shop", "--agent", "exporter").Out, "Export the customer ledger")

	third := run("Export the customer ledger of the east shop", "--limit", "iterations=2")
	f.Ended(third)
	require.Equal(t, "TASK_STATE_SUCCEEDED", f.Task(third).State, f.Task(third).Reason)
	require.Len(t, f.Steps(third), 2)
	require.Eventually(t, func() bool {
		res, err := client.Insights.ExplainTask(ctx, &deckhandv1.ExplainTaskRequest{TaskId: third})
		return err == nil && res.GetOffer().GetUsed() && res.GetOffer().GetSucceeded()
	}, waittest.Limit(20*time.Second), 50*time.Millisecond, "what came of the pattern")

	// Without it, two iterations are too few.
	_, err = client.Patterns.SetPatternSettings(ctx, &deckhandv1.SetPatternSettingsRequest{HoldOut: new(int32(100))})
	require.NoError(t, err)
	fourth := run("Export the customer ledger of the west shop", "--limit", "iterations=2")
	require.Eventually(t, func() bool { return f.Task(fourth).State == "TASK_STATE_FAILED" }, waittest.Limit(30*time.Second), 100*time.Millisecond, "the task to reach its limit")
	explained := f.CLI(0, "task", "explain", fourth)
	require.Contains(t, explained.Out, "budget")
	require.Contains(t, explained.Err, "matched, and was not offered it, for comparison")
}
