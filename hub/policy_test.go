package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// policy has a policy hold from now on, the organisation's or that of an agent.
func (r *rig) policy(agent, yaml string) (*deckhandv1.ApplyPolicyResponse, error) {
	res, err := r.user.Policies.ApplyPolicy(r.t.Context(), &deckhandv1.ApplyPolicyRequest{AgentId: agent, Yaml: yaml, File: "policy.yaml"})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func command(text string) string {
	data, err := json.Marshal(map[string]string{"command": text})
	if err != nil {
		panic(err) // a map of texts
	}
	return string(data)
}

// Deny, ask and allow, by the hub; which rule of which version decided is on
// record. A policy file with an error changes nothing.
func TestAPolicyDecidesCalls(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("worker", scripted("worker"))
	_, err := r.policy("", "rules:\n  - {name: push, effect: deny, command: git push, reason: people push}\n  - {name: make, effect: ask, command: make}\n")
	require.NoError(t, err)
	_, err = r.policy("", "rules:\n  - {name: push, effect: allow, comand: git push}\n")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "policy.yaml:2")
	res, err := r.policy("worker", "rules:\n  - {name: ok, effect: allow, command: make}\n")
	require.NoError(t, err)
	require.EqualValues(t, 1, res.GetPolicy().GetVersion())
	kept, err := r.user.Policies.GetPolicy(t.Context(), &deckhandv1.GetPolicyRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, kept.GetPolicy().GetVersion(), "the one with an error is nowhere")
	require.Len(t, r.audited("policy.applied"), 2)

	task := r.submit("worker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	denied, err := r.propose(lease, 1, 0, "shell_exec", command(`cd x; bash -c "git -C . push"`))
	require.NoError(t, err)
	require.Equal(t, stepDenied, denied.GetState())
	require.Equal(t, "push", denied.GetDecision().GetRule())
	require.Equal(t, "organisation 1, agent 1", denied.GetDecision().GetVersion())
	require.Contains(t, denied.GetObservation(), "people push")
	// A worker that lies, and wants it made all the same.
	lied, err := r.execute(lease, denied.GetId())
	require.NoError(t, err)
	require.Equal(t, stepDenied, lied.GetState())
	r.turn(lease, 2)
	free, err := r.propose(lease, 2, 0, "shell_exec", command("ls"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, free.GetState())
	_, err = r.execute(lease, free.GetId())
	require.NoError(t, err)
	r.turn(lease, 3)
	asked, err := r.propose(lease, 3, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, asked.GetState(), "ask beats allow")
	require.Equal(t, []string{"ls"}, node.all())

	// What another policy would have decided on the same steps.
	replay, err := r.user.Policies.ReplayPolicy(t.Context(), &deckhandv1.ReplayPolicyRequest{Yaml: "rules:\n  - {name: ls, effect: deny, command: ls}\n"})
	require.NoError(t, err)
	require.EqualValues(t, 3, replay.GetSteps())
	would := map[string]string{}
	for _, c := range replay.GetChanged() {
		would[c.GetStepId()] = c.GetWas().GetEffect() + " " + c.GetWouldBe().GetEffect()
	}
	require.Equal(t, map[string]string{denied.GetId(): "deny ", free.GetId(): " deny", asked.GetId(): "ask allow"}, would)
}

// What is known to be dangerous waits for a person and is audited, also in a
// script that an earlier call wrote, and whatever the rules allow.
func TestADangerousCallIsAskedAboutAndAudited(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("worker", scripted("worker"))
	_, err := r.policy("", "rules:\n  - {name: all, effect: allow, tool: shell_exec}\n")
	require.NoError(t, err)
	task := r.submit("worker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	write, err := r.propose(lease, 1, 0, "file_write", `{"path":"tidy.sh","content":"rm -rf \"/\"\n"}`)
	require.NoError(t, err)
	require.Equal(t, stepGranted, write.GetState())
	_, err = r.execute(lease, write.GetId())
	require.NoError(t, err)
	r.turn(lease, 2)
	step, err := r.propose(lease, 2, 0, "shell_exec", command("bash tidy.sh"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState())
	require.Equal(t, []string{"wipe"}, step.GetDecision().GetDangers())
	require.Contains(t, step.GetDecisionReason(), "known to be dangerous")
	require.Len(t, r.audited("policy.dangerous"), 1)
	require.NoError(t, r.yield(lease))
	require.Contains(t, r.item(task.GetId()).GetWhy(), "known to be dangerous")
	require.Empty(t, node.all())
}

// An approval that is answered after the policy changed: it is asked about again,
// and not made at all where the policy denies it by now.
func TestAChangedPolicyAsksAgain(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", command("make"))
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	_, err = r.policy("", "rules:\n  - {effect: deny, command: git push}\n")
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	again, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepWaiting, again.GetState())
	require.Contains(t, again.GetDecisionReason(), "has changed since: policy")
	require.Empty(t, node.all())
	require.NoError(t, r.yield(lease))
	second := r.item(task.GetId())
	require.NotEqual(t, item.GetId(), second.GetId())

	_, err = r.policy("", "rules:\n  - {effect: deny, command: make}\n")
	require.NoError(t, err)
	_, err = r.answer(approve(second.GetId(), ""))
	require.True(t, fault.Is(err, fault.Denied), "nobody approves what the policy denies: %v", err)
	_, err = r.answer(approve(second.GetId(), command("true")))
	require.NoError(t, err)
	_, err = r.policy("", "rules:\n  - {effect: deny, command: [make, \"true\"]}\n")
	require.NoError(t, err)
	lease = r.begin(task.GetId(), 3)
	never, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepDenied, never.GetState())
	require.Empty(t, node.all())
}

// Categories of an organisation, and how often tools may be called.
func TestCategoriesAndLimitsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("worker", scripted("worker"))
	_, err := r.policy("", "categories: {file_list: dangerous}\nlimits:\n  - {tool: shell_exec, calls: 2, per: 1h}\n")
	require.NoError(t, err)
	task := r.submit("worker")
	lease := r.begin(task.GetId(), 1)
	for n := range int32(3) {
		r.turn(lease, n+1)
		step, err := r.propose(lease, n+1, 0, "shell_exec", command("ls"))
		require.NoError(t, err)
		if n == 2 {
			require.Equal(t, stepDenied, step.GetState())
			require.Equal(t, string(fault.RateLimited), step.GetErrorCode())
			require.Contains(t, step.GetObservation(), "shell_exec may be called 2 times in 1h0m0s")
			break
		}
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	r.turn(lease, 4)
	step, err := r.propose(lease, 4, 0, "file_list", `{"path":"."}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState())
	require.Equal(t, deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS, step.GetCategory())
}

// "always allow this" is a rule with scope and expiry that people see and
// undo; what is dangerous is asked about all the same.
func TestAlwaysAllowIsARuleThatIsSeenAndTakenBack(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", command("git status && make -j4"))
	always := approve(item.GetId(), "")
	always.GetApprove().Always = &deckhandv1.AlwaysAllow{Scope: "commands"}
	own := r.Client(t, userToken(t, r.store(), r.OrgID, "olga", "advanced"))
	_, err := answerAs(t, own, always)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = r.answer(always)
	require.NoError(t, err)
	rules, err := r.user.Policies.ListAllowRules(t.Context(), &deckhandv1.ListAllowRulesRequest{})
	require.NoError(t, err)
	require.Len(t, rules.GetRules(), 1)
	rule := rules.GetRules()[0]
	require.Equal(t, []string{"git status", "make"}, rule.GetCommands())
	require.Equal(t, "asker", rule.GetAgentName())
	require.InDelta(t, 30*24, rule.GetExpiresAt().AsTime().Sub(rule.GetCreatedAt().AsTime()).Hours(), 1)
	require.Len(t, r.audited("policy.always_allowed"), 1)

	lease := r.begin(task.GetId(), 2)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	for n, c := range []struct {
		command string
		want    deckhandv1.StepState
	}{
		{"make test", stepGranted}, {"git status -s && make lint", stepGranted},
		{"git push", stepWaiting}, {"git status -s | make -f -", stepWaiting}, {"make $(git push)", stepWaiting}, {"rm -rf /", stepWaiting},
	} {
		r.turn(lease, int32(n)+2)
		got, err := r.propose(lease, int32(n)+2, 0, "shell_exec", command(c.command))
		require.NoError(t, err)
		require.Equal(t, c.want, got.GetState(), c.command)
		if c.want == stepGranted {
			require.Equal(t, rule.GetId(), got.GetDecision().GetRule())
			_, err = r.execute(lease, got.GetId())
			require.NoError(t, err)
		} else if c.command == "rm -rf /" {
			break
		}
	}
	_, err = own.Policies.RevokeAllowRule(t.Context(), &deckhandv1.RevokeAllowRuleRequest{RuleId: rule.GetId()})
	require.True(t, fault.Is(err, fault.Denied), "somebody else's rule: %v", err)
	_, err = r.user.Policies.RevokeAllowRule(t.Context(), &deckhandv1.RevokeAllowRuleRequest{RuleId: rule.GetId()})
	require.NoError(t, err)
	r.turn(lease, 8)
	got, err := r.propose(lease, 8, 0, "shell_exec", command("make test"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, got.GetState())
	require.Len(t, r.audited("policy.rule_revoked"), 1)
}

// Another way, another plan and a question reach the model as what came of
// its call, which is not made.
func TestAnswersInWordsReachTheModel(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	for _, c := range []struct {
		answer *deckhandv1.AnswerInboxItemRequest
		name   string
		want   []string
	}{
		{&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Suggest_{Suggest: &deckhandv1.AnswerInboxItemRequest_Suggest{Text: "use the attic"}}}, "suggest", []string{"another way: use the attic"}},
		{&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Replan_{Replan: &deckhandv1.AnswerInboxItemRequest_Replan{Text: "a backup first", Items: []*deckhandv1.PlanItem{{Title: "Back up"}}}}}, "replan", []string{"replaced your plan", "a backup first"}},
		{&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Clarify_{Clarify: &deckhandv1.AnswerInboxItemRequest_Clarify{Question: "who uses it?"}}}, "clarify", []string{"They ask: who uses it?"}},
	} {
		task, step, item := r.park("asker", "shell_exec", command("rm -r old"))
		c.answer.ItemId = item.GetId()
		answered, err := r.answer(c.answer)
		require.NoError(t, err)
		require.Equal(t, c.name, answered.GetAnswer())
		denied := r.step(step.GetId())
		require.Equal(t, stepDenied, denied.GetState())
		for _, want := range c.want {
			require.Contains(t, denied.GetObservation(), want)
		}
		lease := r.begin(task.GetId(), 2)
		same, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, stepDenied, same.GetState())
		require.Len(t, r.audited("inbox."+c.name), 1)
		r.finish(lease)
	}
	require.Empty(t, node.all())
}

