package exec_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func (n *node) freeze(id, holder string) *nodev1.Jail {
	n.tb.Helper()
	out, err := n.jail.FreezeJail(n.tb.Context(), &nodev1.FreezeJailRequest{JailId: id, Holder: holder})
	require.NoError(n.tb, err)
	return out.GetJail()
}

func (n *node) thaw(id, holder string) *nodev1.Jail {
	n.tb.Helper()
	out, err := n.jail.ThawJail(n.tb.Context(), &nodev1.ThawJailRequest{JailId: id, Holder: holder})
	require.NoError(n.tb, err)
	return out.GetJail()
}

func (n *node) logBytes(id string) int64 {
	n.tb.Helper()
	return n.get(id).GetLogBytes()
}

func (n *node) get(id string) *nodev1.Exec {
	n.tb.Helper()
	out, err := n.api.GetExec(n.tb.Context(), &nodev1.GetExecRequest{ExecId: id})
	require.NoError(n.tb, err)
	return out.GetExec()
}

// stands makes sure that a command writes nothing for a while.
func (n *node) stands(id string) {
	n.tb.Helper()
	at := n.logBytes(id)
	// Init copies what the command wrote before it was frozen.
	require.Eventually(n.tb, func() bool {
		before := at
		at = n.logBytes(id)
		return at == before
	}, waittest.Limit(10*time.Second), 100*time.Millisecond, "it goes on")
	out, err := n.api.WaitExec(n.tb.Context(), &nodev1.WaitExecRequest{ExecId: id, Timeout: durationpb.New(300 * time.Millisecond)})
	require.NoError(n.tb, err)
	require.Equal(n.tb, nodev1.ExecState_EXEC_STATE_RUNNING, out.GetExec().GetState())
	require.Equal(n.tb, at, n.logBytes(id), "it goes on")
}

// goesOn waits until a command has written more.
func (n *node) goesOn(id string) {
	n.tb.Helper()
	at := n.logBytes(id)
	require.Eventually(n.tb, func() bool { return n.logBytes(id) > at }, waittest.Limit(30*time.Second), 5*time.Millisecond, "it stands")
}

const counting = `echo begun; while :; do echo .; sleep 0.01; done`

// A jail is frozen for as long as anybody holds it, whatever becomes of the
// daemon, and its init answers in the meantime.
func TestAJailIsFrozenAsLongAsAnybodyHoldsIt(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	count := shell(id, "(setsid sh -c '"+counting+"' &); sleep 5555")
	n.startExec(count)
	n.until(count.GetExecId(), "begun")

	require.Equal(t, []string{"step_b"}, n.freeze(id, "step_b").GetFrozenBy())
	n.stands(count.GetExecId())
	require.Equal(t, []string{"step_a", "step_b"}, n.freeze(id, "step_a").GetFrozenBy())
	require.Equal(t, []string{"step_a", "step_b"}, n.freeze(id, "step_a").GetFrozenBy(), "once is enough")
	late := shell(id, "echo late")
	_, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: late})
	requireFault(t, err, fault.Precondition, "frozen by step_a, step_b")
	require.Equal(t, []string{"step_a"}, n.thaw(id, "step_b").GetFrozenBy())
	require.Equal(t, []string{"step_a"}, n.thaw(id, "step_c").GetFrozenBy(), "who holds nothing changes nothing")
	n.stands(count.GetExecId())

	n.stop()
	n.start()
	n.stands(count.GetExecId())
	require.Empty(t, n.thaw(id, "step_a").GetFrozenBy())
	n.goesOn(count.GetExecId())
	require.Empty(t, n.thaw(id, "step_a").GetFrozenBy(), "and of one that is not frozen nothing as well")
	require.Zero(t, n.wait(n.startExec(late).GetExecId()).GetExitCode(), "the refused id was not spent")

	// Once more, with what was held before and what is new.
	n.freeze(id, "step_d")
	n.stands(count.GetExecId())
	n.thaw(id, "step_d")
	n.goesOn(count.GetExecId())
	_, err = n.jail.FreezeJail(t.Context(), &nodev1.FreezeJailRequest{JailId: id})
	requireFault(t, err, fault.Invalid, "holder")
	_, err = n.jail.FreezeJail(t.Context(), &nodev1.FreezeJailRequest{JailId: "nowhere", Holder: "x"})
	requireFault(t, err, fault.NotFound, "nowhere")
	_, err = n.jail.ThawJail(t.Context(), &nodev1.ThawJailRequest{JailId: "nowhere", Holder: "x"})
	require.NoError(t, err)
}

// Neither time-out nor offline grace run while a command can do nothing.
func TestFrozenTimeCountsForNoTimeOut(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	const script = "echo begun; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"
	timed, cut := shell(id, script), shell(id, script)
	timed.Timeout = durationpb.New(8 * time.Second)
	cut.OfflineGrace = durationpb.New(8 * time.Second)
	n.startExec(timed)
	n.startExec(cut)
	n.until(cut.GetExecId(), "begun")
	n.freeze(id, "step_a")
	over, err := n.api.WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: timed.GetExecId(), Timeout: durationpb.New(10 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, over.GetExec().GetState())
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, n.get(cut.GetExecId()).GetState())
	n.thaw(id, "step_a")
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, n.wait(timed.GetExecId()).GetEndReason())
	end := n.wait(cut.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, end.GetEndReason(), "%v", end)

	short := shell(id, "echo begun; while :; do sleep 0.1; done")
	short.Timeout = durationpb.New(3 * time.Second)
	n.startExec(short)
	n.until(short.GetExecId(), "begun")
	began := time.Now()
	n.freeze(id, "step_a")
	n.stands(short.GetExecId())
	n.thaw(id, "step_a")
	require.Equal(t, nodev1.EndReason_END_REASON_TIMED_OUT, n.wait(short.GetExecId()).GetEndReason(), "then it runs again")
	require.Greater(t, time.Since(began), 2*time.Second)
}

