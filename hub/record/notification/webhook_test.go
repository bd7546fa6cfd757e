package notification_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// verified reports whether a request was signed with a secret, according to the library
// of Standard Webhooks.
func verified(t *testing.T, secret string, g got) bool {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	return w.Verify(g.body, g.header) == nil
}

// Approval requests and failures are sent to a webhook, once, as signed CloudEvents.
func TestAWebhookGetsSignedCloudEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	r.happen("task_one", "approval_requested", map[string]any{"tool": "before"})
	d, secret := r.webhook("hook", rec.URL)
	r.happen("task_one", "thinking", map[string]any{"text": "not for people"})
	r.happen("task_one", "approval_requested", map[string]any{"item_id": "inbox_1", "tool": "shell_exec", "why": "it is dangerous"})
	r.happen("task_one", "state_changed", map[string]any{"from": "running", "to": "paused", "reason": "x"})
	r.happen("task_one", "state_changed", map[string]any{"from": "running", "to": "failed", "reason": "it broke"})
	r.settled(d.ID, "delivered", 2)
	all := map[string]got{}
	for _, g := range rec.got() {
		all[g.event.Type] = g
		require.True(t, verified(t, secret, g))
		require.Equal(t, "application/cloudevents+json; charset=utf-8", g.header.Get("Content-Type"))
	}
	require.Len(t, all, 2)
	e := all["approval_requested"].event
	require.Equal(t, "1.0", e.SpecVersion)
	require.Equal(t, seqOf(3), e.ID)
	require.Equal(t, "/organisations/"+org, e.Source)
	require.Equal(t, "task_one", e.Subject)
	require.Equal(t, "corr_1", e.CorrelationID)
	require.False(t, e.Time.IsZero())
	require.Equal(t, notification.Actor{Kind: "hub", ID: "hub", Class: "system"}, e.Data.Actor)
	require.Equal(t, &notification.Named{ID: "task_one", Name: "Look at it"}, e.Data.Task)
	require.Equal(t, &notification.Named{ID: "agent_one", Name: "one"}, e.Data.Agent)
	require.Equal(t, "Agent one asks to run shell_exec: it is dangerous", e.Data.Summary)
	require.Equal(t, "inbox_1", e.Data.Details["item_id"])
	require.Equal(t, seqOf(5)+".task.failed", all["task.failed"].event.ID, "another event than state_changed")
	require.Equal(t, "Task task_one of agent one is failed: it broke", all["task.failed"].event.Data.Summary)

	// Reading everything again sends nothing twice.
	r.exec(`UPDATE destinations SET after_id = 0, after_xid = '0'`)
	r.happen("task_one", "input_required", map[string]any{"question": "Which one?"})
	// The event from before the destination was created is sent now, too, and blocks no
	// other.
	r.settled(d.ID, "delivered", 4)
	require.Equal(t, map[string]int{"approval_requested": 2, "task.failed": 1, "input_required": 1}, rec.kinds())
}

// The lifecycle's types, and what each carries.
func TestTheLifecycleIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, _ := r.webhook("hook", rec.URL, "lifecycle", "stream")
	usage := map[string]any{"input_tokens": 100, "output_tokens": 20, "cost_micros": 1234}
	for _, e := range []struct {
		kind    string
		payload map[string]any
	}{
		{"task.assigned", nil},
		{"agent.spawned", map[string]any{"attempt": 1}},
		{"execution_started", nil},
		{"progress_update", map[string]any{"progress": 0.5}},
		{"agent.subtask.created", nil},
		{"tool_selected", map[string]any{"tool": "file_list"}},
		{"tool_executing", map[string]any{"tool": "file_list"}},
		{"execution_completed", map[string]any{"usage": usage, "summary": "done"}},
		{"execution_failed", map[string]any{"usage": usage, "recoverable": true}},
		{"state_changed", map[string]any{"to": "paused"}},
		{"agent.retry", map[string]any{"retry": 1}},
		{"task.escalated", nil},
		{"review_requested", map[string]any{"item_id": "inbox_1"}},
		{"state_changed", map[string]any{"from": "review_needed", "to": "succeeded"}},
		{"execution_cancelled", nil}, {"phase_changed", nil}, {"plan_updated", nil}, {"thinking", nil}, {"tool_completed", nil},
		{"checkpoint_created", nil}, {"input_required", nil}, {"iteration_complete", nil},
		{"message_received", nil},
	} {
		r.happen("task_one", e.kind, e.payload)
	}
	want := []string{
		"task.assigned", "agent.spawned", "agent.started", "agent.progress", "agent.subtask.created", "agent.tool.called", "agent.completed",
		"agent.failed", "agent.paused", "agent.retry", "agent.escalated", "review.requested", "review.completed", "task.completed",
		"audit.agent.action", "execution_started", "execution_completed", "execution_failed", "execution_cancelled", "phase_changed", "plan_updated",
		"thinking", "tool_selected", "tool_executing", "tool_completed", "checkpoint_created", "input_required", "progress_update",
		"iteration_complete",
	}
	r.settled(d.ID, "delivered", len(want))
	counts := map[string]int{}
	for _, kind := range want {
		counts[kind] = 1
	}
	require.Equal(t, counts, rec.kinds())
	ids := map[string]bool{}
	for _, g := range rec.got() {
		require.False(t, ids[g.event.ID], "two events have the id %s", g.event.ID)
		ids[g.event.ID] = true
		if g.event.Type == "agent.failed" {
			require.EqualValues(t, 120, *g.event.Data.Tokens)
			require.EqualValues(t, 1234, *g.event.Data.CostMicros)
			require.True(t, *g.event.Data.Recoverable)
			require.NotNil(t, g.event.Data.RetryCount)
		}
	}
}

