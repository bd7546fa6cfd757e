package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/tokencount"
)

// everything is all text of a request.
func everything(t *testing.T, r anthropictest.Request) string {
	t.Helper()
	body, err := json.Marshal(r.Body)
	require.NoError(t, err)
	return string(body)
}

// exactly counts what a provider reads of a request's body: each text whole, and
// a little for what it writes around each block.
func exactly(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		for ; len(v) > 4000; v = v[4000:] {
			n += tokencount.Count(v[:4000])
		}
		n += tokencount.Count(v)
	case []any:
		for _, item := range v {
			n += exactly(item)
		}
	case map[string]any:
		n = 2
		for key, item := range v {
			if key == "input_schema" {
				n += tokencount.Count(key)
			}
			n += exactly(item)
		}
	}
	return n
}

// summarizing reports whether the request asks for a summary.
func summarizing(r anthropictest.Request) bool {
	return strings.Contains(fmt.Sprint(r.Body["system"]), "You keep the memory of an agent")
}

// paired checks that no call stands without its result, nor the other way round.
func paired(t *testing.T, r anthropictest.Request) {
	t.Helper()
	open := map[string]bool{}
	for i, m := range r.Messages() {
		require.Equal(t, []string{"user", "assistant"}[i%2], m["role"])
		blocks, _ := m["content"].([]any)
		for _, b := range blocks {
			switch b := b.(map[string]any); b["type"] {
			case "tool_use":
				open[b["id"].(string)] = true
			case "tool_result":
				require.True(t, open[b["tool_use_id"].(string)], "a result without its call")
				delete(open, b["tool_use_id"].(string))
			}
		}
	}
	require.Empty(t, open, "a call without its result")
}

// The oldest turns give way to a summary before the prompt grows over its
// limit, only at whole tool calls, and a value from iteration 3 is used in
// iteration 60. What the loop foretells is within 5 % of what the provider says.
func TestALongTaskStaysUnderItsLimitAndRemembers(t *testing.T) {
	t.Parallel()
	const limit, turns = 6000, 60
	secret := regexp.MustCompile(`release-key=(rk-[0-9a-f]+)`)
	summaries := 0
	provider := anthropictest.New(t, func(r anthropictest.Request) anthropictest.Answer {
		text := everything(t, r)
		reported := int64(float64(exactly(r.Body))*1.3) + 100
		usage := anthropictest.Usage{Input: reported, Output: 20}
		if summarizing(r) {
			summaries++
			return anthropictest.Answer{Usage: usage, Blocks: []anthropictest.Block{{Text: "- found " + secret.FindString(text) + " (turn 3)"}}}
		}
		paired(t, r)
		require.Less(t, reported, int64(limit*5/4), "request %d", r.Number)
		n := r.Number - summaries
		if n == turns {
			return anthropictest.Answer{Usage: usage, Blocks: []anthropictest.Block{{
				Tool: "complete_task", ID: "end", Input: fmt.Sprintf(`{"summary": %q}`, secret.FindStringSubmatch(text)[1]),
			}}}
		}
		return anthropictest.Answer{Usage: usage, Blocks: []anthropictest.Block{
			{Tool: "shell_exec", ID: fmt.Sprintf("a%d", n), Input: fmt.Sprintf(`{"command": "look at part %d"}`, n)},
			{Tool: "file_read", ID: fmt.Sprintf("b%d", n), Input: fmt.Sprintf(`{"path": "src/file%d.go"}`, n)},
		}}
	})
	b := newBench(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		text := fmt.Sprintf("exit status 0\n%s", strings.Repeat(fmt.Sprintf("line of turn %d at 10:42:17 says ok\n", c.Turn), 20))
		if c.Turn == 3 && c.Tool == "shell_exec" {
			text += "release-key=rk-5eaf00d\n"
		}
		return hubtest.Result{Observation: text}
	}})
	b.p.Provider, b.p.Model, b.p.Context.SummarizeAt, b.p.Limits.Iterations = "anthropic", "m", limit, 100
	m, err := anthropic.New(anthropic.Config{BaseURL: provider.URL, Key: "k", Model: "m"})
	require.NoError(t, err)
	out, err := b.attempt(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, "rk-5eaf00d", out.Summary)
	task := b.hub.Task(taskID)
	require.Len(t, task.Turns, turns)
	cuts := events(task, "context_summarized")
	require.GreaterOrEqual(t, len(cuts), 3)
	for _, cut := range cuts {
		require.Equal(t, "m", cut["by"])
		require.Less(t, cut["tokens_after"], cut["tokens_before"])
	}
	// The estimate that opens a turn against what the provider said of it.
	foretold := map[float64]float64{}
	for _, e := range events(task, "phase_changed") {
		if e["phase"] == "analyze_context" {
			foretold[e["iteration"].(float64)] = e["prompt_tokens"].(float64)
		}
	}
	for _, e := range events(task, "thinking") {
		if turn := e["turn"].(float64); turn > 1 {
			require.InEpsilon(t, e["usage"].(map[string]any)["input_tokens"], foretold[turn], 0.05, "turn %v", turn)
		}
	}
}

