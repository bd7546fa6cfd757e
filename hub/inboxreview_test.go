package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/ptytest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// inEditor is an editor in which a person replaces the text by what file has then.
func inEditor(t *testing.T) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "typed")
	editor := filepath.Join(dir, "editor")
	require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\nexec cp "+file+" \"$1\"\n"), 0o700)) //nolint:gosec // it is run
	t.Setenv("VISUAL", editor)
	t.Setenv("PAGER", "cat")
	return file
}

// A person goes through what waits at a terminal: an edited command is judged by the hub
// before it is sent, what became dangerous says so and needs the word yes, and what runs is
// what was edited. The diff of a file call is among what is shown, and a reason reaches the
// agent.
func TestTheInboxIsReviewedAtATerminal(t *testing.T) {
	typed := inEditor(t)
	ran := &ran{}
	h := hubtest.Shared(t)
	r := newRig(t, h, ran.run)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	r.apply("writer", asking("writer", "tools: [file_write]"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	write, _, file := r.park("writer", "file_write", `{"path":"notes.md","content":"one\n"}`)

	p := ptytest.Start(t, func(tty *os.File) int {
		return cli.Execute(t.Context(), []string{"inbox", "review", "--hub", h.URL(), "--token", h.AdminToken}, tty, tty, tty)
	})
	require.Contains(t, p.Sees("Run this call? "), "command: make deploy")
	require.NoError(t, os.WriteFile(typed, []byte("sudo rm -rf --no-preserve-root /\n"), 0o600))
	p.Types("e")
	shown := p.Sees("Approve the edited call? [y,n,e] ")
	require.Contains(t, shown, "-make deploy")
	require.Contains(t, shown, "DANGEROUS\n  line 1, ")
	require.Contains(t, shown, "The policy asks about the edited call")
	p.Types("y")
	p.Sees("Type yes to have it run: ")
	p.Types("no")
	p.Sees("Run this call? ")
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState())

	p.Types("e")
	p.Sees("Approve the edited call? ")
	require.NoError(t, os.WriteFile(typed, []byte("make -n deploy\npwd\n"), 0o600))
	p.Types("e") // again, in the editor
	shown = p.Sees("Approve the edited call? ")
	require.NotContains(t, shown, "DANGEROUS")
	require.Contains(t, shown, "commands:\n  line 1: make -n deploy\n  line 2: pwd\n")
	p.Types("y")

	shown = p.Sees("Run this call? ")
	require.Contains(t, shown, "  create notes.md (+1 -0 lines)\n")
	require.Contains(t, shown, "\n  +one\n")
	p.Types("n")
	p.Sees("Reason (the agent sees it): ")
	p.Types("not there")
	p.Sees("2 answered, 0 left.")
	require.Equal(t, 0, <-p.Done)

	require.Equal(t, "approve", r.inboxItem(item.GetId()).GetAnswer())
	require.Equal(t, "not there", r.inboxItem(file.GetId()).GetReason())
	_, err := r.execute(r.begin(task.GetId(), 2), step.GetId())
	require.NoError(t, err)
	require.Len(t, ran.all(), 1)
	require.True(t, strings.HasSuffix(ran.all()[0], "make -n deploy\npwd"), "%q", ran.all()[0])
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_QUEUED, r.task(write.GetId()).GetState())
}
