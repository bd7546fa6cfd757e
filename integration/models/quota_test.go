package models

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// spentQuota returns each provider's response for a used-up quota, with the time when it
// is available again.
func spentQuota(f modeltest.Format) modeltest.Answer {
	switch f {
	case modeltest.Gemini:
		return modeltest.Answer{Answer: fail(429, "", "").Answer, Raw: `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel"}]},` +
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}}`}
	case modeltest.Messages:
		a := fail(402, "billing_error", "the plan's usage is spent")
		a.Header = map[string]string{"Retry-After": "3"}
		return a
	default:
		a := fail(429, "insufficient_quota", "You exceeded your current quota")
		a.Header = map[string]string{"Retry-After": "3"}
		return a
	}
}

func (r *rig) task(id string) *deckhandv1.Task {
	r.t.Helper()
	res, err := r.client.Tasks.GetTask(r.t.Context(), &deckhandv1.GetTaskRequest{TaskId: id})
	require.NoError(r.t, err)
	return res.GetTask()
}

// A used-up quota pauses the task until the time that the provider states; then it
// resumes by itself where it was, and uses none of its retries.
func TestASpentQuotaPausesUntilTheStatedTime(t *testing.T) {
	t.Parallel()
	for name, f := range modeltest.Formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t, modeltest.List(answer(work), spentQuota(f), spentQuota(f), answer(done)))
			r := newRig(t)
			r.connect(f, srv.URL)
			r.apply("tester", served[f][0], served[f][1], "")
			id := r.submit("tester", "go")
			var last *deckhandv1.Task
			require.Eventually(t, func() bool {
				if last = r.task(id); last.GetState() == paused {
					require.Contains(t, last.GetReason(), "goes on by itself at 20")
					require.Contains(t, last.GetReason(), "deckhand task resume "+id)
				}
				return last.GetState() == succeeded || last.GetState() == failed
			}, 90*time.Second, 20*time.Millisecond)
			require.Equal(t, succeeded, last.GetState(), last.GetReason())
			require.Equal(t, 1, r.ran("make"))
			require.Equal(t, 2, row[int](r, "SELECT count(*) FROM events WHERE task_id = $1 AND type = 'execution_paused'", id))
			require.Zero(t, row[int](r, "SELECT failures FROM tasks WHERE id = $1", id))
		})
	}
}

// The relay refuses a call that exceeds the task's own budget, its cost limit: the run
// pauses or stops, as its persona says, and counts as a failure of its agent. A budget of
// the organisation pauses the run, and does not count.
func TestABudgetThatTheRelayKeeps(t *testing.T) {
	t.Parallel()
	srv := modeltest.New(t, modeltest.List(answer(work)))
	r := newRig(t)
	r.connect(modeltest.Messages, srv.URL)
	for agent, c := range map[string]struct {
		limits string
		state  deckhandv1.TaskState
	}{
		"stops":  {"limits: {iterations: 10, cost_usd: 0.02}", failed},
		"pauses": {"limits: {iterations: 10, cost_usd: 0.02, on_limit: pause}", paused},
	} {
		file := strings.Replace(fmt.Sprintf(personaFile, agent, "anthropic", "claude-sonnet-4-5", ""), "limits: {iterations: 10, cost_usd: 5}", c.limits, 1)
		_, err := r.client.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{Filename: agent + ".md", Markdown: file})
		require.NoError(t, err)
		task := r.rested(r.submit(agent, "go"))
		require.Equal(t, c.state, task.GetState(), task.GetReason())
		require.Equal(t, string(fault.BudgetLimit), task.GetErrorCode())
		require.Contains(t, task.GetReason(), "of 0.02 USD are spent")
		require.Contains(t, task.GetReason(), "--limit cost_usd=0.04")
		require.Equal(t, "cost_usd", row[string](r, "SELECT payload->>'kind' FROM events WHERE task_id = $1 AND type = 'limit_reached'", task.GetId()))
		require.Equal(t, 1, row[int](r, "SELECT failures FROM agents WHERE name = $1", agent))
	}
	r.apply("thrifty", "anthropic", "claude-sonnet-4-5", "")
	_, err := r.client.Budgets.SetBudget(t.Context(), &deckhandv1.SetBudgetRequest{Scope: "organisation", Every: "day", Limit: &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: 1}})
	require.NoError(t, err)
	task := r.rested(r.submit("thrifty", "go"))
	require.Equal(t, paused, task.GetState(), task.GetReason())
	require.Contains(t, task.GetReason(), "deckhand budget set organisation")
	require.Equal(t, 0, row[int](r, "SELECT failures FROM agents WHERE name = 'thrifty'"))
}

// A model that fails is not called by any task of a worker; after a while one call tries
// it, while the others continue with another model; if it succeeds, all call it again.
func TestABreakerIsHalfOpenForOneCall(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	down, asked, release := true, 0, make(chan struct{})
	counted := func() int {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
	first := modeltest.New(t, func(modeltest.Request) modeltest.Answer {
		mu.Lock()
		asked++
		broken := down
		mu.Unlock()
		if broken {
			return fail(500, "api_error", "oops")
		}
		<-release
		return answer(done)
	})
	second := modeltest.New(t, modeltest.List(answer(done)))
	r := newRigThat(t, func(c *worker.Config) { c.ModelRest = 20 * time.Second })
	r.connect(modeltest.Messages, first.URL)
	r.connect(modeltest.Responses, second.URL)
	r.apply("tester", "anthropic", "claude-sonnet-4-5", "fallbacks: [{provider: openai, model: gpt-5}]\n")
	by := func(id string) string {
		task := r.rested(id)
		require.Equal(t, succeeded, task.GetState(), task.GetReason())
		return row[string](r, "SELECT provider FROM model_calls WHERE task_id = $1 AND basis = 'reported'", id)
	}
	for range 2 {
		require.Equal(t, "openai", by(r.submit("tester", "go")))
	}
	require.Equal(t, 5, counted(), "then it is left alone")
	require.Equal(t, "openai", by(r.submit("tester", "go")))
	require.Equal(t, 5, counted())

	mu.Lock()
	down = false
	mu.Unlock()
	var looks string
	require.Eventually(t, func() bool {
		id := r.submit("tester", "go")
		require.Eventually(t, func() bool { return counted() == 6 || r.task(id).GetState() == succeeded }, time.Minute, 10*time.Millisecond)
		looks = id
		return counted() == 6
	}, 2*time.Minute, 100*time.Millisecond)
	for range 3 {
		require.Equal(t, "openai", by(r.submit("tester", "go")), "while one looks, the others go elsewhere")
	}
	require.Equal(t, 6, counted())
	close(release)
	require.Equal(t, "anthropic", by(looks))
	require.Equal(t, "anthropic", by(r.submit("tester", "go")), "it answers again")
}

// The model that a persona names for summaries writes them, and its calls are charged
// like the task's; if it fails, the task's own model does.
func TestAnotherModelWritesTheSummaries(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]modeltest.Answer{
		"it answers":         answer(block{Text: "The password is swordfish (turn 1)."}),
		"it does not answer": fail(400, "invalid_request_error", "no such model"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cheap := modeltest.New(t, modeltest.List(answers))
			var mu sync.Mutex
			own, last := 0, ""
			dear := modeltest.New(t, func(req modeltest.Request) modeltest.Answer {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(req.Text, "You keep the memory of an agent") {
					own++
					return answer(block{Text: "The password is swordfish (turn 1)."})
				}
				if last = req.Text; strings.Contains(last, "swordfish") {
					return answer(done)
				}
				call := work
				call.ID = fmt.Sprintf("call_%d", req.Number)
				call.Input = fmt.Sprintf(`{"command": "make part%d"}`, req.Number)
				a := answer(call)
				a.Usage.Input = int64(len(req.Text) / 4)
				return a
			})
			r := newRig(t)
			r.mu.Lock()
			r.output = strings.Repeat("all of this is worth reading, and there is much of it\n", 120)
			r.mu.Unlock()
			r.connect(modeltest.Messages, dear.URL)
			r.connect(modeltest.Responses, cheap.URL)
			r.apply("tester", "anthropic", "claude-sonnet-4-5", "context: {summarize_at: 4000, summary_model: {provider: openai, model: gpt-5-mini}}\n")
			task := r.rested(r.submit("tester", "go"))
			require.Equal(t, succeeded, task.GetState(), "%s %s", task.GetReason(), task.GetErrorMessage())
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, last, "The password is swordfish")
			by := row[string](r, "SELECT payload->>'by' FROM events WHERE task_id = $1 AND type = 'context_summarized' LIMIT 1", task.GetId())
			require.NotEmpty(t, cheap.Requests())
			require.Contains(t, cheap.Requests()[0].Text, "You keep the memory of an agent")
			if name == "it answers" {
				require.Zero(t, own)
				require.Equal(t, "gpt-5-mini", by)
				require.Positive(t, row[int64](r, "SELECT cost_micros FROM model_calls WHERE task_id = $1 AND model = 'gpt-5-mini' LIMIT 1", task.GetId()))
			} else {
				require.Positive(t, own)
				require.Equal(t, "claude-sonnet-4-5", by)
			}
			require.Eventually(t, func() bool {
				return r.task(task.GetId()).GetUsage().GetCostMicros() == row[int64](r, "SELECT sum(cost_micros)::bigint FROM model_calls WHERE task_id = $1", task.GetId())
			}, 30*time.Second, 50*time.Millisecond)
		})
	}
}