// An approval that is 72 hours old, across three restarts of the hub, waits as
// it was asked, and is answered as any other.
func TestAnApprovalOfThreeDaysAcrossThreeRestarts(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	r := newRig(t, hubtest.Start(t, cfg), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec], timeout: 96h"))
	task, step, item := r.park("asker", "shell_exec", command("make"))
	r.node.Stop()
	for range 3 {
		r.Hub.Stop()
		h := hubtest.Start(t, cfg)
		r.Hub, r.user, r.workers = h, h.Client(t, h.AdminToken), h.Client(t, h.WorkerToken)
		// A day goes by.
		r.exec("UPDATE inbox_items SET asked_at = asked_at - interval '24 hours', expires_at = expires_at - interval '24 hours'")
		require.Equal(t, item.GetId(), r.item(task.GetId()).GetId())
		require.Equal(t, taskAwaiting, r.task(task.GetId()).GetState())
	}
	waited := r.item(task.GetId())
	require.GreaterOrEqual(t, time.Since(waited.GetAskedAt().AsTime()), 72*time.Hour)
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	require.Equal(t, stepGranted, r.step(step.GetId()).GetState())
	require.Equal(t, taskQueued, r.task(task.GetId()).GetState())
}

// A worker that lies: about the arguments of a call that was decided,
// about whose call it is, about what was decided, and about the task.
func TestAWorkerThatLies(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", strings.Replace(asking("asker", "tools: [shell_exec]"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	r.apply("other", strings.Replace(scripted("other"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	task, step, item := r.park("asker", "shell_exec", command("make"))
	theirs := r.begin(r.submit("other").GetId(), 1)
	r.turn(theirs, 1)

	_, err := r.execute(theirs, step.GetId())
	require.True(t, fault.Is(err, fault.NotFound), "a step of another task: %v", err)
	forged := &deckhandv1.Lease{TaskId: task.GetId(), Attempt: theirs.GetAttempt(), Token: theirs.GetToken()}
	_, err = r.execute(forged, step.GetId())
	require.Error(t, err, "another task's lease")
	_, err = r.propose(forged, 1, 1, "shell_exec", command("true"))
	require.Error(t, err)
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState())

	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 2)
	_, err = r.propose(lease, 1, 0, "shell_exec", command("make install"))
	require.True(t, fault.Is(err, fault.Exists), "other arguments than were approved: %v", err)
	_, err = r.propose(lease, 1, 0, "file_write", `{"path":"a","content":"b"}`)
	require.True(t, fault.Is(err, fault.Exists), "another tool: %v", err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, stepSucceeded, done.GetState())
	require.Equal(t, []string{"make"}, node.all(), "what was approved, as the hub has it")

	// It cannot end a run in a state of its own choosing, or make a call of a run
	// that it has ended.
	second, err := r.propose(lease, 2, 0, "shell_exec", command("make clean"))
	if err == nil {
		second, err = r.execute(lease, second.GetId())
		require.NoError(t, err)
		require.Equal(t, stepWaiting, second.GetState(), "it does not run because it was said to be granted")
	}
	r.finish(lease)
	_, err = r.execute(lease, step.GetId())
	require.Error(t, err, "its lease has ended")
	require.Equal(t, []string{"make"}, node.all())

	// While a node is away, it is told nothing of a call that is to be made there.
	granted, err := r.propose(theirs, 1, 0, "file_read", `{"path":"x"}`)
	require.NoError(t, err)
	require.Equal(t, stepGranted, granted.GetState())
	r.node.Stop()
	_, err = r.execute(&deckhandv1.Lease{TaskId: theirs.GetTaskId(), Attempt: theirs.GetAttempt(), Token: lease.GetToken()}, granted.GetId())
	require.Equal(t, fault.LeaseEnded, fault.As(fault.FromConnect(err)).Code, "%v", err)
}

