package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	taskWaits     = deckhandv1.TaskState_TASK_STATE_WAITING
	taskSucceeded = deckhandv1.TaskState_TASK_STATE_SUCCEEDED
	taskFailed    = deckhandv1.TaskState_TASK_STATE_FAILED
	taskEscalated = deckhandv1.TaskState_TASK_STATE_ESCALATED
	taskCancelled = deckhandv1.TaskState_TASK_STATE_CANCELLED
	taskPending   = deckhandv1.TaskState_TASK_STATE_PENDING
)

// colleague is a persona that may give work away; more goes into its front
// matter, limits besides the iterations.
func colleague(name, limits, more string) string {
	return fmt.Sprintf(`---
name: %s
description: works with others
provider: script
script: s.yaml
tools: [shell_exec, create_subtask, delegate, handoff_to_agent]
workspace: {scope: task}
limits: {iterations: 20%s}
%s
---
Work with the others.
`, name, limits, more)
}

// applyAll applies personas that may name each other.
func (r *rig) applyAll(personas map[string]string) {
	r.t.Helper()
	var along []string
	for name := range personas {
		along = append(along, name)
	}
	for name, markdown := range personas {
		_, err := r.user.Agents.ApplyAgent(r.t.Context(), &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Markdown: markdown, Script: "turns: []\n", Along: along,
		})
		require.NoError(r.t, err)
	}
}

// give has a task give work away in a call of its own, up to where the call
// waits or ends.
func (r *rig) give(lease *deckhandv1.Lease, turn, index int32, tool, arguments string) *deckhandv1.Step {
	r.t.Helper()
	step, err := r.propose(lease, turn, index, tool, arguments)
	require.NoError(r.t, err)
	if step.GetState() != stepGranted {
		return step
	}
	step, err = r.execute(lease, step.GetId())
	require.NoError(r.t, err)
	return step
}

// below returns the tasks that one gave, the oldest first.
func (r *rig) below(id string) []*deckhandv1.Task {
	r.t.Helper()
	res, err := r.user.Tasks.ListTasks(r.t.Context(), &deckhandv1.ListTasksRequest{ParentId: id})
	require.NoError(r.t, err)
	tasks := res.GetTasks()
	for i, j := 0, len(tasks)-1; i < j; i, j = i+1, j-1 {
		tasks[i], tasks[j] = tasks[j], tasks[i]
	}
	return tasks
}

func (r *rig) fail(lease *deckhandv1.Lease, code, message string) {
	r.t.Helper()
	_, err := r.workers.Workers.FinishTask(r.t.Context(), &deckhandv1.FinishTaskRequest{
		Lease: lease, State: taskFailed, ErrorCode: code, ErrorMessage: message, Reason: message,
	})
	require.NoError(r.t, err)
}

// team is a rig with a boss that delegates to a hand, and a task of the boss.
func team(t *testing.T, limits, more string) (*rig, *deckhandv1.Task, *deckhandv1.Lease) {
	t.Helper()
	r := newRig(t, hubtest.Shared(t), output("hello\n"))
	r.applyAll(map[string]string{
		"boss": colleague("boss", limits, more+"agents: {delegate: [hand], handoff: [hand]}"),
		"hand": colleague("hand", "", "agents: {delegate: [boss], handoff: [boss]}"),
	})
	task := r.submit("boss")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	return r, task, lease
}

