package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// ticker is a command that prints all the time; its log on the node's disk is
// read, whatever the node does.
type ticker struct {
	t    testing.TB
	path string
}

// tickerOf returns the only command of a person's that the node has.
func tickerOf(f *harness.Fleet) ticker {
	f.T.Helper()
	var logs []string
	waittest.Until(f.T, time.Minute, "the ticker to run", func() bool {
		logs, _ = filepath.Glob(filepath.Join(f.NodeDir, "jails", "*", "state", "execs", "nexec_*", "data"))
		return len(logs) == 1
	})
	return ticker{f.T, logs[0]}
}

// ticks returns how much it has printed.
func (k ticker) ticks() int64 {
	k.t.Helper()
	info, err := os.Stat(k.path)
	require.NoError(k.t, err)
	return info.Size()
}

// stands waits until it makes no step.
func (k ticker) stands() {
	k.t.Helper()
	waittest.Until(k.t, time.Minute, "the jail to stand", func() bool {
		before := k.ticks()
		<-time.After(500 * time.Millisecond)
		return k.ticks() == before
	})
}

// goes waits until it makes a step.
func (k ticker) goes() {
	k.t.Helper()
	before := k.ticks()
	waittest.Until(k.t, time.Minute, "the jail to go on", func() bool { return k.ticks() != before })
}

// An approval is requested while the node does not respond, so that the jail is being
// frozen when the link is cut; it is decided while the node is offline, and the call runs
// once when the node is back. Then the other way round: the jail is frozen, the node goes
// offline, and the jail stays frozen until the decision can reach it. Questions without a
// reply stay.
func TestAnswersThatComeWhileTheNodeIsAway(t *testing.T) {
	t.Parallel()
	link := newCable(t)
	f := harness.NewOn(t, "--edge-address", link.listener.Addr().String())
	link.set(f.EdgeListener(), false)
	node := f.StartNode()
	f.StartWorker()
	f.Persona("asker", `
turns:
  - text: I wait for a file.
    calls:
      - tool: shell_exec
        arguments: {command: "until [ -e go ]; do sleep 0.1; done"}
  - text: I count.
    delay: 15s
    calls:
      - tool: shell_exec
        arguments: {command: "echo one >> counter"}
  - text: I count again.
    calls:
      - tool: shell_exec
        arguments: {command: "echo two >> counter"}
  - text: Done.
    calls:
      - {tool: complete_task, arguments: {summary: counted}}
`, "workspace: {scope: agent}", "approvals: {tools: [shell_exec], timeout: 1h}")
	id := f.Submit("asker")
	first := f.Item(id, "")
	f.CLI(0, "inbox", "approve", first)
	waittest.Until(t, time.Minute, "the first call to be made", func() bool {
		steps := f.Steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED"
	})
	// A person's command in the same jail: what is frozen.
	var nodes []struct{ Name string }
	f.JSON(&nodes, "node", "list")
	harness.Start(t, []string{"DECKHAND_DATA_DIR=" + f.Dir, "HOME=" + t.TempDir()}, harness.Binary(t, "deckhand"),
		"node", "exec", nodes[0].Name, "--agent", "asker", "--", "sh", "-c", "while :; do echo .; sleep 0.05; done")
	running := tickerOf(f)
	file := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	f.CLI(0, "agent", "files", "put", "asker", file)

	// Approval of the second call is requested while the node does not respond.
	waittest.Until(t, time.Minute, "the first call to end", func() bool {
		steps := f.Steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_SUCCEEDED"
	})
	require.NoError(t, node.Cmd.Process.Signal(syscall.SIGSTOP))
	second := f.Item(id, first)
	waittest.Until(t, time.Minute, "the task to wait for the approval", func() bool {
		return f.Task(id).State == "TASK_STATE_AWAITING_APPROVAL"
	})
	link.set("", true)
	require.NoError(t, node.Cmd.Process.Signal(syscall.SIGCONT))
	f.CLI(0, "inbox", "approve", second)
	waittest.Until(t, time.Minute, "the task to say what it waits for", func() bool {
		return strings.Contains(f.Task(id).Reason, "is not connected")
	})
	require.Len(t, f.Steps(id), 2)
	link.set(f.EdgeListener(), false)

	// The third is asked about, and the jail frozen, before the node is away.
	third := f.Item(id, second)
	running.stands()
	link.set("", true)
	waittest.Until(t, time.Minute, "the hub to miss the node", func() bool {
		var nodes []struct{ Status string }
		f.JSON(&nodes, "node", "list")
		return nodes[0].Status != "connected"
	})
	running.stands()
	require.Equal(t, "TASK_STATE_AWAITING_APPROVAL", f.Task(id).State)
	f.CLI(0, "inbox", "approve", third)
	waittest.Until(t, time.Minute, "the task to say what it waits for", func() bool {
		return strings.Contains(f.Task(id).Reason, "is not connected")
	})
	running.stands()
	link.set(f.EdgeListener(), false)
	f.Ended(id)
	require.Equal(t, "one\ntwo\n", f.CLI(0, "task", "files", "cat", id, "counter").Out, "each was made once")
	for _, s := range f.Steps(id) {
		require.Equal(t, "STEP_STATE_SUCCEEDED", s.State, "%+v", s)
	}
	running.goes()
}

