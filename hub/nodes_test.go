package hub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// settled gives an agent its workspace on the node: its first run does.
func (r *rig) settled(agent string) {
	r.t.Helper()
	r.finish(r.begin(r.submit(agent).GetId(), 1))
}

// as returns a client with a role of the rig's own organisation.
func (r *rig) as(name, role string) *sdk.Client {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	r.t.Cleanup(s.Close)
	nodes, err := s.NodeByID(r.t.Context(), r.node.ID())
	require.NoError(r.t, err)
	return r.Client(r.t, userToken(r.t, s, nodes.OrgID, name, role))
}

func onJail(agent string, argv ...string) *deckhandv1.StartNodeExecRequest {
	return &deckhandv1.StartNodeExecRequest{NodeId: "sim", Target: &deckhandv1.StartNodeExecRequest_AgentId{AgentId: agent}, Argv: argv}
}

func onHost(argv ...string) *deckhandv1.StartNodeExecRequest {
	return &deckhandv1.StartNodeExecRequest{NodeId: "sim", Target: &deckhandv1.StartNodeExecRequest_Host{Host: true}, Argv: argv}
}

func startExec(t *testing.T, c *sdk.Client, req *deckhandv1.StartNodeExecRequest) (*deckhandv1.NodeExec, error) {
	t.Helper()
	res, err := c.NodeExecs.StartNodeExec(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return res.GetExec(), nil
}

func ended(t *testing.T, c *sdk.Client, id string) *deckhandv1.NodeExec {
	t.Helper()
	res, err := c.NodeExecs.GetNodeExec(t.Context(), &deckhandv1.GetNodeExecRequest{ExecId: id, Wait: durationpb.New(20 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED, res.GetExec().GetState())
	return res.GetExec()
}

// nodeLog returns a log by stream.
func nodeLog(t *testing.T, c *sdk.Client, req *deckhandv1.ReadNodeLogRequest) (map[string]string, error) {
	t.Helper()
	stream, err := c.NodeExecs.ReadNodeLog(t.Context(), req)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	out := map[string]string{}
	for stream.Receive() {
		out[stream.Msg().GetStream()] += string(stream.Msg().GetData())
	}
	return out, fault.FromConnect(stream.Err())
}

// talker writes to both streams and ends with 3, or runs until it is killed.
func talker(ctx context.Context, l *nodetest.Live) *nodev1.Exec {
	if l.Spec.GetArgv()[0] == "sleep" {
		<-ctx.Done()
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
	}
	l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, "out of "+l.Spec.GetJailId()+"\n")
	l.Write(nodev1.LogStream_LOG_STREAM_STDERR, "err\x00\xff\n")
	return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, ExitCode: 3}
}

// The figures of a node begin with those that it kept.
func TestTheFiguresOfANodeGoBack(t *testing.T) {
	t.Parallel()
	sample := func(second, millis int64) *nodev1.TelemetrySample {
		return &nodev1.TelemetrySample{Time: &timestamppb.Timestamp{Seconds: second}, Host: &nodev1.Usage{CpuMillis: &millis}, Jails: []*nodev1.Usage{{JailId: "agent-unknown"}}}
	}
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{
		Telemetry: func() *nodev1.TelemetrySample { return sample(100, 9) }, Kept: []*nodev1.TelemetrySample{sample(70, 1), sample(85, 2)},
	})
	watch := func(client *sdk.Client, history bool) (out []int64) {
		stream, err := client.Telemetry.WatchNodeTelemetry(t.Context(), &deckhandv1.WatchNodeTelemetryRequest{NodeId: "sim", History: history})
		require.NoError(t, err)
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			out = append(out, stream.Msg().GetTime().GetSeconds(), stream.Msg().GetHost().GetCpuMillis())
			require.Equal(t, client == r.user, len(stream.Msg().GetJails()) == 1, "a jail that the caller does not see is left out, then as now")
		}
		require.NoError(t, stream.Err())
		return out
	}
	require.Equal(t, []int64{100, 9}, watch(r.user, false))
	require.Equal(t, []int64{70, 1, 85, 2, 100, 9}, watch(r.user, true))
	require.Equal(t, []int64{70, 1, 85, 2, 100, 9}, watch(r.as("vera", "viewer"), true))
}

