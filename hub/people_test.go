package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// asker is a persona that asks questions.
func asker(name string) string {
	return strings.Replace(scripted(name), "[shell_exec,", "[request_input, shell_exec,", 1)
}

func attachment(t *testing.T, client *sdk.Client, item string, number int32) (data []byte, sum string) {
	t.Helper()
	for at := int64(0); ; {
		res, err := client.Inbox.ReadInboxAttachment(t.Context(), &deckhandv1.ReadInboxAttachmentRequest{ItemId: item, Number: number, Offset: at})
		require.NoError(t, err)
		data = append(data, res.GetData()...)
		if at = res.GetNextOffset(); at == res.GetSizeBytes() {
			return data, res.GetSha256()
		}
	}
}

// A question has options with descriptions, in one form however the agent wrote them, and files
// of the workspace, which stay as they were when it was asked.
func TestAQuestionHasOptionsAndAttachments(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asker("asker"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	write := func(turn int32, path, content string) {
		r.turn(lease, turn)
		arguments, err := json.Marshal(map[string]string{"path": path, "content": content})
		require.NoError(t, err)
		step, err := r.propose(lease, turn, 0, "file_write", string(arguments))
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	}
	long := strings.Repeat("a;b\x01\n", 300_000) // two pieces
	write(1, "out/report.csv", long)
	refused := func(turn int32, arguments, want string) {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "request_input", arguments)
		require.NoError(t, err)
		require.Equal(t, stepDenied, step.GetState(), step.GetObservation())
		require.Contains(t, step.GetObservation(), want)
	}
	write(2, "key.txt", "the key is sk-ant-api03-CANARYCANARYCANARYCANARYCANARY\n")
	refused(3, `{"question":"Which?","attachments":["gone.csv"]}`, "gone.csv")
	refused(4, `{"question":"Which?","attachments":["key.txt"]}`, "attachment key.txt contains a secret")
	refused(5, `{"question":"Which?","kind":"choice","options":["a",{"label":"a","description":"again"}]}`, "two options have the same label")
	refused(6, `{"question":"Which?","kind":"choice","options":["a","b"],"default":"c"}`, "none of the options")

	r.turn(lease, 7)
	step, err := r.propose(lease, 7, 0, "request_input", `{"question":"Which?","kind":"choice","default":"us",
		"options":[{"label":"eu","description":"Near the <b>users</b>"},"us"],"attachments":["out/report.csv"]}`)
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState(), step.GetObservation())
	// What becomes of the file later is nothing to the question.
	require.NoError(t, r.yield(lease))
	id := r.item(task.GetId()).GetId()
	item := do(t, r.user.Inbox.GetInboxItem, &deckhandv1.GetInboxItemRequest{ItemId: id}).GetItem()
	require.Equal(t, []string{"eu", "us"}, item.GetQuestion().GetChoices())
	require.Len(t, item.GetQuestion().GetOptions(), 2)
	require.Equal(t, "Near the <b>users</b>", item.GetQuestion().GetOptions()[0].GetDescription())
	require.Empty(t, item.GetQuestion().GetOptions()[1].GetDescription())
	require.Contains(t, item.GetPreview(), "- eu: Near the <b>users</b>\n- us\n(attached: out/report.csv)")
	require.Len(t, item.GetAttachments(), 1)
	sum := sha256.Sum256([]byte(long))
	a := item.GetAttachments()[0]
	require.Equal(t, []any{int32(1), "out/report.csv", int64(len(long)), hex.EncodeToString(sum[:]), ""}, []any{a.GetNumber(), a.GetPath(), a.GetSizeBytes(), a.GetSha256(), a.GetProblem()})
	data, said := attachment(t, r.user, id, 1)
	require.Equal(t, long, string(data))
	require.Equal(t, a.GetSha256(), said)
	downloads := r.audited("inbox.attachment_downloaded")
	require.Len(t, downloads, 1)
	require.Equal(t, a.GetSha256(), downloads[0].GetAfter().AsMap()["sha256"])
	// A read that leaves out the first bytes is a read, too.
	colleague := r.as("colleague", "admin")
	for range 2 {
		do(t, colleague.Inbox.ReadInboxAttachment, &deckhandv1.ReadInboxAttachmentRequest{ItemId: id, Number: 1, Offset: 1})
	}
	require.Len(t, r.audited("inbox.attachment_downloaded"), 2)
	require.NotContains(t, r.sql("SELECT content_sealed::text FROM inbox_attachments WHERE item_id = $1", id), hex.EncodeToString([]byte(long[:50])))
	refuses(t, connect.CodeNotFound, r.user.Inbox.ReadInboxAttachment, &deckhandv1.ReadInboxAttachmentRequest{ItemId: id, Number: 2})
	refuses(t, connect.CodeInvalidArgument, r.user.Inbox.ReadInboxAttachment, &deckhandv1.ReadInboxAttachmentRequest{ItemId: id, Number: 1, Offset: int64(len(long)) + 1})
	// Who may not see the task does not see its attachments.
	stranger := r.as("stranger", "advanced")
	refuses(t, connect.CodeNotFound, stranger.Inbox.ReadInboxAttachment, &deckhandv1.ReadInboxAttachmentRequest{ItemId: id, Number: 1})
	refuses(t, connect.CodeNotFound, stranger.Inbox.ReplyToTask, &deckhandv1.ReplyToTaskRequest{TaskId: task.GetId(), Text: "eu"})
	var asked map[string]any
	for _, e := range r.events(task.GetId(), false) {
		if e.GetType() == "input_required" {
			asked = e.GetPayload().AsMap()
		}
	}
	require.Equal(t, []any{map[string]any{"label": "eu", "description": "Near the <b>users</b>"}, map[string]any{"label": "us"}}, asked["options"])
	require.Equal(t, []any{map[string]any{"path": "out/report.csv", "size_bytes": float64(len(long)), "sha256": a.GetSha256()}}, asked["attachments"])

	// The question is found by its task.
	refuses(t, connect.CodeInvalidArgument, r.user.Inbox.ReplyToTask, &deckhandv1.ReplyToTaskRequest{TaskId: task.GetId(), Text: "asia"})
	require.Equal(t, "eu", do(t, r.user.Inbox.ReplyToTask, &deckhandv1.ReplyToTaskRequest{TaskId: task.GetId(), Text: "eu"}).GetItem().GetReply())
	refuses(t, connect.CodeFailedPrecondition, r.user.Inbox.ReplyToTask, &deckhandv1.ReplyToTaskRequest{TaskId: task.GetId(), Text: "eu"})
	lease = r.begin(task.GetId(), 2)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, "admin answered: eu", done.GetObservation())
	// What is stored for a task is bounded.
	r.sql(`UPDATE inbox_attachments SET size_bytes = 100 * 1024 * 1024 - 10 WHERE item_id = $1 RETURNING item_id`, id)
	refused(8, `{"question":"And now?","attachments":["out/report.csv"]}`, "the questions of the task have 104857590 bytes attached already")
	require.Equal(t, "AGENT_010", r.audited("call.denied")[0].GetAfter().AsMap()["error_code"])
	// The content goes 30 days after the item was closed; that it was there stays.
	r.sql(`UPDATE inbox_items SET asked_at = asked_at - interval '32 days', answered_at = answered_at - interval '31 days', expires_at = expires_at - interval '32 days'
		WHERE id = $1 RETURNING id`, id)
	_, err = r.store().PruneInboxAttachments(t.Context(), db.PruneInboxAttachmentsParams{Keep: 30 * 24 * time.Hour, MaxRows: 100})
	require.NoError(t, err)
	refuses(t, connect.CodeFailedPrecondition, r.user.Inbox.ReadInboxAttachment, &deckhandv1.ReadInboxAttachmentRequest{ItemId: id, Number: 1})
	require.Len(t, do(t, r.user.Inbox.GetInboxItem, &deckhandv1.GetInboxItemRequest{ItemId: id}).GetItem().GetAttachments(), 1)
}