// changing is what differs from one run to another.
var changing = regexp.MustCompile(`(step|task)_[a-z0-9]{20}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// messages returns a request's messages as text, without what differs from run
// to run: ids, times, where the provider is to cache, and what each attempt is told about
// where it is.
func messages(t testing.TB, req anthropictest.Request) (out []string) {
	t.Helper()
	for _, m := range req.Messages() {
		data, err := json.Marshal(uncached(m))
		require.NoError(t, err)
		out = append(out, string(changing.ReplaceAll(data, []byte("_"))))
	}
	return out
}

func uncached(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		delete(v, "cache_control")
		for key, value := range v {
			v[key] = uncached(value)
		}
		return v
	case []any:
		v = slices.DeleteFunc(slices.Clone(v), func(item any) bool {
			block, _ := item.(map[string]any)
			text, _ := block["text"].(string)
			return strings.HasPrefix(text, "# Where you are")
		})
		for i := range v {
			v[i] = uncached(v[i])
		}
		return v
	}
	return v
}

// A task whose call waits for an approval, and that then asks a question, continues each
// time on another worker. The model gets the same conversation as without a wait.
func TestTheTranscriptIsTheSameOnTheNextWorker(t *testing.T) {
	t.Parallel()
	call := func(text, tool, id, input string) anthropictest.Answer {
		return anthropictest.Answer{
			Blocks: []anthropictest.Block{{Thinking: "I think of " + tool + ".", Signature: "sig-" + id}, {Text: text}, {Tool: tool, ID: id, Input: input}},
			Usage:  anthropictest.Usage{Input: 1000, Output: 100},
		}
	}
	said := []anthropictest.Answer{
		call("I run it.", "shell_exec", "toolu_1", `{"command":"seq 2000; echo ran >> counter"}`),
		call("I look.", "file_read", "toolu_2", `{"path":"counter"}`),
		call("I ask.", "request_input", "toolu_3", `{"question":"Which colour?"}`),
		call("Done.", "complete_task", "toolu_4", `{"summary":"done"}`),
	}
	// Two tasks have the same conversation, and one of them waits.
	waits := func(r anthropictest.Request) bool { return strings.Contains(fmt.Sprint(r.Body["system"]), "You wait.") }
	taken := map[bool]int{}
	provider := anthropictest.New(t, func(r anthropictest.Request) anthropictest.Answer {
		which := waits(r)
		taken[which]++
		return said[min(taken[which], len(said))-1]
	})
	f := harness.NewWith(t, []string{"DECKHAND_ANTHROPIC_BASE_URL=" + provider.URL, "DECKHAND_ANTHROPIC_API_KEY=sk-ant-test"})
	f.StartNode()
	dir := t.TempDir()
	for name, keys := range map[string]string{"waits": "approvals: {tools: [shell_exec], timeout: 1h}\n", "goes": ""} {
		text := map[string]string{"waits": "You wait.", "goes": "You go on."}[name]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %s
description: For tests.
provider: anthropic
model: claude-sonnet-5-5
limits: {iterations: 10}
workspace: {scope: task}
tools: [shell_exec, file_read, request_input, complete_task]
%s---
%s
`, name, keys, text), 0o600))
	}
	f.CLI(0, "agent", "apply", "-f", dir)
	workers := []*harness.Process{f.StartWorker("--name", "w1")}
	next := func() {
		workers[len(workers)-1].Stop(t)
		workers = append(workers, f.StartWorker("--name", fmt.Sprintf("w%d", len(workers)+1)))
	}
	id := f.Submit("waits")
	// A worker that is stopped before it has let go of the task hands it back.
	parked := func(state string) {
		t.Helper()
		waittest.Until(t, time.Minute, "the task to be "+state, func() bool { return f.Task(id).State == state })
	}
	approval := f.Item(id, "")
	parked("TASK_STATE_AWAITING_APPROVAL")
	next()
	f.CLI(0, "inbox", "approve", approval)
	question := f.Item(id, approval)
	parked("TASK_STATE_NEEDS_INPUT")
	next()
	f.CLI(0, "inbox", "answer", question, "blue")
	f.Ended(id)
	other := f.Submit("goes")
	question = f.Item(other, "")
	f.CLI(0, "inbox", "answer", question, "blue")
	f.Ended(other)
	require.Equal(t, 3, f.Task(id).Attempt, "each worker had it")

	var waited, went []anthropictest.Request
	for _, r := range provider.Requests() {
		if waits(r) {
			waited = append(waited, r)
		} else {
			went = append(went, r)
		}
	}
	require.Len(t, waited, len(said), "no turn was taken twice")
	require.Len(t, went, len(said))
	for i := range said {
		now := messages(t, waited[i])
		require.Equal(t, messages(t, went[i]), now, "turn %d is that of a task that waits for nobody", i+1)
		if i > 0 {
			before := messages(t, waited[i-1])
			require.Equal(t, before, now[:len(before)], "what was said stays")
			require.Equal(t, uncached(waited[0].Body["system"]), uncached(waited[i].Body["system"]))
			require.Equal(t, uncached(waited[0].Body["tools"]), uncached(waited[i].Body["tools"]))
		}
	}
	require.Contains(t, strings.Join(messages(t, waited[3]), "\n"), "blue")
	require.Equal(t, "ran\n", f.CLI(0, "task", "files", "cat", id, "counter").Out)
}
