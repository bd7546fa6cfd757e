package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// An agent that reads a file with a secret sees one marker instead of it, whichever way it
// reads, and cannot put that marker in the secret's place. It can edit the text around it,
// and the secret stays.
func TestAnAgentCannotDestroyASecretThatIsMaskedForIt(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	// It is put together in the jail, so that the script itself has no secret.
	f.Persona("editor", `
turns:
  - text: I look.
    calls:
      - tool: shell_exec
        arguments: {command: "printf 'user: ann\ntoken: %s%s\nport: 80\n' ghp_ $(printf 'a%.0s' $(seq 36)) > conf; wc -c < conf; printf 'see \u27e6secret\u27e7\n' > manual"}
      - {tool: file_read, arguments: {path: conf}}
      - {tool: shell_exec, arguments: {command: cat conf}}
  - text: I write it back.
    calls:
      - {tool: file_write, arguments: {path: conf, content: "user: bob\ntoken: \u27e6secret\u27e7\nport: 80\n"}}
      - {tool: file_append, arguments: {path: conf, content: "copy: \u27e6secret***************************\u27e7\n"}}
      - {tool: file_edit, arguments: {path: conf, old_string: "token: \u27e6secret\u27e7\nport: 80", new_string: "token: \u27e6secret\u27e7\nport: 81"}}
      - {tool: file_edit, arguments: {path: conf, old_string: "port: 80", new_string: "port: 81"}}
      - {tool: file_edit, arguments: {path: manual, old_string: "see \u27e6secret\u27e7", new_string: "read \u27e6secret\u27e7"}}
      - {tool: file_write, arguments: {path: new, content: "token: \u27e6secret\u27e7\n"}}
      - {tool: apply_patch, arguments: {input: "*** Begin Patch\n*** Update File: conf\n@@\n token: \u27e6secret\u27e7\n-port: 81\n+port: 82\n*** End Patch"}}
      - {tool: shell_exec, arguments: {command: "grep -c 'ghp_a\\{36\\}$' conf; wc -c < conf; ls; cat manual | od -c | head -1"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "edited"}}
`)
	id := f.Submit("editor")
	f.Ended(id)
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 12)
	all, err := json.Marshal(steps)
	require.NoError(t, err)
	require.NotContains(t, string(all), "ghp_aaaa")
	require.Contains(t, steps[1].Observation, "     2\ttoken: ⟦secret⟧\n")
	require.Contains(t, steps[2].Observation, "token: ⟦secret"+strings.Repeat("*", 28)+"⟧\n")
	for _, i := range []int{3, 4, 5, 8, 9} {
		require.Equal(t, "STEP_STATE_FAILED", steps[i].State, steps[i].Observation)
		require.Contains(t, steps[i].Observation, "stands for a secret that you cannot see")
		require.Contains(t, steps[i].Observation, "file_edit with an old_string and a new_string that leave it out")
	}
	require.Contains(t, steps[6].Observation, "edited conf in 1 place (line 3)")
	require.Contains(t, steps[7].Observation, "edited manual in 1 place (line 1)", "a text about markers may have them")
	require.Contains(t, steps[10].Observation, "exit status 0\n1\n67\nconf\nmanual\n")
}
