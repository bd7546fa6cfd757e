package hub_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// exec changes the database behind the hub's back.
func (r *rig) exec(sql string) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	defer conn.Close(context.WithoutCancel(r.t.Context()))
	_, err = conn.Exec(r.t.Context(), sql)
	require.NoError(r.t, err)
}

// Fifty running tasks; one order, and each is confirmed to run no more.
// Nothing of the scope starts before the hold is released.
func TestTheKillSwitchEndsFiftyTasks(t *testing.T) {
	t.Parallel()
	const tasks = 50
	var running atomic.Int32
	r := newRig(t, hubtest.Shared(t), func(ctx context.Context, _ *nodev1.ExecSpec) (string, *nodev1.Exec) {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
	})
	r.apply("many", strings.Replace(scripted("many"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	var wg sync.WaitGroup
	leases := make([]*deckhandv1.Lease, tasks)
	for i := range leases {
		task := r.submit("many")
		leases[i] = r.begin(task.GetId(), 1)
		r.turn(leases[i], 1)
		step, err := r.propose(leases[i], 1, 0, "shell_exec", `{"command":"sleep 1000"}`)
		require.NoError(t, err)
		wg.Go(func() { _, _ = r.execute(leases[i], step.GetId()) })
	}
	require.Eventually(t, func() bool { return running.Load() == tasks }, patience, 5*time.Millisecond)
	waiting := r.submit("many")

	begin := time.Now()
	killed := r.kill(deckhandv1.KillScope_KILL_SCOPE_AGENT, "many")
	t.Logf("%d tasks were confirmed to run no more %s after the order", tasks, time.Since(begin))
	require.Zero(t, running.Load(), "nothing runs")
	wg.Wait()
	require.Len(t, killed.GetTasks(), tasks+1)
	for _, k := range killed.GetTasks() {
		require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED, k.GetOutcome(), k)
	}
	for _, lease := range leases {
		task := r.task(lease.GetTaskId())
		require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, task.GetState())
		require.Equal(t, string(fault.Killed), task.GetErrorCode())
		_, err := r.propose(lease, 1, 1, "shell_exec", `{"command":"true"}`)
		require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	}
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(waiting.GetId()).GetState())

	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "many"})
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	require.ErrorContains(t, err, "held by admin")
	require.ErrorContains(t, err, "deckhand hold release "+killed.GetHold().GetId())
	r.finish(r.begin(r.submit("walker").GetId(), 1)) // others go on

	again := r.kill(deckhandv1.KillScope_KILL_SCOPE_AGENT, "many")
	require.Equal(t, killed.GetHold().GetId(), again.GetHold().GetId(), "killing twice makes one hold")
	require.Empty(t, again.GetTasks())
	for range 2 {
		_, err = r.user.Control.ReleaseHold(t.Context(), &deckhandv1.ReleaseHoldRequest{HoldId: killed.GetHold().GetId()})
		require.NoError(t, err)
	}
	r.finish(r.begin(r.submit("many").GetId(), 1))
	require.Len(t, r.audited("hold.made"), 1)
	require.Len(t, r.audited("hold.released"), 1)
	cancelled, err := r.user.Audit.ListAuditEntries(t.Context(), &deckhandv1.ListAuditEntriesRequest{
		Action: "task.cancelled", PageSize: 500,
	})
	require.NoError(t, err)
	require.Len(t, cancelled.GetEntries(), tasks+1)
}

