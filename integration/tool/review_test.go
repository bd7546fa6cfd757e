package tool

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// In a real jail a run in review mode changes its workspace and reads what is
// marked read-only; other hosts are not reached, and a request that sends is deferred.
// Accepted, it is sent once; rejected, it never is, and the workspace is as it was.
// That no command sends to what is read-only is node/egress's to test.
func TestARunInReviewModeLeavesNothingBehindBeforeItIsAccepted(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	l := listenAt(t, "10.213.78.3")
	var posts, gets atomic.Int64
	server := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.Add(1)
		} else {
			posts.Add(1)
		}
		_, _ = io.WriteString(w, r.Method)
	})}}
	server.Start()
	defer server.Close()
	other := listenAt(t, "10.213.78.4")
	var otherPosts atomic.Int64
	second := &httptest.Server{Listener: other, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		otherPosts.Add(1)
		_, _ = io.WriteString(w, "noted")
	})}}
	second.Start()
	defer second.Close()
	read, write := "http://"+l.Addr().String(), "http://"+other.Addr().String()
	f.Persona("reviewed", `
turns:
  - text: I work.
    calls:
      - {tool: http_get, arguments: {url: "`+read+`/docs"}}
      - {tool: file_write, arguments: {path: "report.txt", content: "all is well\n"}}
      - {tool: shell_exec, arguments: {command: "echo started"}}
      - {tool: http_get, arguments: {url: "`+write+`/read"}}
      - {tool: http_post, arguments: {url: "`+write+`/note", body: "it is done"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "wrote a report and a note"}}
`, "mode: review", "workspace: {scope: agent}",
		`egress: {allow: [{host: "`+l.Addr().String()+`", read_only: true}, "`+other.Addr().String()+`"]}`)
	review := func() (id, item string) {
		id = f.Submit("reviewed")
		waittest.Until(t, 90*time.Second, "the run to wait for its review", func() bool { return f.Task(id).State == "TASK_STATE_REVIEW_NEEDED" })
		return id, f.Item(id, "")
	}

	id, item := review()
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Contains(t, steps[0].Observation, "HTTP 200 OK", "what is marked read-only is read")
	require.Contains(t, steps[3].Observation, "error AGENT_016", "nothing else is reached")
	require.Equal(t, "STEP_STATE_DEFERRED", steps[4].State)
	require.EqualValues(t, 1, gets.Load())
	require.Zero(t, otherPosts.Load())
	shown := f.CLI(0, "inbox", "show", item).Out
	require.Contains(t, shown, "report.txt")
	require.Contains(t, shown, "POST "+write+"/note")
	require.Contains(t, shown, "wrote a report and a note")
	require.Contains(t, f.CLI(0, "task", "diff", id).Out, "+all is well")

	f.CLI(0, "inbox", "reject", item, "--reason", "not like this")
	waittest.Until(t, 90*time.Second, "the rejected run to end", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	f.CLI(3, "task", "files", "cat", id, "report.txt")
	require.Zero(t, otherPosts.Load())

	id, item = review()
	f.CLI(0, "inbox", "accept", item)
	waittest.Until(t, 90*time.Second, "the accepted run to end", func() bool { return f.Task(id).State == "TASK_STATE_SUCCEEDED" })
	require.EqualValues(t, 1, otherPosts.Load(), "once")
	require.Contains(t, f.CLI(0, "task", "files", "cat", id, "report.txt").Out, "all is well")
	require.Zero(t, posts.Load())
	f.JSON(&steps, "task", "steps", id)
	require.Equal(t, "STEP_STATE_SUCCEEDED", steps[4].State)
	require.Contains(t, steps[4].Observation, "noted")
}