// A person's command is recorded with its secrets masked, runs in the
// agent's jail, and its streams come back apart.
func TestAPersonsCommandRunsInAnAgentsJail(t *testing.T) {
	t.Parallel()
	const canary = "sk-ant-api03-CANARYCANARYCANARY"
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	_, err := startExec(t, r.user, onJail("walker", "true"))
	require.True(t, fault.Is(err, fault.Precondition), "an agent that never ran has no workspace: %v", err)
	task := r.submit("walker")
	r.finish(r.begin(task.GetId(), 1))

	exec, err := startExec(t, r.user, onJail("walker", "echo", canary))
	require.NoError(t, err)
	require.Equal(t, deckhandv1.NodeExecTarget_NODE_EXEC_TARGET_JAIL, exec.GetTarget())
	log, err := nodeLog(t, r.user, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()[:14], NodeId: "sim", Follow: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"stdout": "out of " + exec.GetJailId() + "\n", "stderr": "err\x00\xff\n"}, log)
	end := ended(t, r.user, exec.GetId())
	require.Equal(t, "exited", end.GetEndReason())
	require.EqualValues(t, 3, end.GetExitCode())
	require.NotContains(t, end.String(), canary)
	require.Equal(t, "admin", end.GetCreatedBy())

	found, err := r.user.NodeExecs.SearchNodeLog(t.Context(), &deckhandv1.SearchNodeLogRequest{ExecId: exec.GetId(), Pattern: "out of"})
	require.NoError(t, err)
	require.Len(t, found.GetMatches(), 1)
	index, err := r.user.NodeExecs.IndexNodeLog(t.Context(), &deckhandv1.IndexNodeLogRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	require.EqualValues(t, 2, index.GetLines())
	require.True(t, index.GetComplete() && index.GetEnded())

	ofTask, err := startExec(t, r.user, &deckhandv1.StartNodeExecRequest{
		NodeId: "sim", Target: &deckhandv1.StartNodeExecRequest_TaskId{TaskId: task.GetId()}, Argv: []string{"true"},
	})
	require.NoError(t, err)
	require.Equal(t, exec.GetJailId(), ofTask.GetJailId(), "the task works in its agent's jail")
	list, err := r.user.NodeExecs.ListNodeExecs(t.Context(), &deckhandv1.ListNodeExecsRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.Len(t, list.GetExecs(), 2, "what was refused before it was stored is not there")

	for what, bad := range map[string]*deckhandv1.StartNodeExecRequest{
		"an unknown agent": onJail("nobody", "true"),
		"an unknown node":  {NodeId: "nowhere", Target: onHost().GetTarget(), Argv: []string{"true"}},
	} {
		_, err = startExec(t, r.user, bad)
		require.True(t, fault.Is(err, fault.NotFound), "%s: %v", what, err)
	}
	for what, bad := range map[string]*deckhandv1.StartNodeExecRequest{
		"no command":  onJail("walker"),
		"a NUL":       onJail("walker", "a\x00b"),
		"no target":   {NodeId: "sim", Argv: []string{"true"}},
		"host: false": {NodeId: "sim", Argv: []string{"true"}, Target: &deckhandv1.StartNodeExecRequest_Host{}},
	} {
		_, err = startExec(t, r.user, bad)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", what, err)
	}
}

// A command ends with its whole tree when it is killed, and the record says by
// whom.
func TestAPersonsCommandIsKilled(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	r.settled("walker")
	exec, err := startExec(t, r.user, onJail("walker", "sleep", "1000"))
	require.NoError(t, err)
	require.Equal(t, deckhandv1.NodeExecState_NODE_EXEC_STATE_RUNNING, exec.GetState())
	killed, err := r.user.NodeExecs.KillNodeExec(t.Context(), &deckhandv1.KillNodeExecRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	require.Equal(t, "killed", killed.GetExec().GetEndReason())
	require.Equal(t, "admin", killed.GetExec().GetKilledBy())
	again, err := r.user.NodeExecs.KillNodeExec(t.Context(), &deckhandv1.KillNodeExecRequest{ExecId: exec.GetId()})
	require.NoError(t, err, "killing twice is harmless")
	require.Equal(t, "killed", again.GetExec().GetEndReason())
}

// The machine itself is for administrators, one at a time, and while
// somebody holds it no task starts there.
func TestTheMachineItselfIsHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	alice, bob, carl := r.as("alice", "admin"), r.as("bob", "admin"), r.as("carl", "advanced")

	_, err := startExec(t, carl, onHost("true"))
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = carl.Nodes.LockNode(t.Context(), &deckhandv1.LockNodeRequest{NodeId: "sim", Reason: "x"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)

	exec, err := startExec(t, alice, onHost("sleep", "1000"))
	require.NoError(t, err)
	_, err = startExec(t, bob, onHost("true"))
	require.Equal(t, fault.NodeLocked, fault.As(err).Code)
	require.ErrorContains(t, err, "node sim is locked by alice: runs sleep 1000")
	_, err = startExec(t, alice, onHost("true"))
	require.Equal(t, fault.NodeLocked, fault.As(err).Code, "not even beside oneself")

	task := r.submit("walker")
	reason := "node sim is locked by alice: runs sleep 1000"
	require.Eventually(t, func() bool { return r.task(task.GetId()).GetReason() == reason }, waittest.Limit(10*time.Second), 10*time.Millisecond)
	_, err = nodeLog(t, carl, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()})
	require.True(t, fault.Is(err, fault.NotFound), "what ran on the machine is for administrators: %v", err)
	_, err = carl.NodeExecs.KillNodeExec(t.Context(), &deckhandv1.KillNodeExecRequest{ExecId: exec.GetId()})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)

	_, err = bob.NodeExecs.KillNodeExec(t.Context(), &deckhandv1.KillNodeExecRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	r.finish(r.begin(task.GetId(), 1))

	locks, err := carl.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{NodeId: "sim", Released: true})
	require.NoError(t, err)
	require.Len(t, locks.GetLocks(), 1)
	require.Equal(t, exec.GetId(), locks.GetLocks()[0].GetExecId())
	require.NotNil(t, locks.GetLocks()[0].GetReleasedAt())
}

