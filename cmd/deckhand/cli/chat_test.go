package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A chat is asked and answered on the command line too, and acts on nothing.
func TestAChatIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.script = func(h *testHub, id string) {
		h.end(id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, func(task *deckhandv1.Task) { task.Summary = "The \x1b[2Jsyslog.\n" })
	}
	got := h.run(t, "chat", "triage", "Which logs?", "--reply-to", "task_before")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "The syslog.\n", got.stdout)
	require.Equal(t, `go on: deckhand chat triage "…" --reply-to `+taskID+"\n", got.stderr)
	request, ok := h.last["SubmitTaskRequest"].(*deckhandv1.SubmitTaskRequest)
	require.True(t, ok)
	require.True(t, request.GetChat())
	require.Equal(t, "Which logs?", request.GetGoal())
	require.Equal(t, "task_before", request.GetReplyTo())
	require.NotEmpty(t, request.GetIdempotencyKey())

	require.Equal(t, 2, h.run(t, "chat", "triage", "x", "--continue", "--reply-to", "task_before").code)
}

// Without a message the lines of standard input are what is said.
func TestAChatReadsLines(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.script = func(h *testHub, id string) {
		h.end(id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, func(task *deckhandv1.Task) { task.Summary = "So it is." })
	}
	got := h.run(t, "chat", "triage")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "So it is.\n", got.stdout)
	request, ok := h.last["SubmitTaskRequest"].(*deckhandv1.SubmitTaskRequest)
	require.True(t, ok)
	require.Equal(t, "from stdin", request.GetGoal())
}
