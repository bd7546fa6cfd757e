package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const taskID = "task_0123456789abcdefghjk"

// A run with a goal, and one with the persona's own instructions.
func TestARunIsSubmitted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	file := filepath.Join(t.TempDir(), "dpkg.log")
	require.NoError(t, os.WriteFile(file, []byte{0, 1, 0xff}, 0o600))
	got := h.run(t, "run", "triage", "look\x1b[2J", "--title", "T", "--priority", "7",
		"--input", file, "--input", file+"=logs/other.log", "--input", "-")
	require.Equal(t, 0, got.code, got.stderr)
	require.Regexp(t, `^ID +AGENT +STATE +PROGRESS +COST +AGE +TITLE +WHY\n`+taskID+` +triage +queued +0% +\$0\.0000 +\d+ms +T +\S.*\n$`, got.stdout)
	require.Equal(t, "follow it: deckhand task watch "+taskID+"\n", got.stderr)

	request, ok := h.last["SubmitTaskRequest"].(*deckhandv1.SubmitTaskRequest)
	require.True(t, ok)
	require.Equal(t, "look\x1b[2J", request.GetGoal(), "what is sent is not changed")
	require.Equal(t, int32(7), request.GetPriority())
	require.NotEmpty(t, request.GetIdempotencyKey())
	var inputs []string
	for _, in := range request.GetInputs() {
		inputs = append(inputs, in.GetPath()+" "+string(in.GetContent()))
	}
	require.Equal(t, []string{"input/dpkg.log \x00\x01\xff", "logs/other.log \x00\x01\xff", "input/stdin from stdin\n"}, inputs)

	require.Equal(t, taskID+"\n", h.run(t, "run", "triage", "-o", "name").stdout)
	request, ok = h.last["SubmitTaskRequest"].(*deckhandv1.SubmitTaskRequest)
	require.True(t, ok)
	require.Empty(t, request.GetGoal())
}

// Phases are seen as they happen.
func TestWaitShowsPhasesAndPrintsTheResult(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.script = func(h *testHub, id string) {
		h.emit(id, "state_changed", map[string]any{"from": "queued", "to": "running", "reason": ""})
		h.emit(id, "execution_started", map[string]any{"attempt": 1, "provider": "script", "model": "scripted"})
		h.emit(id, "phase_changed", map[string]any{"phase": "think", "iteration": 1})
		h.emit(id, "thinking", map[string]any{"text": "I shall look."})
		h.emit(id, "tool_selected", map[string]any{"tool": "shell_exec", "arguments": map[string]any{"command": "ls\n-l\x1b[2J"}})
		h.emit(id, "tool_completed", map[string]any{"tool": "shell_exec", "state": "succeeded", "step_id": "step_9", "outcome": map[string]any{"exit_code": 0}, "duration_ms": 1200})
		h.change(func() {
			h.steps[id] = []*deckhandv1.Step{{Id: "step_9", Observation: "a\nb", FinishedAt: timestamppb.Now()}}
		})
		h.end(id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, func(task *deckhandv1.Task) {
			task.Summary, task.Iteration = "All is well.\x1b]0;pwned\x07\nNothing to do.", 2
			task.Usage = &deckhandv1.Usage{InputTokens: 1000, OutputTokens: 234, CostMicros: 12_300}
		})
	}
	got := h.run(t, "run", "triage", "look", "--wait")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "All is well.␛]0;pwned␇\nNothing to do.\n", got.stdout)
	require.Equal(t, taskID+` is queued at position 1
03:04:05 task  `+taskID+`, for agent triage
03:04:05 state running
03:04:05 begin attempt 1, scripted (no model)
03:04:05 phase think (iteration 1)
03:04:05 call  shell_exec ls⟦␊⟧-l⟦␛⟧[2J
03:04:05 done  shell_exec succeeded exit 0 in 1s
03:04:05 state succeeded
succeeded, in 34s, 2 iterations, 1234 tokens, $0.0123, scripted (no model), `+taskID+"\n", got.stderr)

	watched := h.run(t, "run", "triage", "look", "--watch")
	require.Equal(t, 0, watched.code)
	require.Contains(t, watched.stderr, "think I shall look.\n")
	require.Contains(t, watched.stderr, "saw   a\n")

	asJSON := h.run(t, "run", "triage", "look", "--wait", "-o", "json")
	var task map[string]any
	require.NoError(t, json.Unmarshal([]byte(asJSON.stdout), &task))
	require.Equal(t, "TASK_STATE_SUCCEEDED", task["state"])
}

func TestWaitForAFailureEndsWithOne(t *testing.T) {
	t.Parallel()
	for state, want := range map[deckhandv1.TaskState]string{
		deckhandv1.TaskState_TASK_STATE_FAILED:    "error: task " + taskID + " failed: too many steps: see `deckhand task steps " + taskID + "` (AGENT_005)",
		deckhandv1.TaskState_TASK_STATE_TIMED_OUT: "error: task " + taskID + " timed out: too many steps: see `deckhand task steps " + taskID + "` (AGENT_005)",
		deckhandv1.TaskState_TASK_STATE_CANCELLED: "error: task " + taskID + " was cancelled: too many steps: see `deckhand task steps " + taskID + "` (AGENT_005)",
	} {
		h := newHub(t)
		h.script = func(h *testHub, id string) {
			h.end(id, state, func(task *deckhandv1.Task) { task.ErrorCode, task.ErrorMessage = "AGENT_005", "too many steps" })
		}
		got := h.run(t, "run", "triage", "look", "--wait")
		require.Equal(t, 1, got.code)
		require.Equal(t, want, got.errorLine(t))
		require.Empty(t, got.stdout)

		asJSON := h.run(t, "run", "triage", "look", "--wait", "-o", "jsonl")
		require.Equal(t, 1, asJSON.code)
		require.Contains(t, asJSON.stdout, `"errorCode":"AGENT_005"`)
	}
}

func TestWaitEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	got := h.run(t, "run", "triage", "look", "--wait", "--timeout", "50ms")
	require.Equal(t, 8, got.code)
	require.Equal(t, "error: task "+taskID+" is not finished: it is queued: follow it with `deckhand task watch "+taskID+"`", got.errorLine(t))
	require.Empty(t, got.stdout)
}

func TestWaitCanBeInterrupted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-h.watched
		cancel()
	}()
	got := execute(ctx, "run", "triage", "look", "--wait", "--hub", h.url, "--token", testToken)
	require.Equal(t, 130, got.code)
	require.Equal(t, "error: interrupted, but task "+taskID+" goes on: follow it with `deckhand task watch "+taskID+"` or end it with `deckhand task cancel "+taskID+"`", got.errorLine(t))
}

func TestAnOrdinaryCommandCanBeInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := newHub(t)
	got := execute(ctx, "task", "list", "--hub", h.url, "--token", testToken)
	require.Equal(t, 130, got.code)
	require.Equal(t, "error: interrupted\n", got.stderr)
}

func TestAnInputThatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	file := filepath.Join(t.TempDir(), "big=1.log")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 16<<20+1))
	got := h.run(t, "run", "triage", "--input", file)
	require.Equal(t, 2, got.code)
	require.True(t, strings.HasSuffix(got.errorLine(t), "big=1.log: it is larger than 16 MiB"), got.stderr)
	require.NotContains(t, h.last, "SubmitTaskRequest")
}
