package hub_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A provider that does not answer for a while is one item, however many tasks and models wait
// for it. It is withdrawn when the provider answers.
func TestAnOutageIsOneItem(t *testing.T) {
	t.Parallel()
	status := &atomic.Int64{}
	status.Store(http.StatusOK)
	r, _ := claude(t, status)
	org := r.sql("SELECT org_id FROM agents WHERE name = 'claude' ORDER BY created_at DESC LIMIT 1")
	var waits []string
	fails := func(model string) {
		id := r.submit("claude").GetId()
		do(t, r.workers.Workers.FinishTask, &deckhandv1.FinishTaskRequest{
			Lease: r.begin(id, 1), State: taskFailed, ErrorCode: string(fault.ModelUnavailable), Transient: true,
			ErrorMessage: "anthropic: overloaded (HTTP 529): Overloaded", Outage: &deckhandv1.ModelOutage{Provider: "anthropic", Model: model},
		})
		waits = append(waits, id)
	}
	const model = "claude-sonnet-4-5"
	fails(model)
	require.Empty(t, r.stops(stopProvider), "most outages are short")
	r.exec("UPDATE model_outages SET since = since - interval '2 minutes', probe_at = clock_timestamp() + interval '1 hour' WHERE org_id = '" + org + "'")
	fails(model)
	fails(model)
	item := r.stop(stopProvider)
	require.Equal(t, "anthropic does not answer", item.GetTitle())
	require.Equal(t, "outage", item.GetStop().GetReason())
	require.EqualValues(t, 3, item.GetStop().GetWaitingTasks())

	// A person can have a task try at once.
	_, err := r.answer(&deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Resume_{Resume: &deckhandv1.AnswerInboxItemRequest_Resume{}}})
	require.NoError(t, err)
	tried := ""
	waittest.Until(t, time.Minute, "a task to try the model", func() bool {
		for _, id := range waits {
			if r.task(id).GetState() == taskQueued {
				tried = id
			}
		}
		return tried != ""
	})
	do(t, r.workers.Workers.FinishTask, &deckhandv1.FinishTaskRequest{
		Lease: r.begin(tried, 2), State: taskFailed, ErrorCode: string(fault.ModelUnavailable), Transient: true,
		ErrorMessage: "anthropic: overloaded (HTTP 529): Overloaded", Outage: &deckhandv1.ModelOutage{Provider: "anthropic", Model: model},
	})
	item = r.stop(stopProvider)

	r.askModel(r.begin(r.submit("claude").GetId(), 1), 10) // it answers
	waittest.Until(t, time.Minute, "the item to be withdrawn", func() bool { return r.inboxItem(item.GetId()).GetState() == itemWithdrawn })
	for _, id := range waits {
		require.Equal(t, taskQueued, r.task(id).GetState())
	}
}