// A destination hears of what it asked for.
func TestADestinationHearsOfItsAgentsAndKinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	row, _, err := r.notify.Create(t.Context(), notification.Draft{OrgID: org, Name: "hook", By: person, Spec: &deckhandv1.DestinationSpec{
		Events: []string{"questions", "agent.sus*"}, Agents: []string{"two"},
		To: &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: rec.URL}},
	}})
	require.NoError(t, err)
	for _, task := range []string{"task_one", "task_two"} {
		for _, kind := range []string{"input_required", "agent.suspended", "budget_warning"} {
			r.happen(task, kind, nil)
		}
	}
	require.NoError(t, r.recorder.Tx(t.Context(), func(tx *event.Tx) error {
		return r.notify.Announce(t.Context(), tx, notification.Event{OrgID: org, Kind: string(eventkind.TriggerTripped), Object: "trig_1", AgentName: "two"})
	}))
	for _, n := range r.settled(row.ID, "delivered", 2) {
		require.Equal(t, "task_two", n.TaskID)
	}
	require.Equal(t, map[string]int{"input_required": 1, "agent.suspended": 1}, rec.kinds())

	for _, wrong := range [][]string{{"approval"}, {"agent.x*"}, {"questions", "thinkin"}} {
		_, _, err := r.notify.Create(t.Context(), notification.Draft{OrgID: org, Name: "wrong", By: person, Spec: &deckhandv1.DestinationSpec{
			Events: wrong, To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}},
		}})
		require.True(t, fault.Is(err, fault.Invalid), "%v: %v", wrong, err)
	}
}

// A notification that belongs to no task is stored by the transaction that causes the
// event, and an event with a once key is sent only once.
func TestAHappeningIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, secret := r.webhook("hook", rec.URL)
	announce := func(kind string) {
		require.NoError(t, r.recorder.Tx(t.Context(), func(tx *event.Tx) error {
			return r.notify.Announce(t.Context(), tx, notification.Event{
				OrgID: org, Kind: kind, Object: "trig_1", AgentID: "agent_one", AgentName: "one", Once: "trig_1." + kind,
				Details: map[string]any{"trigger": "nightly", "reason": "no such key"},
			})
		}))
	}
	announce(string(eventkind.DeliveryFailed))
	announce(string(eventkind.DeliveryFailed))
	announce(string(eventkind.TriggerTripped))
	r.settled(d.ID, "delivered", 2)
	require.Equal(t, map[string]int{string(eventkind.DeliveryFailed): 1, string(eventkind.TriggerTripped): 1}, rec.kinds())
	for _, g := range rec.got() {
		require.True(t, verified(t, secret, g))
		require.Contains(t, g.event.Data.Summary, "nightly")
	}
}