// The same without a summary of a model's: the loop's own index keeps the names,
// and an attempt on another worker continues from the stored summary.
func TestTheLoopSummarizesByItselfAndAnotherWorkerGoesOn(t *testing.T) {
	t.Parallel()
	const text = `
turns:
  - calls: [{tool: shell_exec, arguments: {command: find the key}}]
    capture: {key: 'key=(\S+)'}
  - {name: again, calls: [{tool: shell_exec, arguments: {command: "use ${key}"}}], when: "status 0", next: again}
  - calls: [{tool: complete_task, arguments: {summary: "used ${key}"}}]
`
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b := newBench(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		switch {
		case c.Turn == 1:
			return hubtest.Result{Observation: "exit status 0\nkey=k-17\n" + strings.Repeat("some more words here\n", 100)}
		case c.Turn == 30 && ctx.Err() == nil:
			stop()
		case c.Turn == 60:
			return hubtest.Result{Observation: "the end of it"}
		}
		return hubtest.Result{Observation: fmt.Sprintf("exit status 0\n%d\n", c.Turn) + strings.Repeat("some words\n", 200)}
	}})
	b.p.Context.SummarizeAt, b.p.Limits.Iterations = 5000, 100
	_, err := b.attempt(ctx, parse(t, text))
	require.ErrorIs(t, err, context.Canceled)
	before := b.hub.Task(taskID)
	require.NotEmpty(t, events(before, "context_summarized"))
	require.Contains(t, fmt.Sprint(before.Checkpoint.GetState().AsMap()["summary"]), "shell_exec use k-17")
	b.hub.Steal(taskID)
	out, err := b.attempt(t.Context(), parse(t, text))
	require.NoError(t, err)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, out.Message)
	require.Equal(t, "used k-17", out.Summary)
	require.Greater(t, len(events(b.hub.Task(taskID), "context_summarized")), len(events(before, "context_summarized")))
}

// A model that says its context is too long is asked again with less.
func TestATranscriptThatIsTooLongIsSummarizedAndAskedAgain(t *testing.T) {
	t.Parallel()
	refused := 0
	provider := anthropictest.New(t, func(r anthropictest.Request) anthropictest.Answer {
		switch {
		case summarizing(r):
			return anthropictest.Answer{Blocks: []anthropictest.Block{{Text: "five looks, nothing found"}}}
		case len(r.Messages()) > 10:
			refused++
			return anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "prompt is too long: 300000 tokens > 200000 maximum"}
		case strings.Contains(everything(t, r), "five looks, nothing found"):
			return anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: "complete_task", ID: "e", Input: `{"summary": "went on"}`}}}
		}
		return anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: "shell_exec", ID: fmt.Sprint("t", r.Number), Input: `{"command": "look"}`}}}
	})
	b := newBench(t, hubtest.Config{Exec: func(hubtest.Call) hubtest.Result {
		return hubtest.Result{Observation: strings.Repeat("a line of what was found\n", 900)}
	}})
	b.p.Provider = "anthropic"
	m, err := anthropic.New(anthropic.Config{BaseURL: provider.URL, Key: "k", Model: "m"})
	require.NoError(t, err)
	out, err := b.attempt(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, "went on", out.Summary)
	require.Equal(t, 1, refused)
}
