package hub_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/maintenance/retention"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What old tasks have left is deleted by the rules of their organisation; a legal hold keeps
// everything of its task, and the task, its result and the audit stay.
func TestWhatOldTasksLeftIsDeletedByTheRules(t *testing.T) {
	t.Parallel()
	collecting.Lock()
	defer collecting.Unlock()
	r := newRig(t, hubtest.Shared(t), output("done\n"))
	ends := func() string {
		id := r.submit("walker").GetId()
		lease := r.begin(id, 1)
		r.turn(lease, 1)
		step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo done"}`)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		r.finish(lease)
		return id
	}
	old, held, fresh := ends(), ends(), ends()
	s := openStore(t, r.Hub)
	for _, id := range []string{old, held} {
		r.exec("UPDATE tasks SET finished_at = finished_at - interval '40 days' WHERE id = '" + id + "'")
	}
	set := func(days map[string]int32) error {
		_, err := r.user.Retention.SetRetention(t.Context(), &deckhandv1.SetRetentionRequest{Days: days})
		return fault.FromConnect(err)
	}
	require.ErrorContains(t, set(map[string]int32{"audit": 3}), "no kind \"audit\"")
	require.NoError(t, set(map[string]int32{"turns": 30, "steps": 30, "events": 30, "inbox": 30, "model_calls": 30, "inputs": 30, "artifacts": 30}))
	hold := func(released bool, reason string) error {
		_, err := r.user.Retention.SetLegalHold(t.Context(), &deckhandv1.SetLegalHoldRequest{TaskId: held, Reason: reason, Released: released})
		return fault.FromConnect(err)
	}
	require.ErrorContains(t, hold(false, " "), "reason")
	require.NoError(t, hold(false, "case 114"))

	rule := func(kind string) *deckhandv1.RetentionRule {
		res, err := r.user.Retention.GetRetention(t.Context(), &deckhandv1.GetRetentionRequest{Plan: true})
		require.NoError(t, err)
		for _, rule := range res.GetRules() {
			if rule.GetKind() == kind {
				return rule
			}
		}
		return nil
	}
	require.EqualValues(t, 1, rule("turns").GetDueTasks(), "the plan counts and deletes nothing")
	require.EqualValues(t, 1, rule("turns").GetHeldTasks())
	require.EqualValues(t, 1, rule("turns").GetDueRows())

	service := collector(s)
	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	left := func(id string) (turns, steps, events int) {
		res, err := r.user.Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: id})
		require.NoError(t, err)
		require.Len(t, res.GetSteps(), 1, "that it ran stays on record")
		require.Equal(t, "shell_exec", res.GetSteps()[0].GetTool())
		if res.GetSteps()[0].GetObservation() != "" {
			steps = 1
		}
		var rows int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM turns WHERE task_id = $1", id).Scan(&rows))
		found, err := r.user.Events.ListEvents(t.Context(), &deckhandv1.ListEventsRequest{TaskId: id})
		require.NoError(t, err)
		return rows, steps, len(found.GetEvents())
	}
	for range 2 { // the second time changes nothing
		require.NoError(t, service.Collect(t.Context()))
		turns, steps, events := left(old)
		require.Zero(t, turns+steps+events)
		for _, id := range []string{held, fresh} {
			turns, steps, events := left(id)
			require.Equal(t, 1, turns)
			require.Equal(t, 1, steps)
			require.Positive(t, events)
		}
	}
	require.EqualValues(t, 1, rule("turns").GetDeleted())
	// What is left empty is no sealed value: a rotation of the keys does not stop there.
	for _, column := range store.SealedColumns {
		if column.Table != "steps" {
			continue
		}
		sealed, err := s.SealedOtherwise(t.Context(), column, []byte("other"), 0, 1000)
		require.NoError(t, err)
		for _, v := range sealed {
			require.NotEmpty(t, v.Value, column.Name)
		}
	}
	var entries int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM search_entries WHERE task_id = $1 AND kind IN ('call', 'output')", old).Scan(&entries))
	require.Zero(t, entries, "the search does not find it either")
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, r.task(old).GetState())

	_, err = r.user.Retention.SetLegalHold(t.Context(), &deckhandv1.SetLegalHoldRequest{TaskId: fresh, Reason: "case 115"})
	require.NoError(t, err)
	holds, err := r.user.Retention.ListLegalHolds(t.Context(), &deckhandv1.ListLegalHoldsRequest{PageSize: 1})
	require.NoError(t, err)
	require.Len(t, holds.GetHolds(), 1)
	require.Equal(t, "case 115", holds.GetHolds()[0].GetReason(), "the newest first")
	holds, err = r.user.Retention.ListLegalHolds(t.Context(), &deckhandv1.ListLegalHoldsRequest{PageSize: 1, PageToken: holds.GetNextPageToken()})
	require.NoError(t, err)
	require.Equal(t, "case 114", holds.GetHolds()[0].GetReason())
	require.Empty(t, holds.GetNextPageToken())
	require.NoError(t, hold(true, ""))
	require.NoError(t, service.Collect(t.Context()))
	turns, _, _ := left(held)
	require.Zero(t, turns, "released, it goes as well")
}

// collecting lets one of the tests that share a hub collect at a time: a collection deletes what is
// old of all organisations.
var collecting sync.Mutex

// collector returns the part of a hub that deletes what is old.
func collector(s *store.Store) *retention.Service {
	return retention.New(retention.Config{Store: s, Log: hclog.NewNullLogger(), Recorder: event.NewRecorder(event.RecorderConfig{
		Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})})
}

// A legal hold that is set while old tasks are collected keeps all that is there when the
// person gets the response.
func TestALegalHoldDuringACollectionKeepsWhatIsLeft(t *testing.T) {
	t.Parallel()
	collecting.Lock()
	defer collecting.Unlock()
	r := newRig(t, hubtest.Shared(t), output("done\n"))
	s := openStore(t, r.Hub)
	_, err := r.user.Retention.SetRetention(t.Context(), &deckhandv1.SetRetentionRequest{Days: map[string]int32{"turns": 30, "steps": 30, "events": 30}})
	require.NoError(t, err)
	kept := func(id string) string {
		return r.sql("SELECT (SELECT count(*) FROM turns WHERE task_id = '" + id + "') || ' turns, ' || (SELECT count(*) FROM steps WHERE task_id = '" + id +
			"' AND length(arguments_sealed) > 0) || ' steps, ' || (SELECT count(*) FROM events WHERE task_id = '" + id + "') || ' events'")
	}
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = r.submit("walker").GetId()
		lease := r.begin(ids[i], 1)
		r.turn(lease, 1)
		step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo done"}`)
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		r.finish(lease)
	}
	r.exec("UPDATE tasks SET finished_at = finished_at - interval '40 days' WHERE id IN ('" + strings.Join(ids, "', '") + "')")
	done := make(chan error, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range cap(done) { // as two hubs of which one believes that it still leads
		go func() {
			service := collector(s)
			for ctx.Err() == nil {
				if err := service.Collect(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	// Each holds while the kinds of its data are collected in turn.
	left := map[string]string{}
	for _, id := range ids {
		_, err := r.user.Retention.SetLegalHold(t.Context(), &deckhandv1.SetLegalHoldRequest{TaskId: id, Reason: "case 116"})
		require.NoError(t, err)
		left[id] = kept(id)
	}
	stop()
	for range cap(done) {
		require.NoError(t, <-done)
	}
	require.NoError(t, collector(s).Collect(t.Context()))
	for id, was := range left {
		require.Equal(t, was, kept(id))
	}
}