// Whatever a receiver does, a notification is sent again under its id until it is
// taken.
func TestANotificationIsSentUntilItIsTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, stop <-chan struct{})
		status int
		text   string
	}{
		"an error":  {func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) { http.Error(w, "on fire", 500) }, 500, "on fire"},
		"not found": {func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) { w.WriteHeader(404) }, 404, "404"},
		"too many": {func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		}, 429, "429"},
		"a cut": {func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) { panic(http.ErrAbortHandler) }, 0, "EOF"},
		"control text": {func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) {
			http.Error(w, "a\x1b[31m\nb\u202ec\xff", http.StatusBadGateway)
		}, 502, "a [31m b c\uFFFD"},
		"silence": {func(_ http.ResponseWriter, r *http.Request, stop <-chan struct{}) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, 0, "no answer within"},
		"no end": {func(w http.ResponseWriter, r *http.Request, stop <-chan struct{}) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		}, 500, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *notification.Config) {
				if name == "silence" {
					c.Timeout = 300 * time.Millisecond
				}
			})
			stop := make(chan struct{})
			rec := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n < 2 {
					c.answer(w, r, stop)
				}
			})
			t.Cleanup(func() { close(stop) })
			d, secret := r.webhook("hook", rec.URL)
			r.happen("task_one", "input_required", nil)
			n := r.settled(d.ID, "delivered", 1)[0]
			require.GreaterOrEqual(t, n.Attempts, int32(3))
			all := tries(t, n)
			require.Equal(t, c.status, all[0].Status)
			require.Contains(t, all[0].Error, c.text)
			require.Less(t, len(all[0].Error), 1000)
			for _, g := range rec.got() {
				require.Equal(t, n.ID, g.id(), "the receiver can tell that it has it")
				require.True(t, verified(t, secret, g))
			}
		})
	}
}

// A receiver that is down gets all when it is up.
func TestAReceiverThatIsDownGetsAllWhenItIsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	address := rec.Listener.Addr().String()
	rec.Close()
	d, _ := r.webhook("hook", "http://"+address)
	for range 5 {
		r.happen("task_one", "input_required", nil)
	}
	require.Eventually(t, func() bool {
		rows := r.notifications(d.ID, "pending")
		return len(rows) == 5 && rows[0].Attempts > 1
	}, patience, 10*time.Millisecond)
	again := newReceiver(t, nil)
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(again.Config.Handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	r.settled(d.ID, "delivered", 5)
	require.Len(t, again.got(), 5)
}

// The Retry-After of a receiver is respected.
func TestRetryAfterCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", []string{"3600", time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat), "999999999"}[min(n, 2)])
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	d, _ := r.webhook("hook", rec.URL)
	for i, least := range []time.Duration{59 * time.Minute, 118 * time.Minute, 5 * time.Hour} {
		r.happen("task_one", "input_required", nil)
		require.Eventually(t, func() bool { return len(rec.got()) == i+1 }, patience, 10*time.Millisecond)
		var n db.ListNotificationsRow
		require.Eventually(t, func() bool {
			n = r.notifications(d.ID)[0]
			return len(tries(t, n)) == 1
		}, patience, 10*time.Millisecond)
		require.Equal(t, "pending", n.State)
		require.Greater(t, n.NextAt.Sub(n.CreatedAt), least)
		require.Less(t, n.NextAt.Sub(n.CreatedAt), 7*time.Hour)
	}
}

// A receiver that is gone is left alone for ever.
func TestAReceiverThatIsGoneEndsItsDestination(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	d, _ := r.webhook("hook", rec.URL)
	r.happen("task_one", "input_required", nil)
	require.EqualValues(t, 1, r.settled(d.ID, "dead", 1)[0].Attempts)
	require.Eventually(t, func() bool {
		row, err := r.notify.Get(t.Context(), org, d.ID)
		return err == nil && row.State == "disabled" && strings.Contains(row.Reason, "410")
	}, patience, 10*time.Millisecond)
	r.happen("task_one", "input_required", nil)
	require.NoError(t, r.notify.Follow(t.Context()))
	require.Len(t, r.notifications(d.ID), 1)
}

