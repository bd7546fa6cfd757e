package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A paused agent starts nothing new, what waits says why, what is
// in progress goes on, and other agents' tasks do.
func TestAPausedAgentStartsNothingNew(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("other", scripted("other"))
	before := r.begin(r.submit("walker").GetId(), 1)
	for range 2 { // twice is harmless
		paused, err := r.user.Agents.PauseAgent(t.Context(), &deckhandv1.PauseAgentRequest{AgentId: "walker", Reason: "new disk"})
		require.NoError(t, err)
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_PAUSED, paused.GetAgent().GetStatus())
		require.Equal(t, "paused by admin: new disk", paused.GetAgent().GetStatusReason())
	}
	task := r.submit("walker")
	require.Eventually(t, func() bool {
		return r.task(task.GetId()).GetReason() == "agent walker is paused by admin: new disk; go on with: deckhand agent resume walker"
	}, patience, 10*time.Millisecond)
	r.finish(before)
	r.finish(r.begin(r.submit("other").GetId(), 1))
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, r.task(task.GetId()).GetState())

	for range 2 {
		resumed, err := r.user.Agents.ResumeAgent(t.Context(), &deckhandv1.ResumeAgentRequest{AgentId: "walker"})
		require.NoError(t, err)
		require.Equal(t, deckhandv1.AgentStatus_AGENT_STATUS_IDLE, resumed.GetAgent().GetStatus())
		require.Empty(t, resumed.GetAgent().GetStatusReason())
	}
	r.finish(r.begin(task.GetId(), 1))
	require.Len(t, r.audited("agent.paused"), 2, "each gave a reason")
	require.Len(t, r.audited("agent.resumed"), 1)
}

// A task that was admitted, and that nobody has claimed, waits again when
// its agent is paused.
func TestAPauseOfAnAgentComesBeforeAClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	require.Eventually(t, func() bool { return strings.HasPrefix(r.task(task.GetId()).GetReason(), "admitted") }, patience, 10*time.Millisecond)
	_, err := r.user.Agents.PauseAgent(t.Context(), &deckhandv1.PauseAgentRequest{AgentId: "walker"})
	require.NoError(t, err)
	require.Equal(t, "agent walker is paused by admin; go on with: deckhand agent resume walker", r.task(task.GetId()).GetReason())
	claimed, err := r.workers.Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{
		WorkerId: r.worker, TaskId: task.GetId(), Attempt: 1,
	})
	require.NoError(t, err)
	require.False(t, claimed.GetClaimed())
}

// What operators do to nodes and workers is in the audit, once for each
// change, with where they called from.
func TestWhatOperatorsDoIsAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	r.finish(r.begin(r.submit("walker").GetId(), 1)) // it has a workspace
	for range 2 {
		_, err := r.user.Nodes.LockNode(ctx, &deckhandv1.LockNodeRequest{NodeId: "sim", Reason: "new kernel"})
		do(err)
	}
	for range 2 {
		_, err := r.user.Nodes.UnlockNode(ctx, &deckhandv1.UnlockNodeRequest{NodeId: "sim"})
		do(err)
	}
	_, err := r.user.Nodes.DrainNode(ctx, &deckhandv1.DrainNodeRequest{NodeId: "sim", Reason: "new disk"})
	do(err)
	for range 2 {
		_, err = r.user.Nodes.UndrainNode(ctx, &deckhandv1.UndrainNodeRequest{NodeId: "sim"})
		do(err)
	}
	for range 2 {
		_, err = r.user.Queue.DrainWorker(ctx, &deckhandv1.DrainWorkerRequest{WorkerId: r.worker, Reason: "old release"})
		do(err)
	}
	for range 2 {
		_, err = r.user.Queue.UndrainWorker(ctx, &deckhandv1.UndrainWorkerRequest{WorkerId: r.worker})
		do(err)
	}
	exec, err := startExec(t, r.user, onJail("walker", "true"))
	do(err)
	_, err = r.LocalJoinToken(ctx)
	do(err)
	_, err = r.user.Nodes.CreateJoinToken(ctx, &deckhandv1.CreateJoinTokenRequest{})
	do(err)
	_, err = r.user.Nodes.RevokeNode(ctx, &deckhandv1.RevokeNodeRequest{NodeId: "sim"})
	do(err)
	for action, reason := range map[string]string{
		"node.locked": "new kernel", "node.unlocked": "", "node.drained": "new disk", "node.undrained": "",
		"worker.drained": "old release", "worker.undrained": "", "exec.started": "", "node.revoked": "",
	} {
		entries := r.audited(action)
		require.Len(t, entries, 1, action)
		require.Equal(t, reason, entries[0].GetReason(), action)
		require.Equal(t, "admin", entries[0].GetActorId(), action)
		require.NotEmpty(t, entries[0].GetAddress(), action)
	}
	require.Equal(t, exec.GetId(), r.audited("exec.started")[0].GetObjectId())
	made := r.audited("node.token_made")
	require.Len(t, made, 3) // with the one of the test's node
	require.Equal(t, "admin", made[0].GetActorId())
	require.Equal(t, "hub", made[1].GetActorId(), "for its own machine")
}

// A new version of an agent is on record with who made it; what changes
// nothing is not.
func TestANewVersionOfAnAgentIsOnRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("other", scripted("other"))
	r.apply("other", scripted("other"))
	changed := strings.Replace(scripted("other"), "description: ", "description: Now ", 1)
	dry, err := r.user.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "other.md", Markdown: changed, Script: "turns: []\n", DryRun: true,
	})
	require.NoError(t, err)
	require.NotNil(t, dry)
	r.apply("other", changed)
	var versions []float64
	for _, e := range r.audited("agent.applied") {
		if after := e.GetAfter().AsMap(); after["name"] == "other" {
			require.Equal(t, "admin", e.GetActorId())
			version, ok := after["version"].(float64)
			require.True(t, ok)
			versions = append(versions, version)
		}
	}
	require.Equal(t, []float64{2, 1}, versions)
}

func TestOnlyAnAdministratorNamesAddressesOfTheNodeItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	carl := r.as("carl", "advanced")
	for name, egress := range map[string]string{
		"rule": `{allow: ["169.254.169.254"]}`, "network": `{allow: ["127.0.0.0/8:8080"]}`, "forward": `{tcp: ["127.0.0.1:5432"]}`,
	} {
		req := &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Script: "turns: []\n",
			Markdown: strings.Replace(scripted(name), "limits:", "egress: "+egress+"\nlimits:", 1),
		}
		_, err := carl.Agents.ApplyAgent(t.Context(), req)
		require.True(t, fault.Is(fault.FromConnect(err), fault.Denied), "%s: %v", name, err)
		_, err = r.user.Agents.ApplyAgent(t.Context(), req)
		require.NoError(t, err, name)
	}
}