// What a task wrote by whatever call is looked into when a later one runs it, also
// before the earlier one was made.
func TestWhatEarlierCallsWroteIsLookedIntoWhenItRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("writer", strings.Replace(scripted("writer"), "[shell_exec,", "[file_edit, shell_exec,", 1))
	lease := r.begin(r.submit("writer").GetId(), 1)
	r.turn(lease, 1)
	call := int32(0)
	propose := func(tool, arguments string) *deckhandv1.Step {
		step, err := r.propose(lease, 1, call, tool, arguments)
		require.NoError(t, err)
		call++
		return step
	}
	first := propose("shell_exec", command(`printf 'rm -rf /\n' > a.sh`))
	require.Equal(t, stepGranted, first.GetState())
	early := propose("shell_exec", command("sh ./a.sh"))
	require.Equal(t, stepWaiting, early.GetState(), "the first is not made yet")
	require.Equal(t, []string{"wipe"}, early.GetDecision().GetDangers())
	_, err := r.execute(lease, first.GetId())
	require.NoError(t, err)

	require.Equal(t, stepGranted, propose("shell_exec", command("sh b.sh")).GetState(), "a script that was there before")
	propose("file_edit", `{"path":"b.sh","old_string":"true","new_string":"rm -rf /"}`)
	require.Equal(t, stepWaiting, propose("shell_exec", command("sh b.sh")).GetState())
	require.Equal(t, stepGranted, propose("shell_exec", command("./gen > c.sh")).GetState())
	opaque := propose("shell_exec", command("sh c.sh"))
	require.Equal(t, stepWaiting, opaque.GetState(), "nobody knows what is in it")
	require.Contains(t, opaque.GetDecision().GetWhy(), "this task wrote")
}