// A lock that a person took stays over their commands, and only they
// release it, or force.
func TestALockOutlastsItsHoldersCommands(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	alice, bob := r.as("alice", "admin"), r.as("bob", "admin")
	lock := func(c *sdk.Client) error {
		_, err := c.Nodes.LockNode(t.Context(), &deckhandv1.LockNodeRequest{NodeId: "sim", Reason: "kernel update"})
		return err
	}
	unlock := func(c *sdk.Client, force bool) (*deckhandv1.Node, error) {
		res, err := c.Nodes.UnlockNode(t.Context(), &deckhandv1.UnlockNodeRequest{NodeId: "sim", Force: force})
		if err != nil {
			return nil, err
		}
		return res.GetNode(), nil
	}
	require.NoError(t, lock(alice))
	require.NoError(t, lock(alice), "repeating it is harmless")
	require.Equal(t, fault.NodeLocked, fault.As(lock(bob)).Code)
	exec, err := startExec(t, alice, onHost("true"))
	require.NoError(t, err)
	require.Equal(t, "out of host\n", must(nodeLog(t, alice, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId(), Follow: true}))["stdout"])
	ended(t, alice, exec.GetId())

	node, err := bob.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.Equal(t, "alice", node.GetNode().GetLock().GetBy())
	_, err = unlock(bob, false)
	require.Equal(t, fault.NodeLocked, fault.As(err).Code)
	free, err := unlock(bob, true)
	require.NoError(t, err)
	require.Nil(t, free.GetLock())
	_, err = unlock(bob, false)
	require.NoError(t, err, "no lock is no error")
	locks, err := bob.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{Released: true})
	require.NoError(t, err)
	require.Equal(t, "bob", locks.GetLocks()[0].GetReleasedBy())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A drained node starts no task, and those that wait say why.
