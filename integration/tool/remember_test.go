package tool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The next run of an agent resolves the words of a target by what they meant in the run before, in
// a real jail, although they fit several elements by now. On a page that has changed, they are
// compared with it as usual, and what is remembered is trusted less. People see it in the memory.
func TestTheNextRunKnowsWhatATargetMeant(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	run := func(buttons string) (said string) {
		t.Helper()
		f.Persona("clicker", `
turns:
  - text: I click.
    calls:
      - {tool: shell_exec, arguments: {command: "`+program+` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/labels?`+buttons+`"}}
      - {tool: browser_click, arguments: {target: "export the orders"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "clicked"}}
`, "mode: autonomous", keys)
		id := f.Submit("clicker")
		succeeds(f, id)
		var steps []struct{ Tool, State, Observation string }
		f.JSON(&steps, "task", "steps", id)
		require.Equal(t, "browser_click", steps[3].Tool)
		require.Equal(t, "STEP_STATE_SUCCEEDED", steps[3].State, steps[3].Observation)
		return steps[3].Observation
	}
	first := run("name=Export+orders&name=Print")
	require.Contains(t, first, "clicked Export orders")
	require.NotContains(t, first, "meant before")
	entry := func() string {
		t.Helper()
		return strings.Join(strings.Fields(f.CLI(0, "memory", "list", "--type", "selector", "-o", "json").Out), " ")
	}
	require.Contains(t, entry(), "localhost:8080/labels export the orders")

	second := run("name=Export%3A+orders&name=Export+orders")
	require.Contains(t, second, `what it meant before, button "Export orders"`)
	require.Contains(t, second, "clicked Export orders")

	third := run("name=Export+all+orders&name=Print")
	require.Contains(t, third, "is not on the page any more")
	require.Contains(t, third, "clicked Export all orders")
	require.Contains(t, entry(), "Export all orders")
}