// A file that a command wrote in a way that its words do not tell is read when a
// later command runs it: the snapshots of the workspace know that it was changed,
// and the node what is in it now. What the task did not change is run as it is.
func TestWhatACommandWroteUnseenIsLookedIntoWhenItRuns(t *testing.T) {
	t.Parallel()
	wrote := map[string][]*nodev1.FileChange{
		"./gen": {changedTo("tidy.sh", "rm -rf /\n"), changedTo("fine.sh", "ls\n"), changedTo("app", "\x7fELF\x00")},
	}
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		changes := wrote[spec.GetArgv()[2]]
		return "", &nodev1.Exec{Workspace: &nodev1.WorkspaceChange{Id: spec.GetExecId(), After: 1, Files: int32(len(changes)), Changes: changes}}
	})
	r.apply("writer", scripted("writer"))
	lease, jail := r.beginIn(r.submit("writer").GetId(), 1)
	for name, content := range map[string]string{"tidy.sh": "rm -rf /\n", "fine.sh": "ls\n", "app": "\x7fELF\x00", "old.sh": "rm -rf /\n"} {
		_, err := r.node.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: jail, Path: name, Content: []byte(content)})
		require.NoError(t, err)
	}
	r.turn(lease, 1)
	call := int32(0)
	propose := func(text string) *deckhandv1.Step {
		step, err := r.propose(lease, 1, call, "shell_exec", command(text))
		require.NoError(t, err)
		call++
		return step
	}
	run := func(text string) {
		step := propose(text)
		require.Equal(t, stepGranted, step.GetState(), text)
		_, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
	}
	run("sh tidy.sh")
	run("./gen")
	run("sh fine.sh")
	run("./app --help")
	run("sh old.sh")
	asked := propose("sh tidy.sh")
	require.Equal(t, stepWaiting, asked.GetState())
	require.Equal(t, []string{"wipe"}, asked.GetDecision().GetDangers())
}

func changedTo(name, content string) *nodev1.FileChange {
	sum := sha256.Sum256([]byte(content))
	return &nodev1.FileChange{Path: []byte(name), Kind: nodev1.ChangeKind_CHANGE_KIND_ADDED, After: &nodev1.FileState{
		Type: "file", Mode: 0o755, Size: int64(len(content)), Digest: hex.EncodeToString(sum[:]),
	}}
}
