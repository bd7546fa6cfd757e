package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

const prefixTurns = 60

// Each request of a task repeats the one before byte for byte and goes on from there, also
// where another worker takes the task over: so a provider reads from its cache all that it
// was sent before.
func TestEveryRequestBeginsWithTheLastOne(t *testing.T) {
	t.Parallel()
	for name, f := range modeltest.Formats {
		if testing.Short() && f != modeltest.Messages {
			continue // with the race detector; nothing of the others is concurrent
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cache modeltest.Cache
			var prompts []modeltest.Prompt
			var uses []modeltest.Use
			var broken error
			srv := modeltest.New(t, func(r modeltest.Request) modeltest.Answer {
				prompt, err := modeltest.PromptOf(f, []byte(r.Text))
				if err != nil {
					broken = err
				}
				use := cache.Ask(prompt)
				prompts, uses = append(prompts, prompt), append(uses, use)
				return modeltest.Answer{Answer: anthropictest.Answer{
					Blocks: said(r.Number),
					Usage:  anthropictest.Usage{Input: use.Rest, CacheRead: use.Read, CacheWrite: use.Written, Output: 20},
				}}
			})
			// The worker dies three times: when a turn is stored, while a call runs, and when
			// the checkpoint is due.
			die := map[string]int{"RecordTurn": 12, "ExecuteStep": 40, "SaveCheckpoint": 45}
			b := newBench(t, hubtest.Config{
				// It also waits for people, in the first turn and in a later one.
				Waits: func(c hubtest.Call) bool { return c.Index == 0 && (c.Turn == 1 || c.Turn == 21) },
				Exec: func(c hubtest.Call) hubtest.Result {
					return hubtest.Result{Observation: strings.Repeat(fmt.Sprintf("result %d.%d\n", c.Turn, c.Index), 40)}
				},
				Fail: func(name string, n int) error {
					if die[name] == n {
						return fault.New(fault.Invalid, "the worker dies")
					}
					return nil
				},
			})
			b.p.Provider, b.p.Limits.Iterations, b.p.Limits.Tokens = "x", 100, 1e9
			b.p.Context.SummarizeAt = 500_000
			for attempts := 1; ; attempts++ {
				require.LessOrEqual(t, attempts, 6)
				out, err := b.attempt(t.Context(), modeltest.NewModel(t, f, srv.URL, 0))
				switch {
				case err != nil:
					b.hub.Steal(taskID)
					continue
				case out.State == deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL:
					b.hub.Approve(taskID)
					continue
				}
				require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, out.State, out.Reason)
				require.Equal(t, 6, attempts)
				break
			}
			require.NoError(t, broken)
			require.GreaterOrEqual(t, len(prompts), prefixTurns)

			var asked, read, possible int64
			for i, p := range prompts {
				require.LessOrEqual(t, len(p.Marks), 4, "request %d", i+1)
				asked += uses[i].Read + uses[i].Written + uses[i].Rest
				read, possible = read+uses[i].Read, possible+uses[i].Possible
				if i == 0 {
					continue
				}
				before := prompts[i-1]
				upTo := slices.Max(before.Marks) + 1
				require.Equal(t, before.Parts[:upTo], p.Parts[:upTo], "request %d", i+1)
				require.Equal(t, len(before.Parts), upTo, "all of it is marked")
			}
			require.InDelta(t, 1, float64(read)/float64(possible), 0.05)
			require.Greater(t, float64(read)/float64(asked), 0.9)
			require.Empty(t, events(b.hub.Task(taskID), "cache_missed"))
		})
	}
}

// said is the answer to a request: most turns make a call or two, and some make more calls
// than a provider looks back over.
func said(request int) []anthropictest.Block {
	if request > prefixTurns {
		return []anthropictest.Block{{Tool: "complete_task", ID: "last", Input: `{"summary":"done"}`}}
	}
	blocks := []anthropictest.Block{{Thinking: "Let me see.", Signature: "c2lnbmF0dXJl"}, {Text: fmt.Sprintf("Step %d.", request)}}
	calls := 1 + request%2
	if request%9 == 0 {
		calls = 30
	}
	for i := range calls {
		blocks = append(blocks, anthropictest.Block{
			Tool: "shell_exec", ID: fmt.Sprintf("call_%d_%d", request, i), Input: fmt.Sprintf(`{"timeout_seconds": 7, "command": "make part-%d"}`, request),
		})
	}
	return blocks
}