func TestADrainedNodeStartsNoTask(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	lease := r.begin(r.submit("walker").GetId(), 1)
	res, err := r.user.Nodes.DrainNode(t.Context(), &deckhandv1.DrainNodeRequest{NodeId: "sim", Reason: "new disk"})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.GetActiveTasks())
	require.Equal(t, "new disk", res.GetNode().GetDrain().GetReason())
	require.True(t, r.node.Drain().GetDraining(), "the node knows")
	require.Equal(t, "new disk", r.node.Drain().GetReason())
	active := func() int32 {
		node, err := r.user.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
		require.NoError(t, err)
		return node.GetActiveTasks()
	}
	require.EqualValues(t, 1, active())
	r.finish(lease)
	require.Zero(t, active())
	r.apply("other", scripted("other"))
	for _, agent := range []string{"walker", "other"} { // with a home there, and without
		task := r.submit(agent)
		require.Eventually(t, func() bool { return r.task(task.GetId()).GetReason() == "node sim is drained by admin: new disk" },
			10*time.Second, 10*time.Millisecond)
		defer r.begin(task.GetId(), 1)
	}
	undrained, err := r.user.Nodes.UndrainNode(t.Context(), &deckhandv1.UndrainNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.Nil(t, undrained.GetNode().GetDrain())
	require.False(t, r.node.Drain().GetDraining())
}

// What was admitted to a node and is not claimed yet goes back to the
// queue when the node is drained or locked, says why it waits, and starts on
// another node that is there.
func TestADrainedNodeGivesBackWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("other", scripted("other"))
	task := r.submit("other").GetId()
	claim := func() bool {
		res, err := r.workers.Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{WorkerId: r.worker, TaskId: task, Attempt: 1})
		require.NoError(t, err)
		return res.GetClaimed()
	}
	r.waitsFor(task, "admitted")
	_, err := r.user.Nodes.DrainNode(t.Context(), &deckhandv1.DrainNodeRequest{NodeId: "sim", Reason: "new disk"})
	require.NoError(t, err)
	require.Equal(t, "node sim is drained by admin: new disk", r.task(task).GetReason(), "in the order's own transaction")
	require.False(t, claim(), "no worker gets it")
	_, err = r.user.Nodes.UndrainNode(t.Context(), &deckhandv1.UndrainNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	r.waitsFor(task, "admitted")
	node, err := r.user.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.EqualValues(t, 1, node.GetActiveTasks(), "it is about to start there")
	_, err = r.user.Nodes.LockNode(t.Context(), &deckhandv1.LockNodeRequest{NodeId: "sim", Reason: "upgrade"})
	require.NoError(t, err)
	require.Equal(t, "node sim is locked by admin: upgrade", r.task(task).GetReason())
	require.False(t, claim())
	_, err = r.user.Nodes.UnlockNode(t.Context(), &deckhandv1.UnlockNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	r.finish(r.begin(task, 1))
}

// A node is told whose ends are on record, so that it need not keep them
// for long.
func TestANodeIsToldWhatIsOnRecord(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	lease := r.begin(r.submit("walker").GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	step, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, string(fault.CommandFailed), step.GetErrorCode(), "it exits with 3")
	r.finish(lease)
	exec, err := startExec(t, r.user, onJail("walker", "true"))
	require.NoError(t, err)
	ended(t, r.user, exec.GetId())
	require.Eventually(t, func() bool {
		told := r.node.Recorded()
		return slices.Contains(told, exec.GetId()) && slices.Contains(told, step.GetId())
	}, waittest.Limit(30*time.Second), 10*time.Millisecond)
}

// What a node missed of its drain while it was away it learns when it is
// back.
func TestANodeLearnsOfItsDrainWhenItConnects(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	require.Eventually(t, func() bool { return r.node.Drain() != nil }, waittest.Limit(20*time.Second), 10*time.Millisecond, "the node is told at once")
	require.False(t, r.node.Drain().GetDraining())
	r.node.Stop()
	require.Eventually(t, func() bool {
		res, err := r.user.Nodes.GetNode(t.Context(), &deckhandv1.GetNodeRequest{NodeId: "sim"})
		return err == nil && res.GetNode().GetStatus() != "connected"
	}, waittest.Limit(20*time.Second), 10*time.Millisecond)
	_, err := r.user.Nodes.DrainNode(t.Context(), &deckhandv1.DrainNodeRequest{NodeId: "sim", Reason: strings.Repeat("é", 300)})
	require.NoError(t, err)
	require.False(t, r.node.Drain().GetDraining())
	require.NoError(t, r.node.Start(t.Context()))
	require.Eventually(t, func() bool { return r.node.Drain().GetDraining() }, time.Minute, 10*time.Millisecond, "the node is told again")
	require.Equal(t, strings.Repeat("é", 200), r.node.Drain().GetReason())
}

// A revoked node's link ends at once, and what runs there is unknown.
func TestARevokedNodeLosesItsLinkAtOnce(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	exec, err := startExec(t, r.user, onHost("sleep", "1000"))
	require.NoError(t, err)
	res, err := r.user.Nodes.RevokeNode(t.Context(), &deckhandv1.RevokeNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	require.Equal(t, "revoked", res.GetNode().GetStatus())
	_, err = nodeLog(t, r.user, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()})
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "no call is made over the link any more")
	require.Equal(t, "unknown", ended(t, r.user, exec.GetId()).GetEndReason())
	locks, err := r.user.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{})
	require.NoError(t, err)
	require.Empty(t, locks.GetLocks(), "its lock was released")
}

