package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// onMachines is a persona that may work on machines, in a mode.
func onMachines(name, mode string) string {
	return fmt.Sprintf(`---
name: %s
description: Works on machines.
provider: script
script: s.yaml
mode: %s
tools: [shell_exec, node_lock, host_exec, node_exec_many, complete_task]
host: {nodes: [sim], commands: ["systemctl reload *"]}
---
Do it.
`, name, mode)
}

const lockSim = `{"node":"sim","reason":"mend nginx","minutes":30}`

// Only an administrator lets an agent lock a node, each time: no mode and no rule of a policy
// does, nobody else approves it, and it cannot be approved for good.
func TestOnlyAnAdministratorLetsAnAgentLockANode(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	carl := r.as("carl", "advanced")
	_, err := carl.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{Filename: "x.md", Markdown: onMachines("x", "autonomous"), Script: "turns: []\n"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.ErrorContains(t, err, "host: only administrators")
	_, err = r.policy("", "default: allow\ncategories: {node_lock: safe, node_exec_many: safe}\nrules:\n  - {name: all, effect: allow, tool: '*'}\n")
	require.NoError(t, err)
	for _, mode := range []string{"autonomous", "supervised"} {
		r.apply("ops-"+mode, onMachines("ops-"+mode, mode))
		_, step, item := r.park("ops-"+mode, "node_lock", lockSim)
		require.Equal(t, deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS, step.GetCategory(), "no policy makes it less")
		require.Contains(t, item.GetPreview(), "on the machine itself, not in a jail")
		require.True(t, r.inboxItem(item.GetId()).GetDecision().GetOnMachine())
		always := approve(item.GetId(), "")
		always.GetApprove().Always = &deckhandv1.AlwaysAllow{Scope: "tool"}
		_, err := r.answer(always)
		require.ErrorContains(t, err, "each call of node_lock is asked about")
		_, err = answerAs(t, carl, approve(item.GetId(), ""))
		require.Error(t, err, "carl is no administrator")
		require.Equal(t, stepWaiting, r.step(step.GetId()).GetState())
		_, err = r.answer(reject(item.GetId(), "no"))
		require.NoError(t, err)
	}
	// A task of somebody who is no administrator gets no further than the call.
	r.apply("ops-carl", onMachines("ops-carl", "autonomous"))
	res, err := carl.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "ops-carl", Goal: "go on"})
	require.NoError(t, err)
	lease := r.begin(res.GetTask().GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "node_lock", lockSim)
	require.NoError(t, err)
	require.Equal(t, stepDenied, step.GetState())
	require.Contains(t, step.GetObservation(), "role advanced")
}

