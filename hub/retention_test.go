package hub_test

import (
	"context"
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

	service := retention.New(retention.Config{Store: s, Log: hclog.NewNullLogger(), Recorder: event.NewRecorder(event.RecorderConfig{
		Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})})
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