// A person who does not approve a call replaces the plan by a tree. What the agent set
// meanwhile is not overwritten, and its update that does not know of the change is refused.
func TestAPersonReplacesThePlanInsteadOfACall(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	plan := func(turn int32, items string) *deckhandv1.Step {
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "update_plan", `{"items":[`+items+`]}`)
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return done
	}
	require.Equal(t, stepSucceeded, plan(1, `{"id":"1","title":"Migrate","status":"in_progress"}`).GetState())
	r.turn(lease, 2)
	step, err := r.propose(lease, 2, 0, "shell_exec", command("migrate"))
	require.NoError(t, err)
	require.Equal(t, stepWaiting, step.GetState())
	require.NoError(t, r.yield(lease))
	item := r.item(task.GetId())
	replan := func(revision int32, items ...*deckhandv1.PlanItem) *deckhandv1.AnswerInboxItemRequest {
		return &deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Replan_{
			Replan: &deckhandv1.AnswerInboxItemRequest_Replan{Items: items, Revision: revision, Text: "a backup first"},
		}}
	}
	tree := []*deckhandv1.PlanItem{{Title: "Back up", Children: []*deckhandv1.PlanItem{{Title: "Stop the writer"}, {Title: "Copy"}}}, {Id: "1", Title: "Migrate"}}
	_, err = r.answer(replan(0, tree...))
	require.Equal(t, connect.CodeAborted, connect.CodeOf(err), "the agent has set revision 1: %v", err)
	_, err = r.answer(replan(1))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%v", err)
	_, err = r.answer(replan(1, &deckhandv1.PlanItem{Title: "x", DependsOn: []string{"nothing"}}))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%v", err)
	require.Equal(t, deckhandv1.InboxState_INBOX_STATE_OPEN, r.item(task.GetId()).GetState(), "a refused answer leaves it open")
	answered, err := r.answer(replan(1, tree...))
	require.NoError(t, err)
	require.Equal(t, "replan", answered.GetAnswer())
	denied := r.step(step.GetId())
	require.Equal(t, stepDenied, denied.GetState())
	require.Contains(t, denied.GetObservation(), "They replaced your plan: go on with the new one, which you get in a message. a backup first")
	require.Equal(t, item.GetId(), denied.GetApprovalId())
	now := do(t, r.user.TaskPlans.GetTaskPlan, &deckhandv1.GetTaskPlanRequest{TaskId: task.GetId()}).GetPlan()
	require.Equal(t, int32(2), now.GetRevision())
	require.Equal(t, "Copy", now.GetItems()[0].GetChildren()[1].GetTitle())
	require.Equal(t, int32(1), r.task(task.GetId()).GetMessagesWaiting())
	require.Len(t, r.audited("task.plan_changed"), 1)

	lease = r.begin(task.GetId(), 2)
	require.Equal(t, stepSucceeded, plan(3, `{"id":"1","title":"Migrate","status":"done"}`).GetState(), "it was told with the turn")
	require.Equal(t, int32(3), do(t, r.user.TaskPlans.GetTaskPlan, &deckhandv1.GetTaskPlanRequest{TaskId: task.GetId()}).GetPlan().GetRevision())
	require.Empty(t, node.all())
}

