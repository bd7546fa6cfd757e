package hub_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What the hub has done and people have decided, no worker tells of.
func TestAWorkerTellsOfItsOwnOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	for _, kind := range []string{"approval_requested", "inbox_answered", "state_changed", "review_completed", "step_finished", "made_up"} {
		refuses(t, connect.CodePermissionDenied, r.workers.Workers.RecordEvents, &deckhandv1.RecordEventsRequest{
			Lease: lease, Events: []*deckhandv1.EventDraft{{Type: "thinking"}, {Type: kind}},
		})
		refuses(t, connect.CodePermissionDenied, r.workers.Workers.FinishTask, &deckhandv1.FinishTaskRequest{
			Lease: lease, State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Events: []*deckhandv1.EventDraft{{Type: kind}},
		})
	}
	r.finish(lease)
	for _, e := range r.events(task.GetId(), false) {
		if e.GetType() == "inbox_answered" || e.GetType() == "made_up" {
			require.Fail(t, "it was stored", e.GetType())
		}
	}
}

// A worker claims tasks of its own pool.
func TestAWorkerClaimsOfItsPoolOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	registered := do(t, r.workers.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "other", Pool: "dmz", Slots: 1})
	task := r.submit("walker")
	require.Eventually(t, func() bool { return r.sql("SELECT count(*)::text FROM tasks WHERE admitted_at IS NOT NULL") == "1" }, waittest.Limit(20*time.Second), 20*time.Millisecond)
	claim := &deckhandv1.ClaimTaskRequest{WorkerId: registered.GetWorkerId(), TaskId: task.GetId(), Attempt: 1}
	require.False(t, do(t, r.workers.Workers.ClaimTask, claim).GetClaimed())
	r.begin(task.GetId(), 1)
}

// A worker's token that names pools is good for no other: not to register for
// one, not to take a worker of it over, and not to claim with such a worker's id.
func TestAWorkersTokenIsHeldToItsPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	mine := do(t, r.workers.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "mine", Slots: 1}).GetWorkerId()
	task := r.submit("walker")
	require.Eventually(t, func() bool { return r.sql("SELECT count(*)::text FROM tasks WHERE admitted_at IS NOT NULL") == "1" }, waittest.Limit(20*time.Second), 20*time.Millisecond)
	made := do(t, r.Client(t, r.AdminToken).Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "dmz", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER, Pools: []string{"dmz"}})
	require.Equal(t, []string{"dmz"}, made.GetToken().GetPools())
	held := r.Client(t, made.GetSecret())
	refuses(t, connect.CodePermissionDenied, held.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "x", Slots: 1})
	refuses(t, connect.CodeNotFound, held.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "x", Pool: "dmz", Slots: 1, WorkerId: mine})
	registered := do(t, held.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "x", Pool: "dmz", Slots: 1})
	require.Equal(t, registered.GetWorkerId(), do(t, held.Workers.RegisterWorker, &deckhandv1.RegisterWorkerRequest{Name: "x", Pool: "dmz", Slots: 1, WorkerId: registered.GetWorkerId()}).GetWorkerId())
	claim := &deckhandv1.ClaimTaskRequest{WorkerId: mine, TaskId: task.GetId(), Attempt: 1}
	require.False(t, do(t, held.Workers.ClaimTask, claim).GetClaimed())
	require.True(t, do(t, r.workers.Workers.ClaimTask, claim).GetClaimed())
	refuses(t, connect.CodeInvalidArgument, r.Client(t, r.AdminToken).Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "user", Pools: []string{"dmz"}})
}
