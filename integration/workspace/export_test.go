package workspace

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// What is exported of a task's commands is what they wrote in their jail, byte
// for byte, and its recording is asciicast v3.
func TestAnExportHasEveryByteThatATaskWrote(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("writer", `turns:
  - calls:
      - {tool: shell_exec, arguments: {command: "head -c 3000000 /dev/urandom; printf 'done \\303'; sleep 0.2; printf '\\251\\n' >&2"}}
      - {tool: shell_exec, arguments: {command: "seq 1 20000; echo problem >&2; exit 3"}}
      - {tool: file_write, arguments: {path: quiet.txt, content: nothing}}
  - calls: [{tool: complete_task, arguments: {summary: written}}]
`)
	id := f.Ended(f.Submit("writer"))

	logs := map[string][]byte{}
	offsets := map[string]int64{}
	var ids []string
	events, ended := 0, false
	for line := range strings.Lines(f.CLI(0, "task", "export", id).Out) {
		var l struct {
			Kind string
			Step struct{ ID string }
			Log  struct {
				ExecID, Text string
				Base64       []byte
				Offset       int64
			}
			End struct{ Events, Missing int }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), harness.Tail(line, 300))
		switch l.Kind {
		case "event":
			events++
		case "step":
			ids = append(ids, l.Step.ID)
		case "log":
			data := append([]byte(l.Log.Text), l.Log.Base64...)
			require.Equal(t, offsets[l.Log.ExecID], l.Log.Offset, "no byte is missing or there twice")
			offsets[l.Log.ExecID] += int64(len(data))
			logs[l.Log.ExecID] = append(logs[l.Log.ExecID], data...)
		case "end":
			ended = true
			require.Equal(t, events, l.End.Events)
			require.Zero(t, l.End.Missing)
		}
	}
	require.True(t, ended)
	require.Len(t, ids, 4)
	for _, step := range ids[:2] {
		wrote := f.CLI(0, "task", "logs", step).Out
		require.Greater(t, len(wrote), 100_000)
		require.Equal(t, len(wrote), len(logs[step]))
		require.Equal(t, sha256.Sum256([]byte(wrote)), sha256.Sum256(logs[step]))
	}
	require.Len(t, logs, 2, "the others wrote nothing")

	cast := strings.Split(strings.TrimSpace(f.CLI(0, "task", "export", id, "--format", "asciicast").Out), "\n")
	require.Contains(t, cast[0], `"version":3`)
	shown, marks := "", 0
	for _, line := range cast[1:] {
		var e []any
		require.NoError(t, json.Unmarshal([]byte(line), &e), harness.Tail(line, 300))
		require.Len(t, e, 3)
		require.GreaterOrEqual(t, e[0], 0.0)
		switch e[1] {
		case "m":
			marks++
		case "o":
			shown += e[2].(string) //nolint:forcetypeassert // that is the format
		}
	}
	require.Equal(t, 2, marks)
	require.Contains(t, shown, "19999\r\n20000\r\n")
	require.Contains(t, shown, "$ seq 1 20000;")

	f.CLI(3, "task", "export", "task_none")
	f.CLI(2, "task", "export", id, "--format", "mp4")
	require.Contains(t, f.CLI(0, "task", "stats", "--by", "tool").Out, "shell_exec")
	require.NotContains(t, f.CLI(0, "run", "writer").Err, "Usually") // there is no history
}