// The kill comes between the hub's intent and the node's start: the command
// never runs.
func TestAKillThatOvertakesTheStart(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var ran atomic.Int32
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{
		Run: func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
			ran.Add(1)
			return "", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
		},
		Before: func(*nodev1.ExecSpec) { close(arrived); <-goOn },
	})
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"launch"}`)
	require.NoError(t, err)
	executed := make(chan error, 1)
	go func() { _, err := r.execute(lease, step.GetId()); executed <- err }()
	<-arrived
	killed := r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId())
	require.Nil(t, killed.GetHold())
	require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED, killed.GetTasks()[0].GetOutcome())
	close(goOn)
	<-executed
	require.Zero(t, ran.Load(), "it never ran")
}

// A node that cannot be reached stops by its offline grace, and the answer
// says by when; when it is back it is told, and only then is the workspace free.
func TestAKillOfANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	r.apply("walker", strings.Replace(scripted("walker"), "---\n", "---\noffline_grace: 30m\n", 1))
	task, _, _ := r.sleeping()
	<-started
	r.node.Stop()
	require.Eventually(t, func() bool { return !r.connected() }, patience, 10*time.Millisecond)

	res := r.kill(deckhandv1.KillScope_KILL_SCOPE_LINEAGE, task.GetId())
	require.Len(t, res.GetTasks(), 1)
	k := res.GetTasks()[0]
	require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY, k.GetOutcome())
	require.InDelta(t, 30, time.Until(k.GetStopsBy().AsTime()).Minutes(), 2, "the persona's")
	require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_STOPS_BY, r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId()).GetTasks()[0].GetOutcome(),
		"asked again, it is still open")

	require.NoError(t, r.node.Start(t.Context()))
	select {
	case <-killed:
	case <-time.After(patience):
		t.Fatal("the command goes on")
	}
	r.finish(r.begin(r.submit("walker").GetId(), 1))
	require.Equal(t, deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED, r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId()).GetTasks()[0].GetOutcome())
}

func (r *rig) connected() bool {
	r.t.Helper()
	res, err := r.user.Nodes.GetNode(r.t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
	require.NoError(r.t, err)
	return res.GetNode().GetStatus() == "connected"
}

// Nothing is admitted to a held node or organisation; what waits says why.
func TestHoldsOnANodeAndOnTheOrganisation(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	node := r.kill(deckhandv1.KillScope_KILL_SCOPE_NODE, "sim")
	task := r.submit("walker")
	require.Eventually(t, func() bool { return strings.Contains(r.task(task.GetId()).GetReason(), "is held by admin") }, patience, 10*time.Millisecond)
	require.Contains(t, r.task(task.GetId()).GetReason(), "hold release "+node.GetHold().GetId())
	org := r.kill(deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, "")
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_CANCELLED, r.task(task.GetId()).GetState())
	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker"})
	require.ErrorContains(t, err, "the whole organisation is held")
	list, err := r.user.Control.ListHolds(t.Context(), &deckhandv1.ListHoldsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetHolds(), 2)
	for _, h := range []*deckhandv1.Hold{node.GetHold(), org.GetHold()} {
		_, err := r.user.Control.ReleaseHold(t.Context(), &deckhandv1.ReleaseHoldRequest{HoldId: h.GetId()})
		require.NoError(t, err)
	}
	_, err = r.user.Control.Kill(t.Context(), &deckhandv1.KillRequest{Scope: deckhandv1.KillScope_KILL_SCOPE_TRIGGER, ObjectId: "none"})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	trigger := r.kill(deckhandv1.KillScope_KILL_SCOPE_TRIGGER, "manual")
	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker"})
	require.ErrorContains(t, err, "trigger manual is held")
	_, err = r.user.Control.ReleaseHold(t.Context(), &deckhandv1.ReleaseHoldRequest{HoldId: trigger.GetHold().GetId()})
	require.NoError(t, err)
	r.finish(r.begin(r.submit("walker").GetId(), 1))
}

// One's own tasks, or an administrator's word.
func TestWhoMayControl(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	s, err := store.Open(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	basic := r.Client(t, userToken(t, s, r.OrgID, "bea", "basic"))
	task := r.submit("walker")
	for what, call := range map[string]func() error{
		"pause": func() error {
			_, err := basic.Tasks.PauseTask(t.Context(), &deckhandv1.PauseTaskRequest{TaskId: task.GetId()})
			return err
		},
		"cancel": func() error {
			_, err := basic.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: task.GetId()})
			return err
		},
		"kill": func() error {
			_, err := basic.Control.Kill(t.Context(), &deckhandv1.KillRequest{Scope: deckhandv1.KillScope_KILL_SCOPE_TASK, ObjectId: task.GetId()})
			return err
		},
		"kill all": func() error {
			_, err := basic.Control.Kill(t.Context(), &deckhandv1.KillRequest{Scope: deckhandv1.KillScope_KILL_SCOPE_ORGANISATION})
			return err
		},
	} {
		err := call()
		require.True(t, fault.Is(err, fault.NotFound) || fault.Is(err, fault.Denied), "%s: %v", what, err)
	}
	res, err := basic.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker"})
	require.NoError(t, err)
	_, err = basic.Control.Kill(t.Context(), &deckhandv1.KillRequest{
		Scope: deckhandv1.KillScope_KILL_SCOPE_TASK, ObjectId: res.GetTask().GetId(),
	})
	require.NoError(t, err)
}

// The audit cannot be rewritten.
func TestTheAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.cancel(r.submit("walker").GetId())
	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{"UPDATE audit_entries SET reason = ''", "DELETE FROM audit_entries", "TRUNCATE audit_entries"} {
		_, err := conn.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "append-only", sql)
	}
	require.Len(t, r.audited("task.cancelled"), 1)
}
