package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/loop"
)

// An attempt that ends anywhere is followed by one that makes the very same
// transcript, with each step run once.
func TestARunThatIsCutAnywhereEndsWithTheSameTranscript(t *testing.T) {
	t.Parallel()
	const text = `
turns:
  - calls:
      - {tool: shell_exec, arguments: {command: first}}
      - {tool: file_read, arguments: {path: a}}
      - {tool: file_read, arguments: {path: b}}
      - {tool: invented, arguments: {}}
    capture: {n: 'result (\d+)'}
  - calls:
      - {tool: shell_exec, arguments: {command: "second ${n}"}}
      - {tool: update_plan, arguments: {items: [{id: a, title: A, status: done}]}}
  - text: nothing to call
  - calls: [{tool: complete_task, arguments: {summary: "done ${n}"}}]
`
	exec := func(c hubtest.Call) hubtest.Result { return hubtest.Result{Observation: "result 7 of " + c.Tool} }
	whole := newBench(t, hubtest.Config{Exec: exec})
	whole.flushDelay = time.Hour // the same calls each time
	want := whole.run(text)
	reference := transcript(t, whole.hub.Task(taskID))
	writes := 0
	for _, name := range []string{"RecordTurn", "ProposeStep", "ExecuteStep", "SaveCheckpoint"} {
		writes += whole.hub.Calls(name)
	}
	require.Greater(t, writes, 10)
	for cut := 1; cut <= 2*writes; cut++ {
		lost := cut > writes
		t.Run(fmt.Sprintf("at write %d, answer lost %t", (cut-1)%writes+1, lost), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			left := (cut-1)%writes + 1
			die := func(name string, _ int) error {
				mu.Lock()
				defer mu.Unlock()
				if name == "PublishThinking" || left == 0 {
					return nil
				}
				if left--; left == 0 {
					cancel()
					return fault.New(fault.Unavailable, "cut")
				}
				return nil
			}
			cfg := hubtest.Config{Exec: exec}
			if lost {
				cfg.Lose = die
			} else {
				cfg.Fail = die
			}
			b := newBench(t, cfg)
			b.flushDelay = time.Hour
			_, err := b.attempt(ctx, parse(t, text))
			require.ErrorIs(t, err, context.Canceled)
			b.hub.Steal(taskID)
			out, err := b.attempt(t.Context(), parse(t, text))
			require.NoError(t, err)
			require.Equal(t, want.Summary, out.Summary)
			task := b.hub.Task(taskID)
			require.Equal(t, reference, transcript(t, task))
			for id, n := range task.Runs {
				require.Equal(t, 1, n, "step %s", id)
			}
			require.Len(t, events(task, "iteration_complete"), 4)
			require.Len(t, events(task, "thinking"), 4)
			require.Len(t, events(task, "tool_rejected"), 1)
		})
	}
}

// A call whose answer is lost is made again, and has its effect once.
func TestLostAnswersLeaveNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{Lose: func(name string, n int) error {
		if name != "PublishThinking" && n%2 == 1 {
			return fault.New(fault.Unavailable, "lost")
		}
		return nil
	}})
	out := b.run(`
turns:
  - calls: [{tool: shell_exec, arguments: {command: ls}}]
  - calls: [{tool: complete_task, arguments: {summary: x}}]
`)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State)
	task := b.hub.Task(taskID)
	require.Len(t, task.Turns, 2)
	require.Len(t, task.Steps, 2)
	require.Len(t, events(task, "phase_changed"), 14)
	require.Len(t, events(task, "iteration_complete"), 2)
}

// transcript is what the model saw and said, as text.
func transcript(t *testing.T, task hubtest.Task) string {
	t.Helper()
	var out strings.Builder
	for _, turn := range task.Turns {
		for _, block := range turn.GetBlocks() {
			data, err := json.Marshal(block)
			require.NoError(t, err)
			fmt.Fprintf(&out, "%d %s\n", turn.GetTurn(), data)
		}
	}
	for _, step := range task.Steps {
		fmt.Fprintf(&out, "%d.%d %s %s %s\n", step.GetTurn(), step.GetCallIndex(), step.GetTool(), step.GetState(), step.GetObservation())
	}
	return out.String()
}

func TestALostLeaseEndsTheRunWithoutAFurtherWrite(t *testing.T) {
	t.Parallel()
	var b *bench
	b = newBench(t, hubtest.Config{Exec: func(hubtest.Call) hubtest.Result {
		b.hub.Steal(taskID)
		return hubtest.Result{Observation: "ok"}
	}})
	// Events that are stored by themselves may be in progress at that moment.
	b.flushDelay = time.Hour
	_, err := b.attempt(t.Context(), parse(t, wholeRun))
	require.ErrorIs(t, err, loop.ErrLeaseLost)
	require.Equal(t, 1, b.hub.Task(taskID).Stale, "one write was refused and no other was tried")
}

func TestAHubThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{Fail: func(name string, n int) error {
		if n%3 != 0 {
			return fault.New(fault.Unavailable, "away")
		}
		return nil
	}})
	b.p.Limits.Iterations = 3
	out := b.run(`
turns:
  - calls: [{tool: shell_exec, arguments: {command: ls}}]
  - calls: [{tool: complete_task, arguments: {summary: x}}]
`)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State)
}

func TestAHubThatFailsByItselfIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	b := newBench(t, hubtest.Config{Fail: func(name string, _ int) error {
		if name == "RecordTurn" {
			return errors.New("a mistake")
		}
		return nil
	}})
	_, err := b.attempt(t.Context(), parse(t, wholeRun))
	require.ErrorContains(t, err, "store the turn")
	require.Equal(t, 6, b.hub.Calls("RecordTurn"))
}