// The parent waits for its subtask without a lease, says for which, and
// goes on with its result and cost.
func TestAParentWaitsForItsSubtaskWithoutASlot(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, "", "")
	step := r.give(lease, 1, 0, "delegate", `{"agent":"hand","title":"count","goal":"count the lines","context":"of a.txt"}`)
	require.Equal(t, stepWaiting, step.GetState(), "%v", step)
	child := r.below(boss.GetId())[0]
	require.Equal(t, "hand", child.GetAgentName())
	require.Equal(t, "count the lines", child.GetGoal())
	require.Equal(t, "of a.txt", child.GetContext())
	require.Equal(t, boss.GetLineageId(), child.GetLineageId(), "it spends from the same budget")
	require.Equal(t, boss.GetId(), child.GetParentId())
	require.Equal(t, boss.GetCorrelationId(), child.GetCorrelationId())
	require.Equal(t, boss.GetCreatedBy(), child.GetCreatedBy())
	require.NoError(t, r.yield(lease))

	parent := r.task(boss.GetId())
	require.Equal(t, taskWaits, parent.GetState())
	require.Contains(t, parent.GetReason(), child.GetId())
	require.EqualValues(t, 1, parent.GetSubtasks().GetLive())
	require.Equal(t, "f", r.sql("SELECT (lease_hash IS NOT NULL OR admitted_at IS NOT NULL)::text::char FROM tasks WHERE id = $1", boss.GetId()))
	again, err := r.propose(lease, 1, 1, "delegate", `{"agent":"hand","goal":"x"}`)
	require.True(t, fault.Is(err, fault.Precondition), "its lease has ended: %v %v", again, err)

	work := r.begin(child.GetId(), 1)
	r.turn(work, 1)
	r.finish(work)
	r.awaitTask(boss.GetId(), taskQueued)
	claim := r.claim(boss.GetId(), 2)
	require.Equal(t, stepGranted, claim.GetSteps()[0].GetState())
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claim.GetLease()})
	require.NoError(t, err)
	done, err := r.execute(claim.GetLease(), step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Contains(t, done.GetObservation(), "done")
	require.Equal(t, child.GetId(), done.GetOutcome().GetFields()["task_id"].GetStringValue())
	r.finish(claim.GetLease())

	ended := r.task(boss.GetId())
	require.EqualValues(t, 1, ended.GetSubtasks().GetSucceeded())
	require.EqualValues(t, 10, ended.GetSubtasks().GetUsage().GetInputTokens(), "what the subtask consumed rolls up")
	var kinds []string
	for _, e := range r.events(boss.GetId(), false) {
		kinds = append(kinds, e.GetType())
	}
	require.Contains(t, kinds, "agent.subtask.created")
	require.Contains(t, kinds, "agent.subtask.ended")
}

// Calls that stand side by side have their subtasks done at once, and the
// parent is queued once, when the last has ended.
func TestSubtasksRunSideBySide(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, "", "")
	for i := range int32(3) {
		step := r.give(lease, 1, i, "create_subtask", fmt.Sprintf(`{"goal":"part %d"}`, i))
		require.Equal(t, stepWaiting, step.GetState())
	}
	require.NoError(t, r.yield(lease))
	require.Contains(t, r.task(boss.GetId()).GetReason(), "3 subtasks")
	children := r.below(boss.GetId())
	require.Len(t, children, 3)
	leases := make([]*deckhandv1.Lease, 3)
	for i, child := range children {
		require.Equal(t, "boss", child.GetAgentName(), "a subtask is its own agent's")
		leases[i] = r.begin(child.GetId(), 1) // all three hold one
	}
	r.finish(leases[2])
	r.finish(leases[0])
	require.Eventually(t, func() bool {
		parent := r.task(boss.GetId())
		return parent.GetState() == taskWaits && strings.Contains(parent.GetReason(), "a subtask; "+children[1].GetId())
	}, patience, patience/1000, "it names the last one")
	r.finish(leases[1])
	r.awaitTask(boss.GetId(), taskQueued)
	resumed := r.begin(boss.GetId(), 2)
	for i := range int32(3) {
		step := r.give(resumed, 1, i, "create_subtask", fmt.Sprintf(`{"goal":"part %d"}`, i))
		require.Equal(t, stepSucceeded, step.GetState(), "%v", step)
	}
	require.Len(t, r.below(boss.GetId()), 3, "and no more were made")
}