// What is frozen can be killed, one by one, whole and with the jail; the rest
// stays frozen.
func TestAFrozenJailCanBeKilled(t *testing.T) {
	jailtest.Differs(t, jail.DifferHostView)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	one, two := shell(id, "echo begun; (setsid sleep 4444 &); sleep 4444"), shell(id, counting)
	n.startExec(one)
	n.startExec(two)
	n.until(one.GetExecId(), "begun")
	n.until(two.GetExecId(), "begun")
	n.freeze(id, "step_a")

	out, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: one.GetExecId(), By: "alice"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetExec().GetEndReason())
	require.Equal(t, "alice", out.GetExec().GetKilledBy())
	require.Zero(t, out.GetExec().GetMembersLeft())
	require.Zero(t, n.processes(id, "sleep 4444"))
	n.stands(two.GetExecId())

	killed, err := n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: id, By: "bob"})
	require.NoError(t, err)
	require.Zero(t, killed.GetMembersLeft())
	require.Equal(t, []string{two.GetExecId()}, killed.GetExecIds())
	end := n.get(two.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, end.GetEndReason(), "%v", end)
	require.Equal(t, "bob", end.GetKilledBy())
	_, err = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: shell(id, "echo no")})
	requireFault(t, err, fault.Precondition, "frozen by step_a")
	n.thaw(id, "step_a")
	_, text := n.sh(id, "echo again")
	require.Equal(t, "again\n", text)

	last := shell(id, counting)
	n.startExec(last)
	n.until(last.GetExecId(), "begun")
	n.freeze(id, "step_b")
	stopped, err := n.jail.StopJail(t.Context(), &nodev1.StopJailRequest{JailId: id})
	require.NoError(t, err)
	require.Empty(t, stopped.GetJail().GetFrozenBy())
	require.Equal(t, "the jail was stopped", n.wait(last.GetExecId()).GetKilledBy())
	still, err := n.jail.FreezeJail(t.Context(), &nodev1.FreezeJailRequest{JailId: id, Holder: "step_b"})
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, still.GetJail().GetState(), "nothing to hold")
}

// One order ends everything in a jail, while it forks as fast as it can.
func TestKillingAJailLeavesNothingButItsInit(t *testing.T) {
	jailtest.Differs(t, jail.DifferHostView)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	var ids []string
	for _, script := range []string{
		`echo begun; while :; do (sleep 0.02 & sleep 0.01 &); done`,
		`echo begun; (setsid sh -c 'sleep 4321' &); sleep 4321`,
		`echo begun; trap '' TERM; while :; do sleep 1; done`,
	} {
		spec := shell(id, script)
		n.startExec(spec)
		n.until(spec.GetExecId(), "begun")
		ids = append(ids, spec.GetExecId())
	}
	killed, err := n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: id, By: "the operator"})
	require.NoError(t, err)
	require.Zero(t, killed.GetMembersLeft())
	require.ElementsMatch(t, ids, killed.GetExecIds())
	left, err := n.jails.Processes(t.Context(), id)
	require.NoError(t, err)
	require.NotEmpty(t, left)
	for _, pid := range left {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		require.NoError(t, err)
		require.Contains(t, string(line), "deckhand-init", "init alone, with the stubs that wait in its memory")
	}
	for _, exec := range ids {
		end := n.get(exec)
		require.Equal(t, nodev1.EndReason_END_REASON_KILLED, end.GetEndReason())
		require.Equal(t, "the operator", end.GetKilledBy())
		require.Zero(t, end.GetMembersLeft())
	}
	_, text := n.sh(id, "echo again")
	require.Equal(t, "again\n", text, "the jail itself goes on")
	killed, err = n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: id})
	require.NoError(t, err)
	require.Empty(t, killed.GetExecIds())
	killed, err = n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: "nowhere"})
	require.NoError(t, err, "nothing is left there either")
	require.Zero(t, killed.GetMembersLeft())
}

// An order to kill that overtakes the order to start wins, also over a
// restart of the daemon.
func TestAnExecThatWasKilledBeforeItStartedNeverStarts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "touch /workspace/ran")
	out, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "alice"})
	require.NoError(t, err)
	n.stop()
	n.start()
	started, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
	require.NoError(t, err)
	require.True(t, started.GetExisted())
	for _, end := range []*nodev1.Exec{out.GetExec(), started.GetExec(), n.wait(spec.GetExecId()), n.get(spec.GetExecId())} {
		require.Equal(t, nodev1.ExecState_EXEC_STATE_ENDED, end.GetState())
		require.Equal(t, nodev1.EndReason_END_REASON_KILLED, end.GetEndReason())
		require.Equal(t, "alice", end.GetKilledBy())
		require.Equal(t, "killed before it started", end.GetStartError())
		require.Nil(t, end.GetStartedAt())
		require.Zero(t, end.GetMembersLeft())
	}
	again, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "bob"})
	require.NoError(t, err)
	require.Equal(t, "alice", again.GetExec().GetKilledBy(), "the first one was it")
	require.Empty(t, n.log(spec.GetExecId(), false)[0])
	_, text := n.sh(id, "ls /workspace")
	require.NotContains(t, text, "ran")
	_, err = n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: "No Id", By: "x"})
	requireFault(t, err, fault.NotFound, "No Id")
}
