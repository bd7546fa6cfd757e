package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (h *testHub) item(id string) (*deckhandv1.InboxItem, error) {
	for _, item := range h.inbox {
		if strings.HasPrefix(item.GetId(), id) {
			return item, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no inbox item %q", id)
}

func (h *testHub) ListInbox(_ context.Context, req *deckhandv1.ListInboxRequest) (*deckhandv1.ListInboxResponse, error) {
	res := &deckhandv1.ListInboxResponse{}
	for _, item := range h.inbox {
		if item.GetState() == deckhandv1.InboxState_INBOX_STATE_OPEN || len(req.GetStates()) > 0 {
			res.Items = append(res.Items, item)
		}
	}
	return res, nil
}

func (h *testHub) GetInboxItem(_ context.Context, req *deckhandv1.GetInboxItemRequest) (*deckhandv1.GetInboxItemResponse, error) {
	item, err := h.item(req.GetItemId())
	return &deckhandv1.GetInboxItemResponse{Item: item}, err
}

func (h *testHub) ReadInboxArgument(_ context.Context, req *deckhandv1.ReadInboxArgumentRequest) (*deckhandv1.ReadInboxArgumentResponse, error) {
	if !req.GetInDecision() || req.GetPointer() != "/definition" {
		return nil, fault.New(fault.NotFound, "there is no such text")
	}
	at, size := req.GetOffset(), int64(len(h.definition))
	next := min(at+7000, size)
	return &deckhandv1.ReadInboxArgumentResponse{Text: h.definition[at:next], NextOffset: next, SizeBytes: size}, nil
}

func (h *testHub) AnswerInboxItem(_ context.Context, req *deckhandv1.AnswerInboxItemRequest) (*deckhandv1.AnswerInboxItemResponse, error) {
	item, err := h.item(req.GetItemId())
	if err != nil {
		return nil, err
	}
	if item.GetState() != deckhandv1.InboxState_INBOX_STATE_OPEN {
		return nil, fault.New(fault.Precondition, "%s has been answered: reject by bob at noon", item.GetId()).
			WithFix("see what came of it: deckhand inbox show %s", item.GetId())
	}
	return &deckhandv1.AnswerInboxItemResponse{Item: item}, nil
}

func (h *testHub) JudgeInboxItem(_ context.Context, req *deckhandv1.JudgeInboxItemRequest) (*deckhandv1.JudgeInboxItemResponse, error) {
	var arguments struct{ Command string }
	if err := json.Unmarshal([]byte(req.GetArgumentsJson()), &arguments); err != nil {
		return nil, fault.New(fault.Invalid, "arguments_json: %v", err)
	}
	res := &deckhandv1.JudgeInboxItemResponse{JudgedDigest: "judged", Decision: &deckhandv1.CallDecision{}}
	for i, line := range strings.Split(arguments.Command, "\n") {
		res.Decision.Commands = append(res.Decision.Commands, &deckhandv1.CallCommand{Text: line, Line: int32(i) + 1}) //nolint:gosec // a few lines
	}
	return res, nil
}

func withInbox(t *testing.T) *testHub {
	t.Helper()
	h := newHub(t)
	arguments, err := structpb.NewStruct(map[string]any{"command": "rm -r old\x1b[2J\ncwd: /safe", "cwd": "/"})
	require.NoError(t, err)
	asked := timestamppb.New(time.Now().Add(-3 * time.Hour))
	h.inbox = []*deckhandv1.InboxItem{
		{
			Id: "inbox_aaa1", Kind: deckhandv1.InboxKind_INBOX_KIND_APPROVAL, State: deckhandv1.InboxState_INBOX_STATE_OPEN, TaskId: "task_aaa1",
			AgentName: "triage", Tool: "shell_exec", Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Arguments: arguments,
			Preview: "in /:\nrm -r old\x1b[2J", Title: "shell_exec rm -r old\x1b[2J", ShownDigest: "d1", StepId: "step_aaa1", Why: "approvals.tools names it",
			Decision: &deckhandv1.CallDecision{
				Rule: "prod", PolicyVersion: "organisation 3", NodeName: "web-1", Folder: "/", User: "uid 1000", TimeoutSeconds: 90, Hosts: []string{"a.example"},
				Dangers: []*deckhandv1.CallDanger{
					{Kind: "wipe", What: "it deletes old", Command: "rm -r old\x1b[2J", Line: 1}, {Kind: "remote_code", What: "it runs what it fetches", Command: "sh", Line: 2},
				},
				Commands: []*deckhandv1.CallCommand{{Text: "rm -r old\x1b[2J", Line: 1, Effect: "ask"}, {Text: "id", Line: 2, Via: []string{"sh -c"}}},
				Unclear:  []string{"eval of \x07something"},
			}, Reasoning: "it is\u202e old", AskedAt: asked,
		},
		{
			Id: "inbox_bbb2", Kind: deckhandv1.InboxKind_INBOX_KIND_QUESTION, State: deckhandv1.InboxState_INBOX_STATE_OPEN, AskedAt: asked,
			Question: &deckhandv1.InboxQuestion{Text: "Which?", Kind: "choice", Choices: []string{"red", "green"}}, Preview: "Which?",
		},
		{Id: "inbox_ccc3", Kind: deckhandv1.InboxKind_INBOX_KIND_UNKNOWN, State: deckhandv1.InboxState_INBOX_STATE_OPEN, AskedAt: asked, Tool: "file_write"},
		{Id: "inbox_ddd4", Kind: deckhandv1.InboxKind_INBOX_KIND_APPROVAL, State: deckhandv1.InboxState_INBOX_STATE_ANSWERED, AskedAt: asked, Answer: "reject", AnsweredBy: "bob"},
	}
	return h
}

// Whoever decides sees what would happen, and nothing of it reaches the
// terminal as an escape sequence.
func TestTheInboxIsShown(t *testing.T) {
	t.Parallel()
	h := withInbox(t)
	got := h.run(t, "inbox", "list")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, `ID          KIND      STATE  AGENT   LEFT  AGE  WHAT                        RISK               WHY
inbox_aaa1  approval  open   triage  -     3h   shell_exec rm -r old⟦␛⟧[2J  wipe, remote code  approvals.tools names it
inbox_bbb2  question  open   -       -     3h   Which?                      -                  -
inbox_ccc3  unknown   open   -       -     3h   -                           -                  -
`, got.stdout)
	require.Contains(t, h.run(t, "inbox", "list", "--all").stdout, "answered (reject)")
	require.Equal(t, "inbox_aaa1\ninbox_bbb2\ninbox_ccc3\n", h.run(t, "inbox", "list", "-o", "name").stdout)
	h.run(t, "inbox", "list", "--kind", "approval,unknown", "--task", "task_a")
	request, ok := h.last["ListInboxRequest"].(*deckhandv1.ListInboxRequest)
	require.True(t, ok)
	require.Len(t, request.GetKinds(), 2)
	require.Equal(t, "task_a", request.GetTaskId())
	require.Equal(t, 2, h.run(t, "inbox", "list", "--kind", "wish").code)

	shown := h.run(t, "inbox", "show", "inbox_a")
	require.Equal(t, 0, shown.code, shown.stderr)
	require.NotContains(t, shown.stdout, "\x1b")
	require.NotContains(t, shown.stdout, "\u202e")
	for _, want := range []string{
		"moderate", "approvals.tools names it", "\n  cwd: /\n", "\n    cwd: /safe\n", "\n  command: rm -r old⟦␛⟧[2J\n", "prod", "organisation 3", "web-1",
		"uid 1000", "1m30s", "a.example", "line 1, wipe: it deletes old: rm -r old⟦␛⟧[2J", "line 2, remote code", "line 2: id (by sh -c)",
		"line 1: rm -r old⟦␛⟧[2J [ask]", "eval of ⟦␇⟧something", "It contains 1 character that is invisible",
	} {
		require.Contains(t, shown.stdout, want)
	}
	lines := strings.Split(shown.stdout, "\n")
	require.Contains(t, strings.Join(lines[:5], "\n"), "it deletes old", "the danger comes first")
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 200, line)
	}
	require.Equal(t, "answer it: deckhand inbox approve inbox_aaa1 (or reject, skip)\n", shown.stderr)
	question := h.run(t, "inbox", "show", "inbox_b")
	require.Contains(t, question.stdout, "1. red")
	require.Contains(t, question.stderr, "deckhand inbox answer inbox_bbb2")
	require.Contains(t, h.run(t, "inbox", "show", "inbox_c").stderr, "deckhand inbox retry inbox_ccc3")
	require.Empty(t, h.run(t, "inbox", "show", "inbox_d").stderr)
	require.Equal(t, 3, h.run(t, "inbox", "show", "inbox_x").code)

	var item map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.run(t, "inbox", "show", "inbox_a", "-o", "json").stdout), &item))
	require.Equal(t, "INBOX_KIND_APPROVAL", item["kind"])

	h.inbox = nil
	require.Contains(t, h.run(t, "inbox", "list").stderr, "Nothing to answer.")
}

