package models

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// unreachable is how a model does not answer in the middle of a task.
func unreachable() map[string]modeltest.Answer {
	asksToWait := fail(429, "rate", "slow down")
	asksToWait.Header = map[string]string{"Retry-After": "100"}
	stalls := answer(block{Text: "I think"}, work)
	stalls.Break, stalls.Stall = 2, true
	return map[string]modeltest.Answer{
		"429 for longer than anybody waits": asksToWait, "500": fail(500, "fault", "oops"), "529": fail(529, "busy", "busy"), "a stall": stalls,
	}
}

// If a model fails, the next one of the persona continues in the middle of the task,
// whatever formats the two use: no command runs twice, no model gets another's reasoning,
// each call is charged at its own price, and the history shows which model took over and
// why.
func TestAnotherModelGoesOnInTheMiddleOfATask(t *testing.T) {
	t.Parallel()
	next := map[modeltest.Format]modeltest.Format{
		modeltest.Messages: modeltest.Responses, modeltest.Responses: modeltest.Gemini, modeltest.Gemini: modeltest.Chat, modeltest.Chat: modeltest.Messages,
	}
	r := newRigThat(t, func(c *worker.Config) { c.ModelStall = 10 * time.Second })
	ways := unreachable()
	var mu sync.Mutex
	taken := map[string]modeltest.Request{}
	tell := func(f modeltest.Format) func(modeltest.Request) modeltest.Answer {
		asked := map[string]int{}
		return func(req modeltest.Request) modeltest.Answer {
			name := goal(req.Text)
			from, way, _ := strings.Cut(name, ":")
			if modeltest.Formats[from] != f { // it takes over
				mu.Lock()
				defer mu.Unlock()
				taken[name] = req
				return answer(done)
			}
			asked[name]++
			if asked[name] == 1 {
				first := work
				first.ID, first.Input = "call.of/another model", strings.ReplaceAll(work.Input, "NAME", name)
				return answer(block{Thinking: "only mine", Signature: "c2lnbmF0dXJl", Redacted: ""}, block{Text: "I make it."}, first)
			}
			a := ways[way]
			words := kinds[f]
			if words == nil {
				words = kinds[modeltest.Chat]
			}
			if a.Status != 0 {
				a.ErrorType = words[a.ErrorType]
			}
			return a
		}
	}
	for _, f := range modeltest.Formats {
		r.connect(f, modeltest.New(t, tell(f)).URL)
	}
	ids := map[string]string{}
	for named, f := range modeltest.Formats {
		to := served[next[f]]
		n := 0
		for way := range ways {
			n++
			// Each fails on a model of its own: one breaker is for all of a model.
			agent, model := fmt.Sprintf("from-%s-%d", named, n), fmt.Sprintf("%s-%d", served[f][1], n)
			_, err := r.client.Providers.SetPrice(t.Context(), &deckhandv1.SetPriceRequest{Provider: served[f][0], Model: model, Input: 1, Output: 2})
			require.NoError(t, err)
			r.apply(agent, served[f][0], model, fmt.Sprintf("thinking: adaptive\nfallbacks: [{provider: %s, model: %s}]\n", to[0], to[1]))
			ids[named+":"+way] = r.submit(agent, "mishap["+named+":"+way+"]")
		}
	}
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			named, _, _ := strings.Cut(name, ":")
			from, to := served[modeltest.Formats[named]], served[next[modeltest.Formats[named]]]
			task := r.rested(id)
			require.Equal(t, succeeded, task.GetState(), "%s %s", task.GetReason(), task.GetErrorMessage())
			require.Equal(t, 1, r.ran(name))
			mu.Lock()
			got := taken[name]
			mu.Unlock()
			require.Contains(t, got.Text, "I make it.")
			require.Contains(t, got.Text, "done", "what came of the call goes along")
			require.NotContains(t, got.Text, "only mine")
			require.NotContains(t, got.Text, "c2lnbmF0dXJl")
			require.NotContains(t, got.Text, "call.of/another model", "an id that not every API takes")
			require.Equal(t, fmt.Sprintf("%s to %s/%s", from[0], to[0], to[1]), row[string](r,
				`SELECT string_agg((payload->>'from_provider') || ' to ' || (payload->>'to_provider') || '/' || (payload->>'to_model'), ', ')
				 FROM events WHERE task_id = $1 AND type = 'model_failover'`, id))
			require.Equal(t, 1, row[int](r, "SELECT count(*) FROM model_calls WHERE task_id = $1 AND provider = $2 AND model = $3 AND basis = 'reported'", id, to[0], to[1]))
			require.Equal(t, row[int64](r, "SELECT sum(cost_micros)::bigint FROM model_calls WHERE task_id = $1", id), task.GetUsage().GetCostMicros())
		})
	}
	require.Zero(t, row[int64](r, "SELECT coalesce(sum(reserved_micros), 0)::bigint FROM budget_accounts"))
}
