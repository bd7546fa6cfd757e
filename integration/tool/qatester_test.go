package tool

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The persona qa-tester, with a scripted model in place of its own, tests a page in a real browser:
// it sends a form, finds a button that throws, and leaves a report and a picture of the fault.
func TestTheQATesterTestsAPage(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	persona, err := os.ReadFile("../../personas/qa-tester.md")
	require.NoError(t, err)
	text := string(persona)
	for _, line := range []string{`provider: .*`, `model: .*`, `max_tokens: .*`, `thinking: .*`} {
		found := regexp.MustCompile(`(?m)^` + line + "\n").FindString(text)
		require.NotEmpty(t, found, line)
		text = strings.Replace(text, found, map[bool]string{true: "provider: script\nscript: qa-tester.script.yaml\n"}[strings.HasPrefix(line, "provider")], 1)
	}
	shown := strings.TrimSuffix(strings.TrimPrefix(keys, "jail: {"), "}")
	text = strings.Replace(text, "jail:\n", "jail:\n  "+shown+"\n", 1)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "qa-tester.md"), []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "qa-tester.script.yaml"), []byte(`
turns:
  - text: I start the site and do what everybody does.
    calls:
      - {tool: shell_exec, arguments: {command: "`+program+` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: browser_type, arguments: {target: Name, text: "Ada ☃", clear_first: true}}
      - {tool: browser_select, arguments: {target: Country, values: [France]}}
      - {tool: browser_click, arguments: {target: "the blue Save button"}}
  - text: Now the edges.
    calls:
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/errors"}}
      - {tool: browser_click, arguments: {target: Break}}
      - {tool: browser_console, arguments: {level: error}}
      - {tool: browser_network, arguments: {filter: failed}}
      - {tool: browser_screenshot, arguments: {}}
      - {tool: file_write, arguments: {path: report.md, content: "1. Open /errors.\n2. Click Break.\n\nThe page throws, and a request fails with 404."}}
  - text: That is all.
    calls:
      - {tool: complete_task, arguments: {summary: "One fault: Break throws.", files_changed: [report.md]}}
`), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
	id := f.Submit("qa-tester")
	succeeds(f, id)
	var steps []struct {
		Tool, State, Observation string
		Outcome                  map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	for n, want := range map[int]string{
		5: "name=Ada", 7: "console error: it broke", 8: "thrown", 9: "status 404", 10: "a picture of the page",
	} {
		require.Equal(t, "STEP_STATE_SUCCEEDED", steps[n].State, steps[n].Observation)
		require.Contains(t, steps[n].Observation, want)
	}
	require.Contains(t, steps[5].Observation, "country=fr")
	require.EqualValues(t, 1, steps[10].Outcome["images"])
}