// Decisions about calls are in the audit, and those about ordinary calls that are allowed are
// not.
func TestTheAuditHasDecisionsAboutCalls(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	do(t, r.user.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{File: "policy.yaml", Yaml: `
rules:
  - {name: keep, effect: deny, tool: file_write, path: /workspace/kept/**}
`})
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	allowed, err := r.propose(lease, 1, 0, "file_list", `{"path":"."}`)
	require.NoError(t, err)
	r.turn(lease, 2)
	denied, err := r.propose(lease, 2, 0, "file_write", `{"path":"kept/a","content":"x"}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, denied.GetState())
	r.turn(lease, 3)
	invented, err := r.propose(lease, 3, 0, "file_wirte", `{}`)
	require.NoError(t, err)
	require.Equal(t, stepDenied, invented.GetState())
	r.turn(lease, 4)
	asked, err := r.propose(lease, 4, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	_, err = r.answer(&deckhandv1.AnswerInboxItemRequest{ItemId: r.item(task.GetId()).GetId(), Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{
		Approve: &deckhandv1.AnswerInboxItemRequest_Approve{Always: &deckhandv1.AlwaysAllow{Scope: "exact"}},
	}})
	require.NoError(t, err)
	lease = r.begin(task.GetId(), 2)
	_, err = r.execute(lease, asked.GetId())
	require.NoError(t, err)
	r.turn(lease, 5)
	again, err := r.propose(lease, 5, 0, "shell_exec", command("make"))
	require.NoError(t, err)
	require.Equal(t, stepGranted, again.GetState(), again.GetDecisionReason())

	entries := map[string]*deckhandv1.AuditEntry{}
	for _, e := range do(t, r.user.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{PageSize: 500}).GetEntries() {
		if e.GetObjectKind() == "step" {
			entries[e.GetObjectId()] = e
		}
	}
	require.Len(t, entries, 3, "%v", entries)
	require.NotContains(t, entries, allowed.GetId())
	require.NotContains(t, entries, invented.GetId())
	for id, want := range map[string][2]string{denied.GetId(): {"call.denied", "medium"}, asked.GetId(): {"call.asked", "low"}, again.GetId(): {"call.auto_approved", "low"}} {
		require.Equal(t, want, [2]string{entries[id].GetAction(), entries[id].GetSeverity()})
		require.Equal(t, "agent", entries[id].GetActorKind())
		require.Contains(t, entries[id].GetAfter().AsMap(), "cost_micros")
		require.Contains(t, entries[id].GetAfter().AsMap(), "tokens")
	}
	require.Equal(t, string(fault.PermissionDenied), entries[denied.GetId()].GetAfter().AsMap()["error_code"])
	// The call that was made is there with its end; the one that waits to be made is not.
	made := r.audited("call.ended")
	require.Len(t, made, 1)
	require.Equal(t, asked.GetId(), made[0].GetObjectId())
	require.Subset(t, slices.Collect(maps.Keys(made[0].GetAfter().AsMap())), []string{"duration_ms", "state", "tokens", "cost_micros", "tool"})
	require.Equal(t, "keep", entries[denied.GetId()].GetAfter().AsMap()["rule"])
	require.Contains(t, r.audited("inbox.approve")[0].GetAfter().AsMap(), "waited_ms")
}

// A task names what its result is based on, how long it was worked on, until when it can be
// undone, and what a person can do where it does not go on.
func TestATaskNamesItsSourcesAndWhatMendsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asker("asker"))
	task := r.submit("asker")
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	asked, err := r.propose(lease, 1, 0, "request_input", `{"question":"Sure?"}`)
	require.NoError(t, err)
	require.NoError(t, r.yield(lease))
	item := r.item(task.GetId()).GetId()
	waits := r.task(task.GetId())
	require.Equal(t, []string{"Answer the question", "/inbox?item=" + item, "deckhand inbox show " + item},
		[]string{waits.GetAction().GetLabel(), waits.GetAction().GetPath(), waits.GetAction().GetCommand()})
	require.Nil(t, waits.GetUndoUntil())
	do(t, r.user.Inbox.ReplyToTask, &deckhandv1.ReplyToTaskRequest{TaskId: task.GetId(), Text: "yes"})
	lease = r.begin(task.GetId(), 2)
	_, err = r.execute(lease, asked.GetId())
	require.NoError(t, err)
	r.turn(lease, 2)
	end, err := r.propose(lease, 2, 0, "complete_task", `{"summary":"done","sources":[{"kind":"url","reference":"https://example.com/a","title":"A"},{"kind":"url","reference":"javascript:alert(1)"},{"kind":"step","reference":"1"}]}`)
	require.NoError(t, err)
	require.Equal(t, stepGranted, end.GetState(), end.GetObservation())
	_, err = r.execute(lease, end.GetId())
	require.NoError(t, err)
	require.Empty(t, r.task(task.GetId()).GetSources(), "it has not ended")
	r.finish(lease)
	ended := r.task(task.GetId())
	require.Nil(t, ended.GetAction())
	require.NotNil(t, ended.GetUndoUntil())
	require.Positive(t, ended.GetActiveTime().AsDuration())
	var got []string
	for _, s := range ended.GetSources() {
		got = append(got, s.GetKind()+" "+s.GetReference()+" "+s.GetTitle())
	}
	require.Equal(t, []string{"url https://example.com/a A", "url javascript:alert(1) ", "step 1 "}, got)
	require.Contains(t, exported(t, r.user, task.GetId()), `"sources":[{"kind":"url","reference":"https://example.com/a","title":"A"}`)
}

// exported returns a task as JSON Lines.
func exported(t *testing.T, client *sdk.Client, task string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := client.History.ExportTask(ctx, &deckhandv1.ExportTaskRequest{TaskId: task})
	require.NoError(t, err)
	defer func() { _ = stream.Close() }()
	var out strings.Builder
	for stream.Receive() {
		out.Write(stream.Msg().GetData())
	}
	require.NoError(t, stream.Err())
	return out.String()
}