// A child that fails, or that a person ends, answers the call with its
// error; one that is escalated keeps the parent waiting, which says so.
func TestASubtaskThatDoesNotSucceed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *rig, child *deckhandv1.Task)
		code string
		said string
	}{
		"fails": {func(r *rig, child *deckhandv1.Task) {
			r.fail(r.begin(child.GetId(), 1), "AGENT_014", "the model went away")
		}, "AGENT_014", "the model went away"},
		"is killed": {func(r *rig, child *deckhandv1.Task) {
			r.begin(child.GetId(), 1)
			r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, child.GetId())
		}, "AGENT_027", "killed by admin"},
		"is cancelled": {func(r *rig, child *deckhandv1.Task) { r.cancel(child.GetId()) }, "AGENT_004", "cancelled by admin"},
		"is escalated, then closed": {func(r *rig, child *deckhandv1.Task) {
			r.begin(child.GetId(), 1)
			r.exec(fmt.Sprintf(`UPDATE tasks SET state = 'escalated', reason = 'x', lease_hash = NULL, lease_expires_at = NULL, admitted_at = NULL WHERE id = '%s'`, child.GetId()))
			require.Equal(r.t, taskEscalated, r.task(child.GetId()).GetState())
			require.Equal(r.t, taskWaits, r.task(child.GetParentId()).GetState(), "a person decides")
			r.cancel(child.GetId())
		}, "AGENT_004", "cancelled by admin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, boss, lease := team(t, "", "")
			step := r.give(lease, 1, 0, "delegate", `{"agent":"hand","goal":"try"}`)
			require.NoError(t, r.yield(lease))
			c.end(r, r.below(boss.GetId())[0])
			r.awaitTask(boss.GetId(), taskQueued)
			done, err := r.execute(r.begin(boss.GetId(), 2), step.GetId())
			require.NoError(t, err)
			require.Equal(t, stepFailed, done.GetState())
			require.Equal(t, c.code, done.GetErrorCode())
			require.Contains(t, done.GetObservation(), c.said)
		})
	}
}

// Whatever ends a parent ends what it gave, down to the last, and their
// processes with them.
func TestTheEndOfAParentEndsItsSubtasks(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, id string){
		"killed":    func(r *rig, id string) { r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, id) },
		"cancelled": func(r *rig, id string) { r.cancel(id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, boss, lease := team(t, "", "")
			r.give(lease, 1, 0, "create_subtask", `{"goal":"one"}`)
			require.NoError(t, r.yield(lease))
			child := r.below(boss.GetId())[0]
			work := r.begin(child.GetId(), 1)
			r.turn(work, 1)
			r.give(work, 1, 0, "create_subtask", `{"goal":"two"}`)
			require.NoError(t, r.yield(work))
			grandchild := r.below(child.GetId())[0]
			held := r.begin(grandchild.GetId(), 1)
			end(r, boss.GetId())
			require.Contains(t, r.awaitTask(child.GetId(), taskCancelled).GetReason(), boss.GetId())
			r.awaitTask(grandchild.GetId(), taskCancelled)
			_, err := r.propose(held, 1, 0, "shell_exec", `{"command":"true"}`)
			require.True(t, fault.Is(err, fault.Precondition), "%v", err)
		})
	}
}

