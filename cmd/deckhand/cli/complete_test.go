package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// completed returns what a shell would offer for words, without descriptions.
func (h *testHub) completed(t *testing.T, words ...string) (names []string, directive string) {
	t.Helper()
	got := execute(t.Context(), append([]string{"__complete", "--hub", h.url, "--token", testToken}, words...)...)
	require.Equal(t, 0, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	for _, line := range lines[:len(lines)-1] {
		name, _, _ := strings.Cut(line, "\t")
		names = append(names, name)
	}
	return names, lines[len(lines)-1]
}

func TestNamesAreCompletedFromTheHub(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.agents = []*deckhandv1.Agent{{Name: "coder", Description: "Writes code"}, {Name: "cleaner"}, {Name: "log-triage"}}
	h.tasks = []*deckhandv1.Task{
		{Id: "task_aaa", AgentName: "coder", Title: "Fix\x1b[31m the tests", State: deckhandv1.TaskState_TASK_STATE_RUNNING},
		{Id: "task_bbb", AgentName: "coder", Goal: "Look", State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED},
	}
	h.nodes = []*deckhandv1.Node{{Name: "web-1", Status: "connected"}}
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"agent", "show", ""}, []string{"coder", "cleaner", "log-triage"}},
		{[]string{"run", "c"}, []string{"coder", "cleaner"}},
		{[]string{"agent", "pause", "coder", "c"}, []string{"cleaner"}},
		{[]string{"task", "show", "task_"}, []string{"task_aaa", "task_bbb"}},
		{[]string{"node", "drain", ""}, []string{"web-1"}},
		{[]string{"kill", ""}, []string{"task", "agent", "trigger", "node", "lineage", "org"}},
		{[]string{"kill", "agent", "co"}, []string{"coder"}},
		{[]string{"kill", "org", ""}, nil},
		{[]string{"task", "list", "--agent", "log"}, []string{"log-triage"}},
		{[]string{"task", "list", "--state", "run"}, []string{"running"}},
		{[]string{"task", "list", "--state", "running,que"}, []string{"running,queued"}},
		{[]string{"task", "list", "-o", "j"}, []string{"json", "jsonl"}},
		{[]string{"inbox", "mark", "inbox_1", ""}, []string{"succeeded", "failed"}},
		{[]string{"run", "coder", "fix it", ""}, nil},
	} {
		var names []string
		var directive string
		// On a busy machine the hub is too slow for one now and then: Tab is pressed again.
		waittest.Until(t, 10*time.Second, "a completion of "+strings.Join(c.words, " "), func() bool {
			names, directive = h.completed(t, c.words...)
			return len(names) == len(c.want)
		})
		require.Equal(t, c.want, names, c.words)
		require.NotEqual(t, ":0", directive, "%v: no files", c.words)
	}
	var got result
	waittest.Until(t, 10*time.Second, "a description", func() bool {
		got = execute(t.Context(), "__complete", "--hub", h.url, "--token", testToken, "task", "show", "task_a")
		return strings.Contains(got.stdout, "task_aaa\trunning coder: Fix")
	})
	require.NotContains(t, got.stdout, "\x1b", "what an agent wrote does not reach the terminal")
}

// With the hub away, or silent, completion is quick, empty and silent.
func TestCompletionWithoutAHubIsQuickAndSilent(t *testing.T) {
	t.Parallel()
	for _, hub := range []string{"http://127.0.0.1:1", silentServer(t)} {
		begun := time.Now()
		got := execute(t.Context(), "__complete", "--hub", hub, "--token", testToken, "agent", "show", "")
		require.Equal(t, 0, got.code)
		require.Equal(t, ":36\n", got.stdout)
		require.Less(t, time.Since(begun), time.Second)
	}
}
