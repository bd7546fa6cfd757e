package tool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// What an agent reads of a file has the numbers of its lines and says where to continue.
// An edit shows what it changed, and one that does not fit says what would.
func TestAnAgentReadsAndEditsByLines(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("editor", `
turns:
  - text: I look.
    calls:
      - tool: shell_exec
        arguments: {command: "seq -f 'entry %g' 3000 > long; printf 'func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n' > f.go"}
      - {tool: file_read, arguments: {path: long}}
      - {tool: file_read, arguments: {path: long, offset: 2999}}
      - {tool: file_read, arguments: {path: f.go}}
  - text: I edit.
    calls:
      - {tool: file_edit, arguments: {path: f.go, old_string: "return 1", new_string: "return 2"}}
      - {tool: file_edit, arguments: {path: f.go, old_string: "func b()  {", new_string: "func c() {"}}
      - {tool: file_edit, arguments: {path: f.go, old_string: "func b() {\n\treturn 1", new_string: "func b() {\n\treturn 2"}}
      - {tool: file_edit, arguments: {path: f.go, old_string: "return", new_string: "return 10 *", replace_all: true}}
      - {tool: shell_exec, arguments: {command: cat f.go; mkdir -p a/b; echo x > a/b/g.go}}
      - {tool: glob, arguments: {pattern: "**/*.go"}}
      - {tool: glob, arguments: {pattern: "*.{md,txt}"}}
  - text: I patch.
    calls:
      - tool: apply_patch
        arguments:
          input: |
            *** Begin Patch
            *** Update File: f.go
            *** Move to: b/f.go
            @@ func b() {
            -	return 10 * 2
            +	return 3
            *** Add File: README
            +read me
            *** End Patch
      - {tool: apply_patch, arguments: {input: "*** Begin Patch\n*** Update File: README\n@@\n-readme\n+x\n*** End Patch"}}
      - {tool: apply_patch, arguments: {input: "*** Begin Patch\n*** Delete File: long\n*** End Patch"}}
      - {tool: apply_patch, arguments: {input: "--- a/f.go\n+++ b/f.go"}}
      - {tool: shell_exec, arguments: {command: "cat b/f.go README; ls f.go long"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "edited"}}
`)
	id := f.Submit("editor")
	f.Ended(id)
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 17)
	long, end, code := steps[1].Observation, steps[2].Observation, steps[3].Observation
	require.Regexp(t, `^long: 3000 lines, 31893 bytes, sha256 [0-9a-f]{64}; lines 1 to \d+ follow; continue with offset \d+\n     1\tentry 1\n     2\tentry 2\n`, long)
	require.Less(t, len(long), 22<<10, "it is shown whole")
	require.True(t, strings.HasSuffix(end, "; lines 2999 to 3000 follow\n  2999\tentry 2999\n  3000\tentry 3000\n"), end)
	require.Contains(t, code, "     1\tfunc a() {\n     2\t\treturn 1\n     3\t}\n")

	require.Equal(t, "STEP_STATE_FAILED", steps[4].State)
	require.Contains(t, steps[4].Observation, `the old text is 2 times in "f.go", on lines 2, 6: include more of the surrounding text, or replace all`)
	require.Equal(t, "STEP_STATE_FAILED", steps[5].State)
	require.Contains(t, steps[5].Observation, `what is most like it begins on line 5: "func b() {"`)
	require.Contains(t, steps[6].Observation, "edited f.go in 1 place (line 5): now 47 bytes")
	require.Contains(t, steps[6].Observation, "     5\tfunc b() {\n     6\t\treturn 2\n")
	require.Contains(t, steps[7].Observation, "edited f.go in 2 places (lines 2, 6): now")
	require.Equal(t, "a/b/g.go\nf.go\n", steps[9].Observation, "the one that was changed last comes first")
	require.Contains(t, steps[10].Observation, "(no file matches)")
	require.Regexp(t, `^moved f.go to b/f.go: now \d+ bytes, sha256 [0-9a-f]{64}\nadded README: now 8 bytes, sha256`, steps[11].Observation)
	require.Contains(t, steps[12].Observation, `error AGENT_026: "README", the hunk on line 3 of the patch: its lines are not in the file`)
	require.Contains(t, steps[12].Observation, `what is most like it begins on line 1: "read me"`)
	require.Equal(t, "STEP_STATE_DENIED", steps[13].State)
	require.Contains(t, steps[13].Observation, "the patch needs the tool file_delete long, and the persona does not allow it: leave it out of the patch")
	require.Contains(t, steps[14].Observation, `the patch has no "*** Begin Patch" as its first line`)
	require.Contains(t, steps[15].Observation, "func b() {\n\treturn 3\n}\nread me\n")
	require.Contains(t, steps[15].Observation, "cannot access 'f.go'")
	require.Contains(t, steps[8].Observation, "func a() {\n\treturn 10 * 1\n}\n\nfunc b() {\n\treturn 10 * 2\n}\n")
}