// A notification that is not delivered in the time for attempts is kept, and sent again
// when a person redrives it.
func TestADeadNotificationIsRedriven(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *notification.Config) { c.GiveUp = 500 * time.Millisecond })
	var well sync.Map
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if _, ok := well.Load("well"); !ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d, _ := r.webhook("hook", rec.URL)
	r.happen("task_one", "input_required", nil)
	r.happen("task_two", "input_required", nil)
	first := r.settled(d.ID, "dead", 2)
	require.Equal(t, "it answered 500", first[0].Error)
	require.GreaterOrEqual(t, first[0].Attempts, int32(2))
	require.False(t, first[0].HandledAt.Before(first[0].ExpiresAt), "it was tried to the end")

	well.Store("well", true)
	n, err := r.notify.Redrive(t.Context(), org, first[0].ID, "", person)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, first[0].ID, r.settled(d.ID, "delivered", 1)[0].ID)
	_, err = r.notify.Redrive(t.Context(), org, first[0].ID, "", person)
	require.True(t, fault.Is(err, fault.Precondition), "it is not dead any more")
	n, err = r.notify.Redrive(t.Context(), org, "", d.ID, person)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	r.settled(d.ID, "delivered", 2)
}

// A hub that dies between sending and storing that it did has the notification sent
// again, under the same id, when its lease is over.
func TestWhatAHubHadTakenIsSentByAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, _ := r.webhook("hook", rec.URL)
	r.notify.Stop()
	r.happen("task_one", "input_required", nil)
	require.Eventually(t, func() bool { return len(r.notifications(d.ID)) == 1 }, patience, 10*time.Millisecond)
	taken, err := r.ClaimNotifications(t.Context(), db.ClaimNotificationsParams{Busy: []string{}, Each: 1, MaxRows: 1, Lease: time.Second})
	require.NoError(t, err)
	require.Len(t, taken, 1)
	r.service()
	n := r.settled(d.ID, "delivered", 1)[0]
	require.EqualValues(t, 2, n.Attempts)
	require.Equal(t, taken[0].ID, rec.got()[0].id())
	// The first hub lives after all: what it stores is of no account.
	settled, err := r.SettleNotification(t.Context(), db.SettleNotificationParams{OrgID: org, ID: taken[0].ID, Attempts: 1, State: "dead", Try: []byte("[]")})
	require.NoError(t, err)
	require.Zero(t, settled)
}