// While a task holds the lock, steps of other tasks on the node do not start and say why, its
// own do, and the machine is worked on under it only. The lock ends with its time.
func TestATasksLockKeepsOthersWaiting(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var specs []*nodev1.ExecSpec
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: func(_ context.Context, l *nodetest.Live) *nodev1.Exec {
		mu.Lock()
		defer mu.Unlock()
		specs = append(specs, l.Spec)
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	}})
	r.apply("ops", onMachines("ops", "autonomous"))
	other := r.begin(r.submit("walker").GetId(), 1)
	r.turn(other, 1)

	task := r.submit("ops")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	early, err := r.propose(lease, 1, 0, "host_exec", `{"command":"systemctl reload nginx"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, early.GetState())
	require.Contains(t, early.GetObservation(), "node_lock")
	r.turn(lease, 2)
	for i, bad := range []string{`{"node":"other","reason":"x","minutes":1}`, `{"node":"sim","reason":"x","minutes":0}`} {
		step, err := r.propose(lease, 2, int32(i), "node_lock", bad)
		require.NoError(t, err)
		require.Equal(t, stepDenied, step.GetState(), bad)
	}
	r.turn(lease, 3)
	lock, err := r.propose(lease, 3, 0, "node_lock", lockSim)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, lock.GetState())
	_, err = r.answer(approve(r.item(task.GetId()).GetId(), ""))
	require.NoError(t, err)
	lock, err = r.execute(lease, lock.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, lock.GetState(), lock.GetObservation())
	again, err := r.execute(lease, lock.GetId())
	require.NoError(t, err)
	require.Equal(t, lock.GetObservation(), again.GetObservation(), "taken once")
	locks, err := r.user.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{})
	require.NoError(t, err)
	require.Len(t, locks.GetLocks(), 1)
	held := locks.GetLocks()[0]
	require.Equal(t, "agent ops", held.GetBy())
	require.Equal(t, task.GetId(), held.GetTaskId())
	require.WithinDuration(t, time.Now().Add(30*time.Minute), held.GetExpiresAt().AsTime(), waittest.Limit(time.Minute))

	// Others wait: in the queue, with their next step, and people.
	r.apply("second", scripted("second"))
	waits := r.submit("second")
	require.Eventually(t, func() bool {
		return strings.Contains(r.task(waits.GetId()).GetReason(), "node sim is locked by agent ops until ")
	}, waittest.Limit(10*time.Second), 10*time.Millisecond)
	step, err := r.propose(other, 1, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(2*time.Second))
	defer cancel()
	begun := time.Now()
	_, _ = r.workers.Workers.ExecuteStep(ctx, &deckhandv1.ExecuteStepRequest{Lease: other, StepId: step.GetId()})
	require.Greater(t, time.Since(begun), time.Second, "it waits")
	require.Equal(t, stepGranted, r.step(step.GetId()).GetState())
	require.Contains(t, r.step(step.GetId()).GetDecisionReason(), "waits: node sim is locked by agent ops until ")
	_, err = startExec(t, r.user, onHost("true"))
	require.Equal(t, fault.NodeLocked, fault.As(err).Code)
	_, err = startExec(t, r.user, onJail("walker", "true"))
	require.Equal(t, fault.NodeLocked, fault.As(err).Code)
	_, err = r.user.Nodes.UnlockNode(t.Context(), &deckhandv1.UnlockNodeRequest{NodeId: "sim"})
	require.Equal(t, fault.NodeLocked, fault.As(err).Code, "without force")

	// Its own commands run: on the machine, and in its jail.
	r.turn(lease, 4)
	for i, call := range []struct{ tool, arguments string }{{"host_exec", `{"command":"systemctl reload nginx","timeout_seconds":3600}`}, {"shell_exec", command("ls")}} {
		own, err := r.propose(lease, 4, int32(i), call.tool, call.arguments)
		require.NoError(t, err)
		require.Equal(t, stepGranted, own.GetState(), "%s: %s", call.tool, own.GetDecisionReason())
		own, err = r.execute(lease, own.GetId())
		require.NoError(t, err)
		require.Equal(t, stepSucceeded, own.GetState(), own.GetObservation())
	}
	mu.Lock()
	require.Len(t, specs, 2)
	require.Equal(t, "host", specs[0].GetJailId())
	require.Equal(t, held.GetId(), specs[0].GetHostLock().GetLockId())
	require.LessOrEqual(t, specs[0].GetTimeout().AsDuration(), 30*time.Minute, "no longer than the lock")
	require.NotEqual(t, "host", specs[1].GetJailId())
	mu.Unlock()
	asked, err := r.propose(lease, 4, 2, "host_exec", `{"command":"systemctl reload nginx > /etc/cron.d/x"}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, asked.GetState(), "it writes outside of the folders")
	require.Contains(t, r.item(task.GetId()).GetPreview(), "On node sim. It runs on the machine itself")

	// Its time is over.
	require.NotEmpty(t, r.sql("UPDATE node_locks SET expires_at = now() WHERE id = $1 RETURNING id", held.GetId()))
	step, err = r.execute(other, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, step.GetState())
	require.Eventually(t, func() bool {
		return r.sql("SELECT released_by FROM node_locks WHERE id = $1", held.GetId()) == "the end of its time"
	}, waittest.Limit(20*time.Second), 20*time.Millisecond)
	require.NotEmpty(t, r.audited("node.locked"))
}

