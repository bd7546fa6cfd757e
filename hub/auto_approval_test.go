package hub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func always(id, scope string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{
		Approve: &deckhandv1.AnswerInboxItemRequest_Approve{Always: &deckhandv1.AlwaysAllow{Scope: scope}},
	}}
}

// After ten approvals of calls that look alike, and no rejection, it is
// offered once to be asked no more. Nothing is assumed; a rejection takes it back.
func TestAutoApprovalIsOfferedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [file_write, shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	turn := int32(0)
	ask := func(tool, arguments string) (*deckhandv1.Step, *deckhandv1.InboxItem) {
		turn++
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, tool, arguments)
		require.NoError(t, err)
		if step.GetState() != stepWaiting {
			return step, nil
		}
		return step, r.item(task.GetId())
	}
	write := func(n int) string { return fmt.Sprintf(`{"path":"docs/%d.md","content":"page %d"}`, n, n) }
	for n := range 10 {
		step, item := ask("file_write", write(n))
		require.Equal(t, stepWaiting, step.GetState(), "nothing is assumed")
		require.Nil(t, item.GetOffer(), "after %d", n)
		_, err := r.answer(approve(item.GetId(), ""))
		require.NoError(t, err)
	}
	// Another shape is another matter.
	_, item := ask("file_write", `{"path":"src/a.go","content":"x"}`)
	require.Nil(t, item.GetOffer())
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)

	step, item := ask("file_write", write(10))
	require.Equal(t, stepWaiting, step.GetState())
	require.EqualValues(t, 10, item.GetOffer().GetApprovals())
	require.Equal(t, "file_write(content, path=/workspace/docs/*)", item.GetOffer().GetShape())
	_, err = answerAs(t, r.as("ada", "advanced"), always(item.GetId(), "shape"))
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err, "it may be left")

	_, item = ask("file_write", write(11))
	require.Nil(t, item.GetOffer(), "it is offered once")
	_, err = r.answer(always(item.GetId(), "shape"))
	require.NoError(t, err, "and may be taken later too")
	step, _ = ask("file_write", write(12))
	require.Equal(t, stepGranted, step.GetState())
	require.Contains(t, step.GetDecision().GetRule(), "rule_", "by a visible rule")
	step, item = ask("file_write", `{"path":"src/b.go","content":"x"}`)
	require.Equal(t, stepWaiting, step.GetState())
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)

	// One rejection of a call of the shape takes the rule back.
	_, err = r.policy("", "rules:\n  - {name: seven, effect: ask, path: /workspace/docs/7.md}\n")
	require.NoError(t, err)
	_, item = ask("file_write", write(7))
	_, err = r.answer(reject(item.GetId(), "not this one"))
	require.NoError(t, err)
	require.Len(t, r.audited("policy.rule_revoked"), 1)
	step, item = ask("file_write", write(13))
	require.Equal(t, stepWaiting, step.GetState())
	require.Nil(t, item.GetOffer(), "and it is offered no more")
	_, err = r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)

	// What cannot be undone has no shape.
	for range 12 {
		_, item = ask("shell_exec", command("make"))
		require.Nil(t, item.GetOffer())
		_, err = r.answer(approve(item.GetId(), ""))
		require.NoError(t, err)
	}
	_, item = ask("shell_exec", command("make"))
	_, err = r.answer(always(item.GetId(), "shape"))
	require.ErrorContains(t, err, "cannot be undone")
}

