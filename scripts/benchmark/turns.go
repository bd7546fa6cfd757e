package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/tokencount"
)

// A long run: a model behind the real wire format, which works through tools of
// a simulated node for as many turns as a benchmark wants.

const turnsPersona = `---
name: runner
description: Works for long.
provider: anthropic
model: claude-sonnet-4-5
context: {summarize_at: 80000}
limits: {iterations: 1000, active_time: 168h, tokens: 1000000000, calls: 100000, cost_usd: 1000000}
workspace: {scope: task}
tools: [shell_exec, pin_fact, context_search, request_input, complete_task]
---
Work through the list.
`

// asked is one request to the model.
type asked struct {
	// task is in its goal, between [ and ].
	task string
	// turn counts the task's own from 1. It is 0 where a summary is asked for.
	turn int
	// text is all that the model is shown, where it reads, and tokens its size.
	text   string
	tokens int
	// at is when it came.
	at time.Time
}

// model answers turns.
type model struct {
	*httptest.Server

	answer func(a asked) anthropictest.Block
	// answered, if set, is told when the answer to a request is out.
	answered func(a asked, at time.Time)
	// usage, if set, is what is reported of a request.
	usage func(body []byte) anthropictest.Usage
	// reads says that prompts are read and counted, which takes its time: that of
	// the process which is measured.
	reads bool

	mu    sync.Mutex
	turns map[string]int
}

func newTurnModel(answer func(asked) anthropictest.Block) *model {
	m := &model{answer: answer, turns: map[string]int{}}
	m.Server = httptest.NewServer(m)
	return m
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := asked{at: time.Now()}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, rest, _ := bytes.Cut(body, []byte("run["))
	task, _, _ := bytes.Cut(rest, []byte("]"))
	a.task = string(task)
	a.tokens = len(body) / 4
	if m.reads {
		if a.text, err = all(body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a.tokens = tokencount.Count(a.text)
	}
	if bytes.Contains(body, []byte(`"tools":[{`)) {
		m.mu.Lock()
		m.turns[a.task]++
		a.turn = m.turns[a.task]
		m.mu.Unlock()
	}
	block := m.answer(a)
	w.Header().Set("Content-Type", "text/event-stream")
	usage := anthropictest.Usage{Input: int64(a.tokens), Output: 20}
	if m.usage != nil {
		usage = m.usage(body)
	}
	answer := anthropictest.Answer{Blocks: []anthropictest.Block{block}, Usage: usage, Piece: 500}
	for _, e := range anthropictest.Events("claude-sonnet-4-5", a.turn, answer) {
		data, _ := json.Marshal(e) //nolint:errchkjson // of JSON
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	}
	_ = http.NewResponseController(w).Flush() // the worker is gone otherwise
	if m.answered != nil {
		m.answered(a, time.Now())
	}
}

// all returns what a request shows the model.
func all(body []byte) (string, error) {
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range []any{request["system"], request["messages"]} {
		shown(part, &text)
	}
	return text.String(), nil
}

// shown collects what a part of a request shows the model.
func shown(v any, out *strings.Builder) {
	switch v := v.(type) {
	case string:
		out.WriteString(v + "\n")
	case []any:
		for _, item := range v {
			shown(item, out)
		}
	case map[string]any:
		for _, key := range []string{"text", "content", "name", "input", "command"} {
			shown(v[key], out)
		}
	}
}

// call is a block that calls a tool.
func call(a asked, tool string, arguments map[string]any) anthropictest.Block {
	data, _ := json.Marshal(arguments) //nolint:errchkjson // of texts
	return anthropictest.Block{Tool: tool, ID: fmt.Sprintf("toolu_%d", a.turn), Input: string(data)}
}

// longRuns is a stack with the model, and a node whose commands print what
// output answers to them.
func longRuns(ctx context.Context, m *model, output func(command string) string, options ...func(*hub.Config)) (*stack, error) {
	s, err := newStack(ctx, append(options, func(c *hub.Config) { c.AnthropicBaseURL, c.AnthropicKey = m.URL, "sk-ant-bench" })...)
	if err != nil {
		return nil, err
	}
	if err := noBudget(ctx, s.client); err != nil {
		s.stop()
		return nil, err
	}
	join, err := s.hub.LocalJoinToken(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	node, err := nodetest.New(ctx, nodetest.Config{
		Dir: filepath.Join(s.dir, "node"), HubURL: s.hub.URL(), JoinToken: join, Name: "simulated",
		Run: func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
			return output(strings.Join(spec.GetArgv(), " ")), &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
		},
	})
	if err == nil {
		err = s.start(ctx, node)
	}
	if err == nil {
		_, err = s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: "runner.md", Markdown: turnsPersona})
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// submitRun submits a run and returns the task's id.
func (s *stack) submitRun(ctx context.Context, name string) (string, error) {
	res, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "runner", Goal: "Do run[" + name + "]."})
	if err != nil {
		return "", err
	}
	return res.GetTask().GetId(), nil
}

// ends waits until a task is in a state, and fails when it rests in another.
func (s *stack) ends(ctx context.Context, id string, state deckhandv1.TaskState) error {
	for {
		res, err := s.client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: id})
		if err != nil {
			return err
		}
		switch t := res.GetTask(); t.GetState() {
		case state:
			return nil
		case deckhandv1.TaskState_TASK_STATE_FAILED, deckhandv1.TaskState_TASK_STATE_PAUSED, deckhandv1.TaskState_TASK_STATE_ESCALATED,
			deckhandv1.TaskState_TASK_STATE_CANCELLED, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT:
			return fmt.Errorf("task %s is %s: %s %s", id, t.GetState(), t.GetReason(), t.GetErrorMessage())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
