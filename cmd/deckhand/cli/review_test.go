package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/internal/ptytest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// atTerminal runs a command whose input and output are a terminal.
func atTerminal(t *testing.T, h *testHub, args ...string) *ptytest.Person {
	t.Helper()
	return ptytest.Start(t, func(tty *os.File) int {
		return cli.Execute(t.Context(), append(args, "--hub", h.url, "--token", testToken), tty, tty, tty)
	})
}

func (h *testHub) answered(t *testing.T) *deckhandv1.AnswerInboxItemRequest {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	request, ok := h.last["AnswerInboxItemRequest"].(*deckhandv1.AnswerInboxItemRequest)
	require.True(t, ok)
	return request
}

// Items are decided one after another, as with git add -p: dangers first, nothing that a
// terminal would obey, each answer with the digest of what was shown.
func TestItemsAreReviewedOneAfterAnother(t *testing.T) {
	h := withInbox(t)
	editor := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\nprintf 'ls old\\nls new' > \"$1\"\n"), 0o700)) //nolint:gosec // it is run
	t.Setenv("VISUAL", editor)
	t.Setenv("PAGER", "cat")
	for _, item := range h.inbox {
		item.MayAnswer = item.GetState() == deckhandv1.InboxState_INBOX_STATE_OPEN
	}
	h.inbox = append(h.inbox[:3:3], &deckhandv1.InboxItem{
		Id: "inbox_eee5", Kind: deckhandv1.InboxKind_INBOX_KIND_LIMIT, State: deckhandv1.InboxState_INBOX_STATE_OPEN, MayAnswer: true, TaskId: "task_1",
		Stop: &deckhandv1.InboxStop{Title: "The run has reached its limit of iterations", LimitName: "iterations", LimitMost: 50, LimitOffer: 100, WaitingTasks: 1},
	}, &deckhandv1.InboxItem{
		Id: "inbox_fff6", Kind: deckhandv1.InboxKind_INBOX_KIND_QUESTION, State: deckhandv1.InboxState_INBOX_STATE_OPEN, // of somebody else's
	})
	p := atTerminal(t, h, "inbox", "review")
	shown := p.Sees("Run this call? [y,n,e,v,s,q,?] ")
	require.Contains(t, shown, "(1/4) approval · triage · inbox_aaa1\nDANGEROUS\n  line 1, wipe: it deletes old: rm -r old⟦␛⟧[2J\n")
	require.Equal(t, 1, strings.Count(shown, "\n  command: rm -r old"), "the whole text stands there once")
	require.NotContains(t, shown, "\x1b[2J")
	require.NotContains(t, shown, "\u202e")
	p.Types("?")
	help := p.Sees("Run this call?")
	require.Contains(t, help, "n - reject: it does not run; the agent is told the reason and goes on")
	p.Types("v")
	require.Contains(t, p.Sees("Run this call?"), "DANGEROUS")
	p.Types("e")
	diff := p.Sees("Approve the edited call? [y,n,e] ")
	require.Contains(t, diff, "\n-rm -r old⟦␛⟧[2J\n")
	require.Contains(t, diff, "\n+ls old\n+ls new")
	require.Contains(t, diff, "No rule is about the edited call.\ncommands:\n  line 1: ls old\n  line 2: ls new\n")
	p.Types("n")
	p.Sees("Run this call?")
	p.Types("y")
	p.Sees("Type yes to have it run: ")
	p.Types("y")
	p.Sees("Run this call?")
	p.Types("e")
	p.Sees("Approve the edited call?")
	p.Types("y") // and the edited call is not dangerous

	require.Contains(t, p.Sees("Reply? [y,n,v,s,q,?] "), "1. red")
	first := h.answered(t)
	require.Equal(t, "inbox_aaa1", first.GetItemId())
	require.Equal(t, "d1", first.GetShownDigest())
	require.Equal(t, "judged", first.GetApprove().GetJudgedDigest())
	require.JSONEq(t, `{"command":"ls old\nls new","cwd":"/"}`, first.GetApprove().GetArgumentsJson())
	p.Types("y")
	p.Sees("Reply: ")
	p.Types("2")
	p.Sees("What now? [k,f,n,y,v,s,q,?] ")
	require.Equal(t, "green", h.answered(t).GetReply().GetText())
	p.Types("s")
	require.Contains(t, p.Sees("What now? [y,n,v,s,q,?] "), "The run has reached its limit of iterations")
	p.Types("?")
	require.Contains(t, p.Sees("What now?"), "y - raise it to 100: the work goes on")
	p.Types("y")
	p.Sees("3 answered, 1 left.\n")
	require.EqualValues(t, 100, h.answered(t).GetRaise().GetLimit())
	require.Equal(t, 0, <-p.Done)
}

// What does not fit on the screen is approved only after it was viewed, and the end of the
// input ends the review.
func TestALongCallIsViewedBeforeItIsApproved(t *testing.T) {
	h := withInbox(t)
	t.Setenv("PAGER", "cat")
	h.inbox = h.inbox[:1]
	h.inbox[0].MayAnswer, h.inbox[0].Decision.Dangers = true, nil
	h.inbox[0].Arguments.Fields["command"].GetKind().(*structpb.Value_StringValue).StringValue = strings.Repeat("echo\n", 100) + "last"
	p := atTerminal(t, h, "inbox", "review")
	require.NotContains(t, p.Sees("more lines: v shows all of it"), "last")
	p.Sees("Run this call?")
	p.Types("y")
	p.Sees("You have not seen all of it: view it with v first.")
	p.Types("v")
	p.Sees("last")
	p.Types("y")
	p.Sees("1 answered, 0 left.")
	require.Equal(t, "d1", h.answered(t).GetShownDigest())
	require.Equal(t, 0, <-p.Done)

	p = atTerminal(t, h, "inbox", "review")
	p.Sees("Run this call?")
	p.Types("\x04") // the end of the input
	p.Sees("0 answered, 1 left.")
	require.Equal(t, 0, <-p.Done)
}

// What takes a passkey is let run in the console only, and that is said before all else.
func TestWhatTakesAPasskeyIsNotApprovedAtATerminal(t *testing.T) {
	h := withInbox(t)
	t.Setenv("PAGER", "cat")
	h.inbox = h.inbox[:1]
	h.inbox[0].MayAnswer, h.inbox[0].NeedsPasskey = true, true
	p := atTerminal(t, h, "inbox", "review")
	require.Contains(t, p.Sees("Run this call? [n,v,s,q,?] "), "PASSKEY NEEDED\n  to let this run, open it in the console, on a device that has one of your passkeys: deckhand open\nDANGEROUS\n")
	p.Types("y")
	p.Sees("n - reject: ")
	p.Sees("Run this call? [n,v,s,q,?] ")
	p.Types("q")
	p.Sees("0 answered, 1 left.")
	require.Equal(t, 0, <-p.Done)
}

// A program gets no questions.
func TestAReviewNeedsATerminal(t *testing.T) {
	t.Parallel()
	got := withInbox(t).run(t, "inbox", "review")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr, "a review needs a terminal")
}

// Several items are approved, or rejected, with one command, each as it was shown.
func TestSeveralItemsAreAnswered(t *testing.T) {
	t.Parallel()
	h := withInbox(t)
	got := h.run(t, "inbox", "reject", "inbox_a", "inbox_b", "--reason", "no")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "inbox_b", h.answered(t).GetItemId())
	require.Equal(t, 0, h.run(t, "inbox", "approve", "inbox_a", "inbox_c").code)
	require.Equal(t, 2, h.run(t, "inbox", "approve", "inbox_a", "inbox_c", "--shown", "d1").code)
}