// Calls that are made at once by many tasks are counted exactly.
func TestALimitOfCallsHoldsForCallsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	_, err := r.policy("", "limits:\n  - {tool: file_write, calls: 5, per: 1h}\n")
	require.NoError(t, err)
	r.apply("many", strings.Replace(scripted("many"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	leases := make([]*deckhandv1.Lease, 4)
	for i := range leases {
		leases[i] = r.begin(r.submit("many").GetId(), 1)
		r.turn(leases[i], 1)
	}
	var mu sync.Mutex
	granted, denied := 0, 0
	var all sync.WaitGroup
	for _, lease := range leases {
		all.Go(func() {
			for i := range int32(3) {
				step, err := r.propose(lease, 1, i, "file_write", `{"path":"a","content":"b"}`)
				mu.Lock()
				switch {
				case err != nil:
					t.Error(err)
				case step.GetState() == stepDenied:
					denied++
				default:
					granted++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, 5, granted)
	require.Equal(t, 7, denied)
	step, err := r.propose(leases[0], 1, 9, "file_list", `{"path":"."}`)
	require.NoError(t, err)
	require.Equal(t, stepGranted, step.GetState(), "other tools are not counted")
	require.Equal(t, "5", r.sql("SELECT count(*)::text FROM limited_calls"))
}

// A rule of a policy allows what only danger asks about; what the persona
// asks about takes a person's own answer.
func TestWhatARuleAllowsAndWhatThePersonaAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	_, err := r.policy("", "rules:\n  - {name: building, effect: allow, command: make}\n  - {name: gone, effect: allow, tool: file_delete}\n")
	require.NoError(t, err)
	with := func(name, more string) *deckhandv1.Lease {
		r.apply(name, strings.Replace(strings.Replace(scripted(name), "limits:", more+"\nlimits:", 1), "[shell_exec,", "[file_delete, shell_exec,", 1))
		lease := r.begin(r.submit(name).GetId(), 1)
		r.turn(lease, 1)
		return lease
	}
	for _, c := range []struct {
		name, more     string
		shell, deletes deckhandv1.StepState
	}{
		{"autonomous", "mode: autonomous", stepGranted, stepGranted},
		{"supervised", "mode: supervised", stepWaiting, stepWaiting},
		{"listing", "approvals: {tools: [shell_exec]}", stepWaiting, stepGranted},
	} {
		lease := with(c.name, c.more)
		shell, err := r.propose(lease, 1, 0, "shell_exec", command("make"))
		require.NoError(t, err)
		require.Equal(t, c.shell, shell.GetState(), c.name)
		deletes, err := r.propose(lease, 1, 1, "file_delete", `{"path":"old"}`)
		require.NoError(t, err)
		require.Equal(t, c.deletes, deletes.GetState(), c.name)
	}
	lease := with("watched", "mode: supervised")
	asked, err := r.propose(lease, 1, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	_, err = r.answer(always(r.item(lease.GetTaskId()).GetId(), "exact"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, r.step(asked.GetId()).GetState())
	same, err := r.propose(lease, 1, 1, "shell_exec", command("make"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, same.GetState(), "an answer counts")
	other, err := r.propose(lease, 1, 2, "shell_exec", command("make all"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, other.GetState())
}

// A run has a mode, a model and limits of its own: less, and more care, for
// whoever submits it; more, and less care, for administrators.
func TestARunHasMoreCareAndLessOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("watched", strings.Replace(scripted("watched"), "limits:", "mode: supervised\nworkspace: {scope: task}\nlimits:", 1))
	someone := r.as("ada", "advanced")
	submit := func(o *deckhandv1.TaskOverride, admin bool) (*deckhandv1.Task, error) {
		client := someone
		if admin {
			client = r.user
		}
		res, err := client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "watched", Goal: "x", Override: o})
		if err != nil {
			return nil, err
		}
		return res.GetTask(), nil
	}
	for name, c := range map[string]struct {
		with *deckhandv1.TaskOverride
		want string
	}{
		"less care":       {&deckhandv1.TaskOverride{Mode: "autonomous"}, "less careful than supervised"},
		"more iterations": {&deckhandv1.TaskOverride{Limits: &deckhandv1.TaskLimits{Iterations: 21}}, "override.limits.iterations is more than the persona"},
		"more money":      {&deckhandv1.TaskOverride{Limits: &deckhandv1.TaskLimits{CostMicros: 1e12}}, "override.limits.cost_micros"},
		"more time":       {&deckhandv1.TaskOverride{Limits: &deckhandv1.TaskLimits{ActiveTime: durationpb.New(1e14)}}, "override.limits.active_time"},
	} {
		_, err := submit(c.with, false)
		require.True(t, fault.Is(err, fault.Denied), "%s: %v", name, err)
		require.ErrorContains(t, err, c.want, name)
		task, err := submit(c.with, true)
		require.NoError(t, err, name)
		r.cancel(task.GetId())
	}
	for name, c := range map[string]struct {
		with *deckhandv1.TaskOverride
		want string
	}{
		"half a model":     {&deckhandv1.TaskOverride{Model: "claude-x"}, "go together"},
		"no such provider": {&deckhandv1.TaskOverride{Provider: "nobody", Model: "x"}, "nobody"},
		"not connected":    {&deckhandv1.TaskOverride{Provider: "openai", Model: "gpt-5"}, "openai"},
		"memory":           {&deckhandv1.TaskOverride{MemoryBytes: 1 << 30}, "override.memory_bytes"},
		"no such mode":     {&deckhandv1.TaskOverride{Mode: "careless"}, "mode"},
	} {
		_, err := submit(c.with, true)
		require.ErrorContains(t, err, c.want, name)
	}

	task, err := submit(&deckhandv1.TaskOverride{Mode: "review", Limits: &deckhandv1.TaskLimits{Iterations: 5}}, false)
	require.NoError(t, err)
	require.Equal(t, "review", task.GetOverride().GetMode())
	require.EqualValues(t, 5, task.GetOverride().GetLimits().GetIterations())
	claimed := r.claim(task.GetId(), 1)
	require.EqualValues(t, 5, claimed.GetTask().GetOverride().GetLimits().GetIterations(), "its worker is told")
	_, err = r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: claimed.GetLease()})
	require.NoError(t, err)
	r.turn(claimed.GetLease(), 1)
	step, err := r.propose(claimed.GetLease(), 1, 0, "file_write", `{"path":"a","content":"b"}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState(), "what a supervised agent asks about it asks about in review mode, too")

	task, err = submit(&deckhandv1.TaskOverride{Mode: "autonomous"}, true)
	require.NoError(t, err)
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err = r.propose(lease, 1, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, step.GetState())
}

// Approvals of more than 30 days ago, and those beside a rejection, offer
// nothing.
func TestWhatOffersNoAutoApproval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(r *rig, ask func() *deckhandv1.InboxItem){
		"old ones": func(r *rig, _ func() *deckhandv1.InboxItem) {
			r.exec("UPDATE inbox_items SET answered_at = answered_at - interval '31 days'")
		},
		"a rejection": func(r *rig, ask func() *deckhandv1.InboxItem) {
			_, err := r.answer(reject(ask().GetId(), "no"))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
			r.apply("asker", asking("asker", "tools: [file_write]"))
			task := r.submit("asker")
			lease := r.begin(task.GetId(), 1)
			turn := int32(0)
			ask := func() *deckhandv1.InboxItem {
				turn++
				r.turn(lease, turn)
				_, err := r.propose(lease, turn, 0, "file_write", `{"path":"a","content":"b"}`)
				require.NoError(t, err)
				return r.item(task.GetId())
			}
			for range 10 {
				_, err := r.answer(approve(ask().GetId(), ""))
				require.NoError(t, err)
			}
			c(r, ask)
			r.exec("DELETE FROM auto_offers")
			require.Nil(t, ask().GetOffer())
		})
	}
}

// By default an unattended run deletes what a snapshot can restore, up to 100
// files a call; the rule is seen, and goes when another policy is applied.
func TestAnUnattendedRunDeletesWhatCanBeGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	shown, err := r.user.Policies.GetPolicy(t.Context(), &deckhandv1.GetPolicyRequest{})
	require.NoError(t, err)
	require.Contains(t, shown.GetPolicy().GetYaml(), "delete-what-can-be-given-back")
	with := func(name, more string) *deckhandv1.Lease {
		r.apply(name, strings.Replace(strings.Replace(scripted(name), "limits:", more+"\nlimits:", 1), "[shell_exec,", "[file_delete, shell_exec,", 1))
		lease := r.begin(r.submit(name).GetId(), 1)
		r.turn(lease, 1)
		return lease
	}
	deletes := func(lease *deckhandv1.Lease, call int32, arguments string) *deckhandv1.Step {
		step, err := r.propose(lease, 1, call, "file_delete", arguments)
		require.NoError(t, err)
		return step
	}
	lease := with("free", "mode: autonomous")
	write := func(from, to int32) {
		for i := from; i < to; i++ {
			step, err := r.propose(lease, 1, i, "file_write", fmt.Sprintf(`{"path":"old/%d","content":"x"}`, i))
			require.NoError(t, err)
			_, err = r.execute(lease, step.GetId())
			require.NoError(t, err)
		}
	}
	write(0, 3)
	gone := deletes(lease, 3, `{"path":"old","recursive":true}`)
	require.Equal(t, stepGranted, gone.GetState(), gone.GetDecision().GetWhy())
	require.Equal(t, "delete-what-can-be-given-back", gone.GetDecision().GetRule())
	require.Equal(t, stepWaiting, deletes(lease, 4, `{"path":"/workspace","recursive":true}`).GetState(), "the workspace as a whole")

	lease = with("many", "mode: autonomous")
	write(0, 101)
	require.Equal(t, stepWaiting, deletes(lease, 101, `{"path":"old","recursive":true}`).GetState(), "101 files")
	require.Equal(t, stepWaiting, deletes(with("watched", "mode: supervised"), 0, `{"path":"old"}`).GetState())

	_, err = r.policy("", "rules: []\n")
	require.NoError(t, err)
	require.Equal(t, stepWaiting, deletes(with("later", "mode: autonomous"), 0, `{"path":"old"}`).GetState())
}