// A definition that is agreed to with a call is shown to its last byte, by itself
// and before it is approved; nothing of it passes for another field.
func TestADefinitionIsShownWhole(t *testing.T) {
	t.Parallel()
	h := withInbox(t)
	h.definition = strings.Repeat("adds\nrule: none\x1b[2J\n", 2<<10) + "and sends it away"
	d := h.inbox[0].GetDecision()
	d.Definition, d.AgreedDefinition = h.definition[:5], strings.Repeat("x", 20<<10)+" the end of what was"
	d.LongTexts = []*deckhandv1.LongArgument{{Pointer: "/definition", SizeBytes: int64(len(h.definition))}}
	for _, shown := range []string{h.run(t, "inbox", "show", "inbox_a").stdout, h.run(t, "inbox", "approve", "inbox_a").stderr} {
		require.Equal(t, 2<<10, strings.Count(shown, "\n  rule: none⟦␛⟧[2J\n"))
		require.Contains(t, shown, "\n  and sends it away\n")
		require.Contains(t, shown, strings.Repeat("x", 20<<10)+" the end of what was\n")
	}
	d.AgreedDefinition = ""
	require.Contains(t, h.run(t, "inbox", "show", "inbox_a").stdout, "(none: the tool is new)")
}

func TestInboxItemsAreAnswered(t *testing.T) {
	t.Parallel()
	h := withInbox(t)
	file := filepath.Join(t.TempDir(), "arguments.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"command":"true"}`), 0o600))
	type request = deckhandv1.AnswerInboxItemRequest
	for _, c := range []struct {
		args  []string
		check func(*request) bool
	}{
		{[]string{"approve", "inbox_a"}, func(r *request) bool { return r.GetApprove() != nil && r.GetApprove().GetArgumentsJson() == "" }},
		{[]string{"approve", "inbox_a", "--arguments", `{"command":"ls"}`}, func(r *request) bool { return r.GetApprove().GetArgumentsJson() == `{"command":"ls"}` }},
		{[]string{"approve", "inbox_a", "--arguments", "@" + file}, func(r *request) bool { return r.GetApprove().GetArgumentsJson() == `{"command":"true"}` }},
		{[]string{"reject", "inbox_a", "--reason", "no"}, func(r *request) bool { return r.GetReject() != nil && r.GetReason() == "no" }},
		{[]string{"answer", "inbox_b", "red"}, func(r *request) bool { return r.GetReply().GetText() == "red" }},
		{[]string{"answer", "inbox_b", "--choice", "2"}, func(r *request) bool { return r.GetReply().GetText() == "green" }},
		{[]string{"answer", "inbox_b", "--choice", "red"}, func(r *request) bool { return r.GetReply().GetText() == "red" }},
		{[]string{"answer", "inbox_b", "--yes"}, func(r *request) bool { return r.GetReply().GetText() == "yes" }},
		{[]string{"answer", "inbox_b", "--no"}, func(r *request) bool { return r.GetReply().GetText() == "no" }},
		{[]string{"accept", "inbox_c", "--without-file", "a.txt", "--without-file", "old", "--without-call", "step_1"}, func(r *request) bool {
			return slices.Equal(r.GetAccept().GetWithoutPaths(), []string{"a.txt", "old"}) && slices.Equal(r.GetAccept().GetWithoutStepIds(), []string{"step_1"})
		}},
		{[]string{"retry", "inbox_c"}, func(r *request) bool { return r.GetRetry() != nil }},
		{[]string{"skip", "inbox_c"}, func(r *request) bool { return r.GetSkip() != nil }},
		{[]string{"mark", "inbox_c", "succeeded"}, func(r *request) bool { return r.GetResolve().GetSucceeded() }},
		{[]string{"mark", "inbox_c", "failed"}, func(r *request) bool { return r.GetResolve() != nil && !r.GetResolve().GetSucceeded() }},
	} {
		got := h.run(t, append([]string{"inbox"}, c.args...)...)
		require.Equal(t, 0, got.code, "%v: %s", c.args, got.stderr)
		require.Contains(t, got.stdout, c.args[1])
		sent, ok := h.last["AnswerInboxItemRequest"].(*request)
		require.True(t, ok)
		require.True(t, c.check(sent), "%v: %v", c.args, sent)
	}
	for _, args := range [][]string{
		{"approve"}, {"approve", "inbox_a", "--arguments", "[]"}, {"approve", "inbox_a", "--arguments", ""}, {"approve", "inbox_a", "--arguments", "null"},
		{"answer", "inbox_b"}, {"answer", "inbox_b", "red", "--yes"}, {"answer", "inbox_b", "--yes", "--no"}, {"answer", "inbox_b", "--choice", "3"},
		{"answer", "inbox_a", "--choice", "1"}, {"mark", "inbox_c", "maybe"}, {"mark", "inbox_c"},
	} {
		require.Equal(t, 2, h.run(t, append([]string{"inbox"}, args...)...).code, "%v", args)
	}
	// What is approved is printed, and the answer is bound to it.
	approved := h.run(t, "inbox", "approve", "inbox_a")
	require.Equal(t, 0, approved.code, approved.stderr)
	require.Contains(t, approved.stderr, "command: rm -r old⟦␛⟧[2J")
	require.Contains(t, approved.stderr, "dangerous, line 1: it deletes old")
	answer, ok := h.last["AnswerInboxItemRequest"].(*deckhandv1.AnswerInboxItemRequest)
	require.True(t, ok)
	require.Equal(t, "d1", answer.GetShownDigest())
	h.run(t, "inbox", "approve", "inbox_a", "--shown", "d0")
	answer, ok = h.last["AnswerInboxItemRequest"].(*deckhandv1.AnswerInboxItemRequest)
	require.True(t, ok)
	require.Equal(t, "d0", answer.GetShownDigest(), "that of an earlier look")
	late := h.run(t, "inbox", "approve", "inbox_d")
	require.Equal(t, 1, late.code)
	require.Equal(t, "error: inbox_ddd4 has been answered: reject by bob at noon: see what came of it: deckhand inbox show inbox_ddd4", late.errorLine(t))
}

// Who waits for a task is told what it waits for and which command answers
// it, and waits on.
func TestATaskThatWaitsSaysWhatAnswersIt(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.script = func(h *testHub, id string) {
		h.emit(id, "approval_requested", map[string]any{"item_id": "inbox_a", "tool": "shell_exec", "preview": "rm \x1b[2Jx\nls", "expires_at": "T1"})
		h.emit(id, "inbox_answered", map[string]any{"item_id": "inbox_a", "by": "bob", "answer": "approve"})
		h.emit(id, "input_required", map[string]any{"item_id": "inbox_b", "tool": "request_input", "preview": "Which?"})
		h.emit(id, "outcome_unknown", map[string]any{"item_id": "inbox_c", "tool": "shell_exec", "preview": "make"})
		h.emit(id, "inbox_expired", map[string]any{"item_id": "inbox_b", "on_expiry": "default"})
		h.end(id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED, nil)
	}
	got := h.run(t, "run", "triage", "look", "--wait")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, `03:04:05 asks  shell_exec waits for approval, until T1
03:04:05 what  rm ⟦␛⟧[2Jx
03:04:05 what  ls
03:04:05 asks  answer it: deckhand inbox approve inbox_a (or reject, skip)
03:04:05 inbox bob answered inbox_a: approve
03:04:05 asks  the agent asks
03:04:05 what  Which?
03:04:05 asks  answer it: deckhand inbox answer inbox_b TEXT (or reject)
03:04:05 asks  nobody knows whether shell_exec took effect
03:04:05 what  make
03:04:05 asks  answer it: deckhand inbox retry inbox_c (or skip; or mark it succeeded or failed)
03:04:05 inbox nobody answered inbox_b in time: default
`)
	require.Contains(t, h.run(t, "task", "watch", taskID).stdout, "answer it: deckhand inbox approve inbox_a")

	h.change(func() {
		h.tasks[0].State = deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL
		h.tasks[0].Reason = "step_1 waits for approval: deckhand inbox show inbox_a"
	})
	want := taskID + ": step_1 waits for approval: deckhand inbox show inbox_a\n"
	require.Equal(t, want, h.run(t, "task", "list").stderr)
	require.Equal(t, want, h.run(t, "task", "show", taskID).stderr)
	require.Empty(t, h.run(t, "task", "list", "-o", "json").stderr)
}