// Transactions of different length that commit in any order, and several hubs that read
// and send: each event is sent once, and none is left out.
func TestNoEventIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.service()
	rec := newReceiver(t, nil)
	d, _ := r.webhook("hook", rec.URL, "input_required")
	const writers, rounds = 6, 15
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var written sync.WaitGroup
	for w := range writers {
		written.Go(func() {
			for i := range rounds {
				err := r.recorder.Tx(ctx, func(tx *event.Tx) error {
					// A write, which takes the transaction's id.
					if err := tx.TouchReplica(ctx, db.TouchReplicaParams{ID: ident.New("r")}); err != nil {
						return err
					}
					if i%5 == w%5 {
						timer := time.NewTimer(time.Duration(rand.IntN(150)) * time.Millisecond)
						defer timer.Stop()
						<-timer.C
					}
					return tx.Append(org, []string{"task_one", "task_two"}[w%2], event.Hub, event.Draft{Type: "input_required"}, event.Draft{Type: "thinking"})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	written.Wait()
	r.settled(d.ID, "delivered", writers*rounds)
	ids := map[string]int{}
	for _, g := range rec.got() {
		ids[g.event.ID]++
	}
	for i := range writers * rounds / 2 {
		for _, task := range []string{"task_one", "task_two"} {
			id := fmt.Sprintf("%s.%d", task, 2*i+1)
			require.GreaterOrEqual(t, ids[id], 1, "event %s", id)
		}
	}
	require.Len(t, ids, writers*rounds)
}

// Events while a destination is disabled are not sent, and pending ones are sent when it
// is enabled.
func TestADisabledDestinationHearsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var well sync.Map
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if _, ok := well.Load("well"); !ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d, _ := r.webhook("hook", rec.URL)
	r.happen("task_one", "input_required", nil)
	require.Eventually(t, func() bool { return len(rec.got()) > 0 }, patience, 10*time.Millisecond)
	require.NoError(t, r.notify.Disable(t.Context(), org, d.ID, "later", person))
	r.happen("task_one", "outcome_unknown", nil)
	require.NoError(t, r.notify.Follow(t.Context()))
	well.Store("well", true)
	require.NoError(t, r.notify.Enable(t.Context(), org, d.ID, person))
	r.happen("task_one", "approval_requested", nil)
	rows := r.settled(d.ID, "delivered", 2)
	require.Equal(t, "approval_requested", rows[0].Type)
	require.Equal(t, "input_required", rows[1].Type)

	require.NoError(t, r.notify.Delete(t.Context(), org, d.ID, person))
	_, err := r.notify.Get(t.Context(), org, d.ID)
	require.True(t, fault.Is(err, fault.NotFound))
	require.Len(t, r.notifications(""), 2, "what was sent stays on record")
}

// Secrets are sealed, shown once, and rotated while both count.
func TestASecretIsSealedAndRotated(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, first := r.webhook("hook", rec.URL)
	require.True(t, strings.HasSuffix(first, d.Hint))
	require.NotContains(t, string(d.Sealed), first)
	second, err := r.notify.Rotate(t.Context(), org, d.ID, time.Hour, person)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	_, err = r.notify.Test(t.Context(), org, d.ID, person)
	require.NoError(t, err)
	third, err := r.notify.Rotate(t.Context(), org, d.ID, 0, person)
	require.NoError(t, err)
	_, err = r.notify.Test(t.Context(), org, d.ID, person)
	require.NoError(t, err)
	all := rec.got()
	require.Len(t, all, 2)
	require.Equal(t, []bool{true, true, false}, []bool{verified(t, first, all[0]), verified(t, second, all[0]), verified(t, third, all[0])})
	require.Equal(t, []bool{false, false, true}, []bool{verified(t, first, all[1]), verified(t, second, all[1]), verified(t, third, all[1])})
	require.Equal(t, []string{"deckhand.test", "deckhand.test"}, []string{all[0].event.Type, all[1].event.Type})
	// Sealed for this destination alone.
	other, _ := r.webhook("other", rec.URL)
	r.exec(`UPDATE destinations SET sealed = (SELECT sealed FROM destinations WHERE id = $1) WHERE id = $2`, d.ID, other.ID)
	sent, err := r.notify.Test(t.Context(), org, other.ID, person)
	require.NoError(t, err)
	row, err := r.notify.Notification(t.Context(), org, sent)
	require.NoError(t, err)
	require.Equal(t, "dead", row.Notification.State)
	require.Len(t, rec.got(), 2)
}

// Notifications are deleted after their retention; a task's events stay until they are
// sent.
func TestNotificationsArePruned(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, _ := r.webhook("hook", rec.URL)
	r.happen("task_one", "input_required", nil)
	r.settled(d.ID, "delivered", 1)
	require.NoError(t, r.notify.Prune(t.Context()))
	require.Len(t, r.notifications(d.ID), 1)
	r.exec(`UPDATE notifications SET handled_at = handled_at - interval '31 days'`)
	require.NoError(t, r.notify.Prune(t.Context()))
	require.Empty(t, r.notifications(d.ID))

	r.stop()
	r.exec(`UPDATE tasks SET state = 'cancelled', finished_at = clock_timestamp() - interval '2 hours'`)
	r.exec(`UPDATE destinations SET after_xid = '3'`)
	old, err := r.PrunableTasks(t.Context(), db.PrunableTasksParams{OlderThan: time.Hour, MaxRows: 10})
	require.NoError(t, err)
	require.Empty(t, old, "the destination has not heard of it")
	require.NoError(t, r.notify.Disable(t.Context(), org, d.ID, "", person))
	old, err = r.PrunableTasks(t.Context(), db.PrunableTasksParams{OlderThan: time.Hour, MaxRows: 10})
	require.NoError(t, err)
	require.Len(t, old, 1)
}

// After a restore into a newer server, whose transactions have lower ids than those of
// the events, nothing is sent twice, and nothing is left out.
func TestARestoredDatabaseTellsEachEventOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rec := newReceiver(t, nil)
	d, _ := r.webhook("hook", rec.URL)
	r.happen("task_one", "input_required", nil)
	r.settled(d.ID, "delivered", 1)
	r.stop()
	r.happen("task_one", "outcome_unknown", nil)
	r.exec(`UPDATE events SET xid = '99999999990'`)
	r.exec(`UPDATE event_heads SET xid = '99999999990'`)
	r.exec(`UPDATE destinations SET after_xid = '99999999990'`)
	again, err := store.Open(t.Context(), r.url)
	require.NoError(t, err)
	again.Close()
	r.service()
	r.happen("task_one", "approval_requested", nil)
	r.settled(d.ID, "delivered", 3)
	require.Equal(t, map[string]int{"input_required": 1, "outcome_unknown": 1, "approval_requested": 1}, rec.kinds())
}