// What a persona does not permit, goes round in a circle, exceeds
// the giver's rights or a limit is refused, and the model is told why.
func TestWorkThatMayNotBeGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	everyone := "agents: {delegate: [middle, strong, free, quiet], handoff: [middle]}"
	r.applyAll(map[string]string{
		"top":      colleague("top", ", subtasks: 2, depth: 1", everyone),
		"middle":   colleague("middle", "", "agents: {delegate: [top], handoff: [top]}"),
		"strong":   strings.Replace(colleague("strong", "", ""), "tools: [", "tools: [file_delete, ", 1),
		"free":     colleague("free", "", ""),
		"quiet":    colleague("quiet", "", ""),
		"careful":  colleague("careful", "", "mode: supervised\napprovals: {timeout: 1h}\nagents: {delegate: [free]}"),
		"jailed":   colleague("jailed", "", "trust: verified\nagents: {delegate: [free]}"),
		"approved": colleague("approved", "", "approvals: {tools: [shell_exec]}\nagents: {delegate: [free]}"),
	})
	refused := func(lease *deckhandv1.Lease, index int32, tool, arguments, code string, says ...string) {
		t.Helper()
		step, err := r.propose(lease, 1, index, tool, arguments)
		require.NoError(t, err)
		require.Equal(t, stepDenied, step.GetState(), "%v", step)
		require.Equal(t, code, step.GetErrorCode())
		for _, text := range says {
			require.Contains(t, step.GetObservation(), text)
		}
	}
	begin := func(agent string) (*deckhandv1.Task, *deckhandv1.Lease) {
		t.Helper()
		task := r.submit(agent)
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		return task, lease
	}
	manifest := func(agent string) string {
		return fmt.Sprintf(`{"target_agent":%q,"status":"partial","artifacts":{},"summary_for_target":"go on"}`, agent)
	}
	top, lease := begin("top")
	refused(lease, 0, "delegate", `{"agent":"careful","goal":"x"}`, "AGENT_002", "agents.delegate of persona top", "use one of free, strong, quiet, middle")
	refused(lease, 8, "delegate", `{"agent":"strnog","goal":"x"}`, "AGENT_002", `does not list "strnog"`, "use one of strong, free, middle, quiet")
	refused(lease, 1, "handoff_to_agent", manifest("free"), "AGENT_002", "agents.handoff of persona top")
	refused(lease, 2, "delegate", `{"agent":"strong","goal":"x"}`, "AGENT_002", "it has dangerous tools")
	refused(lease, 3, "handoff_to_agent", `{"target_agent":"middle","status":"great","artifacts":{},"summary_for_target":"x"}`, "AGENT_012", "status")
	refused(lease, 4, "delegate", `{"agent":"middle","goal":" "}`, "AGENT_012", "goal is empty")

	// Down to the circle, and to the depth.
	require.Equal(t, stepWaiting, r.give(lease, 1, 5, "delegate", `{"agent":"middle","goal":"x"}`).GetState())
	require.Equal(t, stepWaiting, r.give(lease, 1, 6, "delegate", `{"agent":"middle","goal":"y"}`).GetState())
	refused(lease, 7, "delegate", `{"agent":"middle","goal":"z"}`, "AGENT_010", "there are 2 subtasks below task "+top.GetId(), "limits.subtasks is 2")
	require.NoError(t, r.yield(lease))
	middle := r.begin(r.below(top.GetId())[0].GetId(), 1)
	r.turn(middle, 1)
	refused(middle, 0, "delegate", `{"agent":"top","goal":"x"}`, "AGENT_023", "top → middle → top")
	refused(middle, 1, "handoff_to_agent", manifest("top"), "AGENT_023", "top → middle → top")
	refused(middle, 2, "create_subtask", `{"goal":"x"}`, "AGENT_010", "2 levels below task "+top.GetId(), "limits.depth is 1")

	for agent, says := range map[string]string{
		"jailed":   "its jail is for trusted code, and this one's for verified",
		"careful":  "it is autonomous, and this one supervised",
		"approved": "its shell_exec needs no approval, and this one's does",
	} {
		task := r.submit(agent)
		lease := r.claim(task.GetId(), 1).GetLease()
		if agent != "jailed" { // the node has no such runtime
			_, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
			require.NoError(t, err)
		}
		refused(lease, 0, "delegate", `{"agent":"free","goal":"x"}`, "AGENT_002", "agent free may do more than "+agent, says)
	}
}

// A persona that names an agent which is not there, or itself, is refused
// with the line.
func TestAPersonaThatNamesAnAgentThatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	for names, says := range map[string]string{
		"delegate: [wlker]": `x.md:9: there is no agent "wlker": `,
		"handoff: [boss]":   `x.md:9: agents names "boss" itself`,
	} {
		_, err := r.user.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
			Filename: "x.md", Markdown: colleague("boss", "", "agents: {"+names+"}"), Script: "turns: []\n",
		})
		require.ErrorContains(t, err, says)
	}
}

