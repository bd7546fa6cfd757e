package hub_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) judge(itemID string, arguments map[string]any) (*deckhandv1.JudgeInboxItemResponse, string, error) {
	r.t.Helper()
	data, err := json.Marshal(arguments)
	require.NoError(r.t, err)
	res, err := r.user.Inbox.JudgeInboxItem(r.t.Context(), &deckhandv1.JudgeInboxItemRequest{ItemId: itemID, ArgumentsJson: string(data)})
	if err != nil {
		return nil, "", err
	}
	return res, string(data), nil
}

// proposeWaiting proposes a call that waits, and returns its item.
func (r *rig) proposeWaiting(lease *deckhandv1.Lease, turn int32, tool, arguments string) *deckhandv1.InboxItem {
	r.t.Helper()
	r.turn(lease, turn)
	step, err := r.propose(lease, turn, 0, tool, arguments)
	require.NoError(r.t, err)
	require.Equal(r.t, stepWaiting, step.GetState(), "%v", step)
	for _, item := range r.items(&deckhandv1.ListInboxRequest{TaskId: lease.GetTaskId()}) {
		if item.GetStepId() == step.GetId() {
			return r.inboxItem(item.GetId())
		}
	}
	require.Fail(r.t, "the call has no item")
	return nil
}

// A file call's card has what the call would do to the workspace as it was when the person
// was asked, and says when the call will fail.
func TestAFileCallsCardShowsItsChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	persona := asking("asker", "tools: [file_edit, file_delete, file_move, apply_patch]")
	r.apply("asker", strings.Replace(persona, "file_list,", "file_list, file_edit, file_delete, file_move, apply_patch,", 1))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	for i, file := range []string{`{"path":"docs/guide.md","content":"one\ntwo\nthree\n"}`, `{"path":"docs/old.md","content":"gone\n"}`} {
		step, err := r.propose(lease, 1, int32(i), "file_write", file) //nolint:gosec // two of them
		require.NoError(t, err)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
	}

	item := r.proposeWaiting(lease, 2, "file_edit", `{"path":"docs/guide.md","old_string":"two","new_string":"2\n2b"}`)
	require.Len(t, item.GetChanges(), 1)
	c := item.GetChanges()[0]
	require.Equal(t, "edit", c.GetKind())
	require.EqualValues(t, 3, c.GetBefore().GetLines())
	require.EqualValues(t, 4, c.GetAfter().GetLines())
	require.EqualValues(t, 2, c.GetAdded())
	require.EqualValues(t, 1, c.GetDeleted())
	require.Contains(t, c.GetUnified(), "-two\n+2\n+2b\n")
	require.Empty(t, c.GetProblem())
	require.NotNil(t, item.GetChangesAt())
	require.Equal(t, "Edit docs/guide.md", item.GetSentence())
	require.True(t, item.GetDecision().GetReversible())
	for _, listed := range r.items(&deckhandv1.ListInboxRequest{TaskId: task.GetId()}) {
		require.Empty(t, listed.GetChanges(), "lists are light")
		require.Nil(t, listed.GetContext())
		require.Equal(t, item.GetShownDigest(), listed.GetShownDigest())
	}

	item = r.proposeWaiting(lease, 3, "file_edit", `{"path":"docs/guide.md","old_string":"not there","new_string":"x"}`)
	require.Contains(t, item.GetChanges()[0].GetProblem(), "`not there` is not in docs/guide.md")

	item = r.proposeWaiting(lease, 4, "file_delete", `{"path":"docs","recursive":true}`)
	c = item.GetChanges()[0]
	require.Equal(t, "delete", c.GetKind())
	require.Equal(t, "dir", c.GetBefore().GetType())
	require.EqualValues(t, 2, c.GetFiles())
	require.EqualValues(t, len("one\ntwo\nthree\n")+len("gone\n"), c.GetSizeBytes())
	require.Len(t, c.GetEntries(), 2)

	item = r.proposeWaiting(lease, 5, "file_delete", `{"path":"docs"}`)
	require.Contains(t, item.GetChanges()[0].GetProblem(), "recursive is not set")

	item = r.proposeWaiting(lease, 6, "file_move", `{"from":"docs/old.md","to":"docs/guide.md"}`)
	require.Equal(t, "docs/guide.md exists, and overwrite is not set", item.GetChanges()[0].GetProblem())
	item = r.proposeWaiting(lease, 7, "file_move", `{"from":"docs/old.md","to":"docs/guide.md","overwrite":true}`)
	c = item.GetChanges()[0]
	require.Empty(t, c.GetProblem())
	require.EqualValues(t, 3, c.GetTarget().GetLines())
	require.Contains(t, c.GetUnified(), "-three\n")

	item = r.proposeWaiting(lease, 8, "apply_patch", `{"input":"*** Begin Patch\n*** Add File: new.md\n+hello\n*** Update File: docs/guide.md\n@@\n-one\n+1\n*** End Patch"}`)
	require.Len(t, item.GetChanges(), 2)
	require.Equal(t, "create", item.GetChanges()[0].GetKind())
	require.Contains(t, item.GetChanges()[1].GetUnified(), "-one\n+1\n")
}

