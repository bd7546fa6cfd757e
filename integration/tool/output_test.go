package tool

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// A command's output that is too long for one result is shortened in the middle; what was
// left out can be read on, from the place and with the call that the result names.
func TestAnAgentReadsTheOutputThatWasLeftOut(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("reader", `
turns:
  - text: I look.
    calls: [{tool: shell_exec, arguments: {command: "seq -f 'entry %05g' 5000"}}]
    capture: {step: '"job": "(step_[0-9a-z]+)", "offset": 8192'}
  - text: I read on.
    calls:
      - {tool: job_output, arguments: {job: "${step}", offset: 8192}}
      - {tool: job_output, arguments: {job: "${step}", offset: 57344}}
      - {tool: job_output, arguments: {job: step_nobody, offset: 0}}
  - text: I search.
    calls:
      - {tool: context_search, arguments: {query: "ENTRY 02500"}}
      - {tool: context_search, arguments: {query: "entry 02500 04000"}}
  - text: I read the file.
    calls:
      - {tool: shell_exec, arguments: {command: "wc -c < /deckhand/out/${step}; grep -n 'entry 02500' /deckhand/out/${step}; ls /deckhand/out; echo x > /deckhand/out/x; rm -f /deckhand/out/${step}; ls /run/deckhand"}}
      - {tool: file_read, arguments: {path: "/deckhand/out/${step}", offset: 2500, limit: 2}}
      - {tool: file_read, arguments: {path: "/deckhand/out/../record"}}
      - {tool: semantic_grep, arguments: {query: "entry", path: "/deckhand/out/${step}"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "read"}}
`)
	id := f.Submit("reader")
	f.Ended(id)
	var steps []struct{ ID, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 11)
	require.Contains(t, steps[0].Observation, `[... bytes 8192 to 51808 of 60000 left out; all of it is in /deckhand/out/`+steps[0].ID+`; to read on: job_output {"job": "`+steps[0].ID+`", "offset": 8192} ...]`)
	require.Regexp(t, regexp.MustCompile(`^step_\w+ has ended: exit status 0\n683\nentry 00684\n`), steps[1].Observation)
	require.Contains(t, steps[1].Observation, "\n[bytes 8192 to 24576 of its output, which has 60000; continue with offset 24576]")
	require.Contains(t, steps[2].Observation, "entry 05000\n[bytes 57344 to 60000 of its output]")
	require.Equal(t, "turn 1, step 1: shell_exec, succeeded, in its output; to read on: job_output {\"job\": \""+steps[0].ID+"\", \"offset\": 29928}\n"+
		"  entry 02495\n  entry 02496\n  entry 02497\n  entry 02498\n  entry 02499\n  entry 02500\n  [...]", steps[4].Observation)
	require.Equal(t, "nothing in this task has all of these words: try fewer", steps[5].Observation)
	require.Contains(t, steps[3].Observation, `this task has no job "step_nobody"`)

	// The whole is a file, which commands and tools read and nobody changes.
	require.Contains(t, steps[6].Observation, "60000\n2500:entry 02500\nstep_")
	require.Equal(t, 2, strings.Count(steps[6].Observation, "\nstep_"), "its own and no more: %s", steps[6].Observation)
	require.Contains(t, steps[6].Observation, "/deckhand/out/x: Read-only file system")
	require.Contains(t, steps[6].Observation, "cannot remove '/deckhand/out/"+steps[0].ID+"': Read-only file system")
	require.Contains(t, steps[6].Observation, "cannot open directory '/run/deckhand'")
	require.Contains(t, steps[7].Observation, "  2500\tentry 02500\n  2501\tentry 02501\n")
	require.Equal(t, "STEP_STATE_FAILED", steps[8].State)
	require.Contains(t, steps[9].Observation, "/deckhand/out/"+steps[0].ID+":")
}