// A handoff gives the target the manifest and nothing else, begins when the
// source's run has succeeded, and is waited for in the source's place.
func TestAHandoffGoesOnInTheSourcesPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.applyAll(map[string]string{
		"asker":  colleague("asker", "", "agents: {delegate: [coder]}"),
		"coder":  colleague("coder", "", "agents: {handoff: [tester]}"),
		"tester": colleague("tester", "", ""),
	})
	asker := r.submit("asker")
	lease := r.begin(asker.GetId(), 1)
	r.turn(lease, 1)
	step := r.give(lease, 1, 0, "delegate", `{"agent":"coder","goal":"write it"}`)
	require.NoError(t, r.yield(lease))
	source := r.below(asker.GetId())[0]
	work := r.begin(source.GetId(), 1)
	r.turn(work, 1)
	done := r.give(work, 1, 0, "handoff_to_agent", `{"target_agent":"tester","status":"done","summary_for_target":"test the parser",
		"artifacts":{"working_dir":"src","files_changed":["src/parser.go"],"cli_entrypoint":"go test ./..."}}`)
	require.Equal(t, stepSucceeded, done.GetState(), "%v", done)
	target := r.task(done.GetOutcome().GetFields()["task_id"].GetStringValue())
	require.Equal(t, taskPending, target.GetState())
	require.Contains(t, target.GetReason(), source.GetId(), "it waits for the source's end")
	require.Equal(t, "test the parser", target.GetGoal())
	require.Empty(t, target.GetContext())
	require.Equal(t, source.GetId(), target.GetHandedFrom())
	require.Equal(t, asker.GetId(), target.GetParentId())
	m := target.GetManifest().AsMap()
	require.Regexp(t, "^handoff_", m["handoff_id"])
	require.Equal(t, "coder", m["source_agent"])
	require.Equal(t, "tester", m["target_agent"])
	require.Equal(t, "done", m["status"])
	require.Equal(t, map[string]any{"working_dir": "src", "files_changed": []any{"src/parser.go"}, "cli_entrypoint": "go test ./..."}, m["artifacts"])

	r.finish(work)
	r.awaitTask(target.GetId(), taskQueued)
	require.Eventually(t, func() bool { return strings.Contains(r.task(asker.GetId()).GetReason(), target.GetId()) }, patience, patience/1000)
	require.Equal(t, taskWaits, r.task(asker.GetId()).GetState(), "the work is not done yet")
	r.finish(r.begin(target.GetId(), 1))
	r.awaitTask(asker.GetId(), taskQueued)
	end, err := r.execute(r.begin(asker.GetId(), 2), step.GetId())
	require.NoError(t, err)
	require.Equal(t, target.GetId(), end.GetOutcome().GetFields()["task_id"].GetStringValue(), "it gets the target's result")
}

// When the source does not succeed after all, the target never begins.
func TestAHandoffOfARunThatFails(t *testing.T) {
	t.Parallel()
	r, _, lease := team(t, "", "")
	step := r.give(lease, 1, 0, "handoff_to_agent", `{"target_agent":"hand","status":"partial","artifacts":{},"summary_for_target":"go on"}`)
	r.fail(lease, "AGENT_014", "gone")
	r.awaitTask(step.GetOutcome().GetFields()["task_id"].GetStringValue(), taskCancelled)
}