// When a hub dies, the next one follows the commands it had started.
func TestACommandIsFollowedAcrossHubs(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	end := make(chan struct{})
	r := newRigOn(t, hubtest.Start(t, cfg), nodetest.Config{Live: func(context.Context, *nodetest.Live) *nodev1.Exec {
		<-end
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, ExitCode: 7}
	}})
	exec, err := startExec(t, r.user, onHost("true"))
	require.NoError(t, err)
	cfg.Listen, cfg.EdgeListen = strings.TrimPrefix(r.URL(), "http://"), r.EdgeAddress()
	r.Stop()
	close(end)
	next := hubtest.Start(t, cfg)
	got := ended(t, next.Client(t, next.AdminToken), exec.GetId())
	require.EqualValues(t, 7, got.GetExitCode())
}

// A command that the node would not take is recorded as refused, and its lock
// is released.
func TestACommandThatTheNodeRefusesIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Refuse: fault.New(fault.Precondition, "the disk is full")})
	_, err := startExec(t, r.user, onHost("true"))
	require.ErrorContains(t, err, "the disk is full")
	list, err := r.user.NodeExecs.ListNodeExecs(t.Context(), &deckhandv1.ListNodeExecsRequest{})
	require.NoError(t, err)
	require.Equal(t, "refused", list.GetExecs()[0].GetEndReason())
	require.Contains(t, list.GetExecs()[0].GetError(), "the disk is full")
	locks, err := r.user.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{})
	require.NoError(t, err)
	require.Empty(t, locks.GetLocks())
}

// The rows hold the request sealed, so that what was masked can be looked up
// by who has the keyset.
func TestTheRequestOfACommandIsSealed(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	exec, err := startExec(t, r.user, onHost("echo", "a-plain-word"))
	require.NoError(t, err)
	s, err := store.Open(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	node, err := s.NodeByID(t.Context(), r.node.ID())
	require.NoError(t, err)
	row, err := s.GetNodeExec(t.Context(), db.GetNodeExecParams{OrgID: node.OrgID, ID: exec.GetId()})
	require.NoError(t, err)
	require.NotEmpty(t, row.NodeExec.SpecSealed)
	require.NotContains(t, string(row.NodeExec.SpecSealed), "a-plain-word")
}

// echoing is a shell that shows what it is given and its sizes, until it reads
// "exit".
func echoing(ctx context.Context, l *nodetest.Live) *nodev1.Exec {
	const pty = nodev1.LogStream_LOG_STREAM_PTY
	l.Write(pty, strings.Join(l.Spec.GetArgv(), "|")+"\n")
	for {
		select {
		case <-ctx.Done():
			return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
		case size := <-l.Sizes:
			l.Write(pty, size.String())
		case data, open := <-l.Input:
			if !open {
				return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
			}
			l.Write(pty, "<"+string(data)+">")
			if string(data) == "exit" {
				return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, ExitCode: 5}
			}
		}
	}
}

