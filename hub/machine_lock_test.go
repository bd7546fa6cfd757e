package hub_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// lockedBy has a task of an agent that works on machines lock the node, and returns its lease.
func (r *rig) lockedBy(agent string) *deckhandv1.Lease {
	r.t.Helper()
	task := r.submit(agent)
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	lock, err := r.propose(lease, 1, 0, "node_lock", lockSim)
	require.NoError(r.t, err)
	_, err = r.answer(approve(r.item(task.GetId()).GetId(), ""))
	require.NoError(r.t, err)
	lock, err = r.execute(lease, lock.GetId())
	require.NoError(r.t, err)
	require.Equal(r.t, stepSucceeded, lock.GetState(), lock.GetObservation())
	return lease
}

// What a person accepts while another agent's task has locked the node is made when the lock
// ends, each call once.
func TestAcceptedCallsWaitForTheLockOfTheirNode(t *testing.T) {
	t.Parallel()
	r, sent := newReview(t)
	r.apply("ops", onMachines("ops", "autonomous"))
	task, deferred, item := r.review()
	lease := r.lockedBy("ops")
	_, err := r.answer(accept(item.GetId()))
	require.NoError(t, err)
	// The lock was looked at.
	require.Never(t, func() bool { ids, _ := sent.all(); return len(ids) > 0 }, 2*time.Second, 50*time.Millisecond)
	require.Equal(t, stepDeferred, r.step(deferred[0].GetId()).GetState())
	require.Equal(t, taskReview, r.task(task.GetId()).GetState())
	r.finish(lease)
	r.awaitTask(task.GetId(), taskSucceeded)
	ids, _ := sent.all()
	require.Equal(t, []string{deferred[0].GetId(), deferred[1].GetId()}, ids)
}

// A call on a machine that was granted under a lock is not made once that lock has ended, however
// it ended: also not under another lock that the task has by then.
func TestNothingStartsOnAMachineAfterTheLockHasEnded(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	r.apply("ops", onMachines("ops", "autonomous"))
	call := func(lease *deckhandv1.Lease, turn int32) *deckhandv1.Step {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "host_exec", `{"command":"systemctl reload nginx"}`)
		require.NoError(t, err)
		require.Equal(t, stepGranted, step.GetState(), step.GetDecisionReason())
		return step
	}
	refused := func(lease *deckhandv1.Lease, step *deckhandv1.Step) {
		t.Helper()
		runs := r.node.Runs()
		step, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.NotContains(t, []deckhandv1.StepState{stepSucceeded, stepGranted}, step.GetState())
		require.Equal(t, string(fault.NodeLocked), step.GetErrorCode(), step.GetObservation())
		require.Contains(t, step.GetObservation(), "node_lock")
		require.Equal(t, runs, r.node.Runs(), "the node was asked for nothing")
	}
	lease := r.lockedBy("ops")
	step := call(lease, 2)
	_, err := r.user.Nodes.UnlockNode(t.Context(), &deckhandv1.UnlockNodeRequest{NodeId: "sim", Force: true})
	require.NoError(t, err)
	refused(lease, step)
	r.finish(lease)

	lease = r.lockedBy("ops")
	step = call(lease, 2)
	require.NotEmpty(t, r.sql("UPDATE node_locks SET expires_at = now() WHERE task_id = $1 RETURNING id", lease.GetTaskId()))
	refused(lease, step)
}

// The files that a step changed on a machine are in the list of the task's changes, with the
// machine. Their contents, and their undo, are for administrators, who the submitter may have
// been once; undoing the whole task leaves them.
func TestChangesOfAMachineAreForAdministrators(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: func(_ context.Context, l *nodetest.Live) *nodev1.Exec {
		asked.Add(1)
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, Workspace: &nodev1.WorkspaceChange{
			Id: l.Spec.GetExecId(), Files: 2, Changes: []*nodev1.FileChange{
				{Path: []byte("/etc/nginx/nginx.conf"), Kind: nodev1.ChangeKind_CHANGE_KIND_MODIFIED, Before: &nodev1.FileState{Type: "file"}, After: &nodev1.FileState{Type: "file"}},
				{Path: []byte("/etc/nginx/new.conf"), Kind: nodev1.ChangeKind_CHANGE_KIND_ADDED, After: &nodev1.FileState{Type: "file"}},
			},
		}}
	}})
	r.apply("ops", onMachines("ops", "autonomous"))
	dora := r.as("dora", "admin")
	submitted, err := dora.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "ops", Goal: "mend nginx"})
	require.NoError(t, err)
	task := submitted.GetTask().GetId()
	lease := r.begin(task, 1)
	r.turn(lease, 1)
	lock, err := r.propose(lease, 1, 0, "node_lock", lockSim)
	require.NoError(t, err)
	_, err = r.answer(approve(r.item(task).GetId(), ""))
	require.NoError(t, err)
	_, err = r.execute(lease, lock.GetId())
	require.NoError(t, err)
	r.turn(lease, 2)
	step, err := r.propose(lease, 2, 0, "host_exec", `{"command":"systemctl reload nginx"}`)
	require.NoError(t, err)
	step, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, step.GetState(), step.GetObservation())
	require.EqualValues(t, 1, asked.Load())
	require.NotEmpty(t, r.sql("SELECT id::text FROM audit_entries WHERE action = 'call.ended' AND object_id = $1 AND (after ->> 'duration_ms') IS NOT NULL AND after ->> 'state' = 'succeeded'", lock.GetId()),
		"the end of a call that a person approved is in the audit log")
	require.Equal(t, "0", r.sql("SELECT count(*)::text FROM audit_entries WHERE object_id = $1", step.GetId()), "that of an ordinary call is not")
	r.finish(lease)

	_, err = r.user.Users.UpdateUser(t.Context(), &deckhandv1.UpdateUserRequest{UserId: "dora", Role: "advanced"})
	require.NoError(t, err)
	list, err := dora.Workspaces.ListChanges(t.Context(), &deckhandv1.ListChangesRequest{TaskId: task})
	require.NoError(t, err)
	require.Len(t, list.GetSteps(), 1)
	require.Equal(t, "sim", list.GetSteps()[0].GetMachine())
	require.Equal(t, "/etc/nginx/new.conf", list.GetSteps()[0].GetChanges()[1].GetPath())

	stream, err := dora.Workspaces.DiffChanges(t.Context(), &deckhandv1.DiffChangesRequest{TaskId: task, Path: "/etc/nginx"})
	require.NoError(t, err)
	var seen []string
	for stream.Receive() {
		require.Empty(t, stream.Msg().GetUnified())
		require.Contains(t, stream.Msg().GetSummary(), "only administrators")
		require.Equal(t, "sim", stream.Msg().GetMachine())
		seen = append(seen, stream.Msg().GetChange().GetPath())
	}
	require.NoError(t, stream.Err())
	require.Equal(t, []string{"/etc/nginx/nginx.conf", "/etc/nginx/new.conf"}, seen)

	for _, preview := range []bool{true, false} {
		_, err = dora.Workspaces.UndoChanges(t.Context(), &deckhandv1.UndoChangesRequest{TaskId: task, StepIds: []string{step.GetId()}, Preview: preview})
		require.True(t, fault.Is(err, fault.Denied), "%v", err)
		require.ErrorContains(t, err, "only administrators undo that")
	}
	_, err = r.user.Workspaces.UndoChanges(t.Context(), &deckhandv1.UndoChangesRequest{TaskId: task})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "changed files of machines only")
	require.Equal(t, "0", r.sql("SELECT count(*)::text FROM undos WHERE task_id = $1", task))
}
