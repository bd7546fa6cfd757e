package models

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

const (
	waiting   = deckhandv1.TaskState_TASK_STATE_WAITING
	escalated = deckhandv1.TaskState_TASK_STATE_ESCALATED
)

// If a provider is overloaded, its tasks wait without a slot, of which the worker has one.
// One of them after another tries the model; when it answers, all of them continue in the
// middle of their work. A task whose provider is overloaded for too long is escalated with
// the provider's answer.
func TestAnOutageEndsNoTask(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	overloaded := modeltest.New(t, func(req modeltest.Request) modeltest.Answer {
		switch {
		case req.Number == 1:
			down.Store(true) // in the middle of the first task's work
			return answer(work)
		case down.Load():
			return fail(529, "overloaded_error", "Overloaded")
		}
		return answer(done)
	})
	other := modeltest.New(t, modeltest.List(answer(done)))
	r := newRigThat(t, func(c *worker.Config) { c.Slots, c.ModelRest = 1, time.Second })
	r.connect(modeltest.Messages, overloaded.URL)
	r.connect(modeltest.Responses, other.URL)
	r.apply("tester", "anthropic", "claude-sonnet-4-5", "")
	r.apply("another", "openai", "gpt-5", "")
	var ids []string
	for range 3 {
		id := r.submit("tester", "go")
		ids = append(ids, id)
		waittest.Until(t, time.Minute, "a task to wait for its model", func() bool { return r.task(id).GetState() == waiting })
		require.Contains(t, r.task(id).GetReason(), "anthropic: overloaded (HTTP 529): Overloaded")
		require.Contains(t, r.task(id).GetReason(), "goes on when claude-sonnet-4-5 of anthropic answers again")
	}
	require.Equal(t, succeeded, r.rested(r.submit("another", "go")).GetState(), "the slot is free")
	waittest.Until(t, time.Minute, "a task to look whether the model answers", func() bool {
		return row[int](r, "SELECT failures FROM model_outages") > 1
	})
	require.GreaterOrEqual(t, row[int](r, "SELECT count(*) FROM events WHERE type = 'model_outage'"), 4)
	down.Store(false)
	for _, id := range ids {
		task := r.rested(id)
		require.Equal(t, succeeded, task.GetState(), task.GetReason())
	}
	require.Equal(t, 1, r.ran("make"), "what was done is not done again")
	require.Equal(t, 0, row[int](r, "SELECT count(*) FROM model_outages"))

	down.Store(true)
	id := r.submit("tester", "go")
	waittest.Until(t, time.Minute, "a task to wait for its model", func() bool { return r.task(id).GetState() == waiting })
	row[string](r, "UPDATE tasks SET outage_since = outage_since - interval '25 hours', not_before = clock_timestamp() WHERE id = $1 RETURNING id", id)
	task := r.rested(id)
	require.Equal(t, escalated, task.GetState(), task.GetReason())
	require.Contains(t, task.GetReason(), "No answer from its model in 24h0m0s (limits.outage). Last error: anthropic: overloaded (HTTP 529): Overloaded")
	require.Equal(t, 0, row[int](r, "SELECT failures FROM agents WHERE name = 'tester'"))
}