// A lock ends with its task, however that ends.
func TestALockEndsWithItsTask(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: talker})
	r.apply("ops", onMachines("ops", "autonomous"))
	for name, end := range map[string]func(lease *deckhandv1.Lease){
		"it succeeds":  func(lease *deckhandv1.Lease) { r.finish(lease) },
		"it fails":     func(lease *deckhandv1.Lease) { r.fail(lease, string(fault.Stuck), "x") },
		"it is killed": func(lease *deckhandv1.Lease) { r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, lease.GetTaskId()) },
		"cancelled":    func(lease *deckhandv1.Lease) { r.cancel(lease.GetTaskId()) },
	} {
		task := r.submit("ops")
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		lock, err := r.propose(lease, 1, 0, "node_lock", lockSim)
		require.NoError(t, err)
		_, err = r.answer(approve(r.item(task.GetId()).GetId(), ""))
		require.NoError(t, err)
		lock, err = r.execute(lease, lock.GetId())
		require.NoError(t, err)
		require.Equal(t, stepSucceeded, lock.GetState(), "%s: %s", name, lock.GetObservation())
		end(lease)
		locks, err := r.user.Nodes.ListNodeLocks(t.Context(), &deckhandv1.ListNodeLocksRequest{})
		require.NoError(t, err)
		if len(locks.GetLocks()) > 0 { // a task that failed may be escalated, and goes on
			require.Equal(t, deckhandv1.TaskState_TASK_STATE_ESCALATED, r.task(task.GetId()).GetState(), name)
			r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId())
		}
		require.Equal(t, "the end of its task", r.sql("SELECT released_by FROM node_locks WHERE task_id = $1", task.GetId()), name)
	}
}

// One command on several nodes is approved with all of them, has a row for each, and is counted
// once.
func TestACommandOnSeveralNodes(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: func(ctx context.Context, l *nodetest.Live) *nodev1.Exec {
		if l.Spec.GetArgv()[2] == "hang" {
			<-ctx.Done()
			return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
		}
		return talker(ctx, l)
	}})
	r.apply("ops", strings.Replace(onMachines("ops", "autonomous"), "[sim]", "[sim, gone]", 1))
	task, step, item := r.park("ops", "node_exec_many", `{"nodes":["sim"],"command":"uptime","at_most_at_once":3}`)
	require.Contains(t, item.GetPreview(), "On 1 nodes:\nsim")
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	runs := r.node.Runs()
	step, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepFailed, step.GetState(), "talker ends with 3")
	require.Contains(t, step.GetObservation(), "0 of 1 succeeded")
	require.Contains(t, step.GetObservation(), "out of host")
	require.Equal(t, runs+1, r.node.Runs())
	rows, ok := step.GetOutcome().AsMap()["nodes"].([]any)
	require.True(t, ok)
	row, _ := json.Marshal(rows[0])
	require.Contains(t, string(row), `"exit_code":3`)
	id, _ := rows[0].(map[string]any)["exec_id"].(string)
	require.Equal(t, step.GetId(), r.sql("SELECT step_id FROM node_execs WHERE id = $1", id))
	require.Empty(t, r.sql("SELECT coalesce(string_agg(id, ','), '') FROM node_locks WHERE released_at IS NULL AND node_id = $1", r.node.ID()))

	r.turn(lease, 2)
	denied, err := r.propose(lease, 2, 0, "node_exec_many", `{"nodes":["sim","gone"],"command":"uptime"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), `there is no node "gone"`)

	// The end of the task ends all of its commands.
	r.finish(lease)
	task, step, item = r.park("ops", "node_exec_many", `{"nodes":["sim"],"command":"hang"}`)
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	lease = r.begin(task.GetId(), 2)
	running := make(chan struct{})
	go func() {
		defer close(running)
		_, _ = r.execute(lease, step.GetId())
	}()
	state := func() string {
		return r.sql("SELECT coalesce(string_agg(state || ' ' || end_reason, ','), '') FROM node_execs WHERE step_id = $1", step.GetId())
	}
	require.Eventually(t, func() bool { return state() == "running " }, waittest.Limit(20*time.Second), 20*time.Millisecond)
	r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, task.GetId())
	require.Eventually(t, func() bool { return state() == "ended killed" }, waittest.Limit(30*time.Second), 20*time.Millisecond)
	<-running
}