// Work goes round between two agents as often as agents.rounds says.
func TestAReviewCircleEndsAfterItsRounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.applyAll(map[string]string{
		"coder":    colleague("coder", "", "agents: {handoff: [reviewer], rounds: 2}"),
		"reviewer": colleague("reviewer", "", "agents: {handoff: [coder], rounds: 2}"),
		"lead":     colleague("lead", "", "agents: {delegate: [reviewer], rounds: 2}"),
	})
	id, agents := r.submit("coder").GetId(), []string{"reviewer", "coder", "reviewer", "coder"}
	for n, to := range agents {
		lease := r.begin(id, 1)
		r.turn(lease, 1)
		step := r.give(lease, 1, 0, "handoff_to_agent", fmt.Sprintf(`{"target_agent":%q,"status":"partial","artifacts":{},"summary_for_target":"round %d"}`, to, n))
		if n == len(agents)-1 {
			require.Equal(t, stepDenied, step.GetState())
			require.Equal(t, "AGENT_023", step.GetErrorCode())
			require.Contains(t, step.GetObservation(), "coder → reviewer → coder → reviewer → coder")
			break
		}
		require.Equal(t, stepSucceeded, step.GetState(), "%v", step)
		r.finish(lease)
		id = step.GetOutcome().GetFields()["task_id"].GetStringValue()
	}

	lead := r.submit("lead")
	for round := int32(1); round <= 3; round++ {
		lease := r.begin(lead.GetId(), round)
		r.turn(lease, round)
		first := r.give(lease, round, 0, "delegate", `{"agent":"reviewer","goal":"review"}`)
		if round == 3 {
			require.Equal(t, "AGENT_010", first.GetErrorCode(), "%v", first)
			require.Contains(t, first.GetObservation(), "agents.rounds of lead allows")
			break
		}
		require.Equal(t, stepWaiting, first.GetState(), "%v", first)
		require.Equal(t, stepWaiting, r.give(lease, round, 1, "delegate", `{"agent":"reviewer","goal":"the same turn is the same round"}`).GetState())
		require.NoError(t, r.yield(lease))
		for _, child := range r.below(lead.GetId()) {
			if child.GetState() != taskSucceeded {
				r.finish(r.begin(child.GetId(), 1))
			}
		}
		r.awaitTask(lead.GetId(), taskQueued)
	}
}

// Of 50 subtasks asked for at once, as many are made as the limit has
// room for, however they come.
func TestFiftySubtasksAtOnceStopAtTheLimit(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, ", subtasks: 12", "")
	steps := make([]*deckhandv1.Step, 50)
	for i := range steps {
		step, err := r.propose(lease, 1, int32(i), "create_subtask", `{"goal":"part"}`)
		require.NoError(t, err)
		require.Equal(t, stepGranted, step.GetState())
		steps[i] = step
	}
	results := make(chan *deckhandv1.Step, len(steps))
	for _, step := range steps {
		go func() {
			done, err := r.execute(lease, step.GetId())
			if err != nil {
				done = &deckhandv1.Step{Observation: err.Error()}
			}
			results <- done
		}()
	}
	waits, failed := 0, 0
	for range steps {
		switch step := <-results; step.GetState() {
		case stepWaiting:
			waits++
		case stepFailed:
			failed++
			require.Equal(t, "AGENT_010", step.GetErrorCode())
			require.Contains(t, step.GetObservation(), "limits.subtasks is 12")
		default:
			t.Errorf("a call is %s: %s", step.GetState(), step.GetObservation())
		}
	}
	require.Equal(t, 12, waits)
	require.Equal(t, 38, failed)
	require.Len(t, r.below(boss.GetId()), 12)
}

// A worker that dies with its parent's calls made, and before it yields, makes
// none twice; the next attempt waits again.
func TestAWorkerThatDiesBeforeItYieldsMakesNoSubtaskTwice(t *testing.T) {
	t.Parallel()
	r, boss, lease := team(t, "", "")
	step := r.give(lease, 1, 0, "create_subtask", `{"goal":"one"}`)
	_, err := r.workers.Workers.ReleaseTask(t.Context(), &deckhandv1.ReleaseTaskRequest{Lease: lease, Reason: "gone"})
	require.NoError(t, err)
	second := r.begin(boss.GetId(), 2)
	again := r.give(second, 1, 0, "create_subtask", `{"goal":"one"}`)
	require.Equal(t, step.GetId(), again.GetId())
	require.Equal(t, stepWaiting, again.GetState())
	require.NoError(t, r.yield(second))
	require.Len(t, r.below(boss.GetId()), 1)
	require.Equal(t, taskWaits, r.task(boss.GetId()).GetState())
}