// A terminal carries input, sizes and output, says where it is, is
// recorded, and is hung up when its person leaves.
func TestATerminal(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: echoing})
	opening := &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Open_{Open: &deckhandv1.OpenTerminalRequest_Open{
		NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}, Size: &deckhandv1.TerminalSize{Rows: 24, Cols: 80},
	}}}
	typed := func(s string) *deckhandv1.OpenTerminalRequest {
		return &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Input{Input: []byte(s)}}
	}
	stream, err := r.user.Terminals.OpenTerminal(t.Context())
	require.NoError(t, err)
	shown := ""
	until := func(text string) {
		t.Helper()
		for !strings.Contains(shown, text) {
			res, err := stream.Receive()
			require.NoError(t, err)
			shown += string(res.GetOutput())
		}
	}
	require.NoError(t, stream.Send(opening))
	res, err := stream.Receive()
	require.NoError(t, err)
	exec := res.GetOpened()
	require.True(t, exec.GetTerminal())
	until("HOST:sim")
	require.Contains(t, shown, `\[\e[1;31m\]HOST:sim\[\e[0m\]`, "red says that this is the machine")
	require.NoError(t, stream.Send(typed("ls\n")))
	until("<ls\n>")
	require.NoError(t, stream.Send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Resize{
		Resize: &deckhandv1.TerminalSize{Rows: 50, Cols: 132},
	}}))
	until("132")
	_, err = startExec(t, r.user, onHost("true"))
	require.Equal(t, fault.NodeLocked, fault.As(err).Code, "a terminal on the machine holds its lock")
	require.NoError(t, stream.Send(typed("exit")))
	until("<exit>")
	res, err = stream.Receive()
	require.NoError(t, err)
	require.EqualValues(t, 5, res.GetEnded().GetExitCode())
	log, err := nodeLog(t, r.user, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	require.Equal(t, shown, log["pty"], "it is recorded")

	r.settled("walker")
	opening.GetOpen().Target = &deckhandv1.OpenTerminalRequest_Open_AgentId{AgentId: "walker"}
	ctx, leave := context.WithCancel(t.Context())
	stream, err = r.user.Terminals.OpenTerminal(ctx)
	require.NoError(t, err)
	shown = ""
	require.NoError(t, stream.Send(opening))
	res, err = stream.Receive()
	require.NoError(t, err)
	until("jail:walker")
	require.Contains(t, shown, `\[\e[1;32m\]jail:walker\[\e[0m\]`, "green says that this is a jail")
	leave()
	_ = stream.CloseResponse() // it answers that the call was cancelled
	gone := ended(t, r.user, res.GetOpened().GetId())
	require.Equal(t, "killed", gone.GetEndReason())
	require.Equal(t, "admin (hung up)", gone.GetKilledBy())
}

func TestATerminalIsOpenedOnceAndRight(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: echoing})
	first := func(c *sdk.Client, m *deckhandv1.OpenTerminalRequest) error {
		stream, err := c.Terminals.OpenTerminal(t.Context())
		require.NoError(t, err)
		if err := stream.Send(m); err != nil {
			require.Truef(t, errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "EOF"), "%v", err)
		}
		_, err = stream.Receive()
		return fault.FromConnect(err)
	}
	host := func(size *deckhandv1.TerminalSize) *deckhandv1.OpenTerminalRequest {
		return &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Open_{Open: &deckhandv1.OpenTerminalRequest_Open{
			NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}, Size: size,
		}}}
	}
	size := &deckhandv1.TerminalSize{Rows: 24, Cols: 80}
	require.True(t, fault.Is(first(r.user, &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Resize{Resize: size}}), fault.Invalid))
	require.True(t, fault.Is(first(r.user, host(nil)), fault.Invalid), "a size is needed")
	require.True(t, fault.Is(first(r.as("carl", "advanced"), host(size)), fault.Denied))
	require.True(t, fault.Is(first(r.as("vera", "viewer"), host(size)), fault.Denied))
}

// The files of any jail of the node, but not the machine's own.
func TestTheFilesOfAJail(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	_, err := r.node.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: "jail_x", Path: "a.txt", Content: []byte("hello")})
	require.NoError(t, err)
	read := func(node, jail string) (string, error) {
		res, err := r.user.Files.ReadFile(t.Context(), &deckhandv1.ReadFileRequest{
			Path: "a.txt", Workspace: &deckhandv1.ReadFileRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: node, JailId: jail}},
		})
		if err != nil {
			return "", err
		}
		return string(res.GetContent()), nil
	}
	text, err := read("sim", "jail_x")
	require.NoError(t, err)
	require.Equal(t, "hello", text)
	_, err = read("sim", "host")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = read("elsewhere", "jail_x")
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	list, err := r.user.Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
		Workspace: &deckhandv1.ListFilesRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: "sim", JailId: "jail_x"}},
	})
	require.NoError(t, err)
	require.Len(t, list.GetFiles(), 1)
}