// An approval is for the changes that were shown, and the card has them still when the node is
// gone.
func TestAnApprovalIsForTheChangesThatWereShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [file_write]"))
	_, step, item := r.park("asker", "file_write", `{"path":"a.txt","content":"new\n"}`)
	before := r.inboxItem(item.GetId())
	require.Equal(t, "create", before.GetChanges()[0].GetKind())

	r.sql("UPDATE inbox_items SET changes_digest = 'another' WHERE id = $1 RETURNING id", item.GetId())
	_, err := r.answer(&deckhandv1.AnswerInboxItemRequest{
		ItemId: item.GetId(), ShownDigest: before.GetShownDigest(), Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}},
	})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Precondition), "%v", err)
	require.Contains(t, err.Error(), "look again")
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState())

	r.node.Stop()
	require.Contains(t, r.inboxItem(item.GetId()).GetChanges()[0].GetUnified(), "+new\n")
}

// What belongs to a decision comes with the item: the goal, the plan, the position among the
// task's questions, and what was decided on calls like this one, with the last rejection.
func TestACardHasItsContext(t *testing.T) {
	t.Parallel()
	ran := &ran{}
	r := newRig(t, hubtest.Shared(t), ran.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	past, _, first := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	_, err := r.answer(reject(first.GetId(), "not on a Friday"))
	require.NoError(t, err)
	r.finish(r.begin(past.GetId(), 2))
	past, _, second := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	_, err = r.answer(approve(second.GetId(), ""))
	require.NoError(t, err)
	r.finish(r.begin(past.GetId(), 2))

	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	plan, err := r.propose(lease, 1, 0, "update_plan", `{"items":[{"id":"1","title":"Look around","status":"done"},{"id":"2","title":"Deploy","status":"in_progress"},{"id":"3","title":"Check","status":"pending"}]}`)
	require.NoError(t, err)
	_, err = r.execute(lease, plan.GetId())
	require.NoError(t, err)
	_ = r.proposeWaiting(lease, 2, "shell_exec", `{"command":"true"}`)
	item := r.proposeWaiting(lease, 3, "shell_exec", `{"command":"make deploy"}`)
	c := item.GetContext()
	require.Equal(t, "go on", c.GetGoal())
	require.Equal(t, "Deploy", c.GetPlanItem())
	require.EqualValues(t, 1, c.GetPlanDone())
	require.EqualValues(t, 3, c.GetPlanItems())
	require.EqualValues(t, 2, c.GetAsked())
	require.EqualValues(t, 1, c.GetSimilarApproved())
	require.EqualValues(t, 1, c.GetSimilarRejected())
	require.Equal(t, "not on a Friday", c.GetLastRejection().GetReason())
	require.Equal(t, first.GetId(), c.GetLastRejection().GetItemId())
	require.NotEmpty(t, c.GetLastRejection().GetBy())
	require.Contains(t, item.GetSentence(), "Run a command in the jail of asker on ")
	require.Equal(t, "persona", item.GetDecision().GetSource())
	require.Nil(t, item.GetOutcome(), "nothing has come of it")
}

// What came of a call is read in the place where it was approved.
func TestACardHasTheOutcome(t *testing.T) {
	t.Parallel()
	ran := &ran{}
	r := newRig(t, hubtest.Shared(t), ran.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	_, err := r.answer(approve(item.GetId(), ""))
	require.NoError(t, err)
	require.Equal(t, stepGranted, r.inboxItem(item.GetId()).GetOutcome().GetState())
	_, err = r.execute(r.begin(task.GetId(), 2), step.GetId())
	require.NoError(t, err)
	outcome := r.inboxItem(item.GetId()).GetOutcome()
	require.Equal(t, stepSucceeded, outcome.GetState())
	require.NotNil(t, outcome.ExitStatus)
	require.Zero(t, outcome.GetExitStatus())
	require.NotNil(t, outcome.GetFinishedAt())
	require.Contains(t, outcome.GetObservation(), "did it")
}

// An edited call is judged before it is approved, and the approval is for that judgement.
func TestAnEditedCallIsJudged(t *testing.T) {
	t.Parallel()
	ran := &ran{}
	r := newRig(t, hubtest.Shared(t), ran.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"ls"}`)

	harmless, _, err := r.judge(item.GetId(), map[string]any{"command": "ls -l\npwd"})
	require.NoError(t, err)
	require.Empty(t, harmless.GetDecision().GetDangers())
	require.Len(t, harmless.GetDecision().GetCommands(), 2)
	wipe, arguments, err := r.judge(item.GetId(), map[string]any{"command": "sudo rm -rf --no-preserve-root /"})
	require.NoError(t, err)
	require.NotEmpty(t, wipe.GetDecision().GetDangers())
	require.Equal(t, "ask", wipe.GetDecision().GetEffect())
	require.NotEqual(t, harmless.GetJudgedDigest(), wipe.GetJudgedDigest())
	_, _, err = r.judge(item.GetId(), map[string]any{"nonsense": true})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%v", err)
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState(), "nothing was decided")

	req := approve(item.GetId(), arguments)
	req.GetApprove().JudgedDigest = harmless.GetJudgedDigest()
	_, err = r.answer(req)
	require.True(t, fault.Is(fault.FromConnect(err), fault.Precondition), "%v", err)
	require.Empty(t, ran.all())

	_, arguments, err = r.judge(item.GetId(), map[string]any{"command": "ls -l\npwd"})
	require.NoError(t, err)
	req = approve(item.GetId(), arguments)
	req.GetApprove().JudgedDigest = harmless.GetJudgedDigest()
	_, err = r.answer(req)
	require.NoError(t, err)
	_, err = r.execute(r.begin(task.GetId(), 2), step.GetId())
	require.NoError(t, err)
	require.Len(t, ran.all(), 1)
	require.True(t, strings.HasSuffix(ran.all()[0], "ls -l\npwd"), "%q", ran.all()[0])
}

// An approval of an edited file call is for the changes that were shown of it.
func TestAnEditedFileCallIsForItsChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [file_write]"))
	task, step, item := r.park("asker", "file_write", `{"path":"a.txt","content":"one\n"}`)
	judged, arguments, err := r.judge(item.GetId(), map[string]any{"path": "b.txt", "content": "two\n"})
	require.NoError(t, err)
	require.Equal(t, "create", judged.GetChanges()[0].GetKind())
	again, _, err := r.judge(item.GetId(), map[string]any{"path": "b.txt", "content": "two\n"})
	require.NoError(t, err)
	require.Equal(t, judged.GetJudgedDigest(), again.GetJudgedDigest())

	_, err = r.node.WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId()), Path: "b.txt", Content: []byte("somebody else's\n")})
	require.NoError(t, err)
	req := approve(item.GetId(), arguments)
	req.GetApprove().JudgedDigest = judged.GetJudgedDigest()
	_, err = r.answer(req)
	require.True(t, fault.Is(fault.FromConnect(err), fault.Precondition), "%v", err)
	require.Contains(t, err.Error(), "what it would do to files")
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState())

	judged, _, err = r.judge(item.GetId(), map[string]any{"path": "b.txt", "content": "two\n"})
	require.NoError(t, err)
	require.Equal(t, "overwrite", judged.GetChanges()[0].GetKind())
	req.GetApprove().JudgedDigest = judged.GetJudgedDigest()
	_, err = r.answer(req)
	require.NoError(t, err)
}

// Calls are alike if they change the same, too: the same edit of another file is not.
func TestCallsAreAlikeIfTheyChangeTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [file_write, shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	first := r.proposeWaiting(lease, 1, "file_write", `{"path":"a.txt","content":"one\n"}`)
	same := r.proposeWaiting(lease, 2, "file_write", `{"path":"a.txt","content":"one\n"}`)
	other := r.proposeWaiting(lease, 3, "file_write", `{"path":"b.txt","content":"one\n"}`)
	command := r.proposeWaiting(lease, 4, "shell_exec", `{"command":"true"}`)
	require.NotEmpty(t, first.GetEffectKey())
	require.Equal(t, first.GetEffectKey(), same.GetEffectKey())
	require.Equal(t, first.GetAlikeKey(), same.GetAlikeKey())
	require.EqualValues(t, 2, first.GetAlikeCount()+same.GetAlikeCount()-1, "the first was alone when it was read")
	require.NotEqual(t, first.GetEffectKey(), other.GetEffectKey())
	require.NotEqual(t, first.GetAlikeKey(), other.GetAlikeKey())
	require.Empty(t, command.GetEffectKey(), "its arguments say all of it")
}

// The host of a request is said as it is looked up, with what may pass for another name, and
// whether the jail may send there.
func TestACardSaysWhereARequestGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) { return "", &nodev1.Exec{} })
	persona := strings.Replace(asking("asker", "tools: [http_post]"), "limits:", "egress: {allow: [api.example.com]}\nlimits:", 1)
	r.apply("asker", strings.Replace(persona, "file_list,", "file_list, http_post,", 1))
	task, _, item := r.park("asker", "http_post", `{"url":"https://api.example.com/v1?dry=1"}`)
	require.Equal(t, "Send POST to api.example.com", item.GetSentence())
	request := item.GetDecision().GetRequest()
	require.Equal(t, "POST", request.GetMethod())
	require.Empty(t, request.GetRefused())
	require.Empty(t, request.GetAsciiHost())
	_, err := r.answer(reject(item.GetId(), ""))
	require.NoError(t, err)
	r.finish(r.begin(task.GetId(), 2))
	_, _, item = r.park("asker", "http_post", `{"url":"https://аpi.example.com/v1"}`)
	request = item.GetDecision().GetRequest()
	require.Equal(t, "xn--pi-6kc.example.com", request.GetAsciiHost())
	require.Equal(t, []string{"аpi"}, request.GetMixedLabels())
	require.Contains(t, request.GetRefused(), "no rule allows xn--pi-6kc.example.com")
	require.NotEmpty(t, request.GetAllow())
}

// The card of a request names the credentials that the proxy adds to it, and lists the
// requests that the agent sent to that host before.
func TestACardSaysWhatGoesWithARequestAndWhatWentBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		if strings.Contains(string(spec.GetStdin()), "/missing") {
			return `{"answer":"HTTP 404 Not Found\nContent-Type: text/plain\n\nHTTP 200 OK"}`, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
		}
		return `{"answer":"HTTP 201 Created\n\nok"}`, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	r.credential("api", "POST")
	persona := strings.Replace(asking("pusher", "tools: [http_post, http_get]"), "limits:",
		"egress: {allow: [api.example.com, other.example.com]}\ncredentials: [api]\nlimits:", 1)
	r.apply("pusher", strings.Replace(persona, "file_list,", "file_list, http_post, http_get,", 1))
	send := func(tool, url string) *deckhandv1.InboxItem {
		task, step, item := r.park("pusher", tool, `{"url":"`+url+`"}`)
		item = r.inboxItem(item.GetId())
		_, err := r.answer(approve(item.GetId(), ""))
		require.NoError(t, err)
		lease := r.begin(task.GetId(), 2)
		_, err = r.execute(lease, step.GetId())
		require.NoError(t, err)
		r.finish(lease)
		return item
	}
	first := send("http_post", "https://api.example.com/v1/tickets")
	require.Equal(t, []string{"api"}, first.GetDecision().GetRequest().GetCredentials())
	require.Empty(t, first.GetContext().GetEarlierRequests())
	second := send("http_get", "https://API.example.com/missing?id=7")
	require.Empty(t, second.GetDecision().GetRequest().GetCredentials(), "it is for POST")
	send("http_get", "https://other.example.com/x")

	_, _, item := r.park("pusher", "http_post", `{"url":"https://api.example.com/v1/tickets/7"}`)
	item = r.inboxItem(item.GetId())
	earlier := item.GetContext().GetEarlierRequests()
	require.EqualValues(t, 2, item.GetContext().GetEarlierRequestsCount())
	require.Len(t, earlier, 2)
	require.Equal(t, "GET", earlier[0].GetMethod())
	require.Equal(t, "https://API.example.com/missing?id=7", earlier[0].GetUrl())
	require.EqualValues(t, 404, earlier[0].GetStatus())
	require.Equal(t, second.GetTaskId(), earlier[0].GetTaskId())
	require.EqualValues(t, 201, earlier[1].GetStatus())
	require.Equal(t, first.GetStepId(), earlier[1].GetStepId())
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, earlier[1].GetState())
}
