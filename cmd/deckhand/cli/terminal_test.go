package cli_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
)

// onTerminal runs a command whose standard output is a terminal and answers
// what that terminal got.
func onTerminal(t *testing.T, h *testHub, args ...string) string {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = master.Close() }()
	got := make(chan string)
	go func() {
		// Reading a terminal whose other end is closed ends with EIO.
		data, _ := io.ReadAll(master)
		got <- strings.ReplaceAll(string(data), "\r\n", "\n")
	}()
	var stderr bytes.Buffer
	code := cli.Execute(t.Context(), append(args, "--hub", h.url, "--token", testToken), strings.NewReader(""), tty, &stderr)
	require.Equal(t, 0, code, stderr.String())
	require.NoError(t, tty.Close())
	return <-got
}

func TestLogsAreFilteredOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	h := withTasks(t)
	require.Equal(t, "red ✓ ␀\ufffd\n␛]0;title␇end\n", onTerminal(t, h, "task", "logs", "step_1"))
}

func TestColoursAreForTerminalsAndNoColorForbidsThem(t *testing.T) {
	h := withTasks(t)
	t.Setenv("TERM", "xterm-256color")
	coloured := onTerminal(t, h, "task", "list")
	require.Contains(t, coloured, "\x1b[36mrunning")
	require.NotContains(t, coloured, "\x1b[2J", "what tasks say is filtered")

	for _, value := range []string{"1", "yes"} {
		t.Setenv("NO_COLOR", value)
		require.NotContains(t, onTerminal(t, h, "task", "list"), "\x1b")
		require.NotContains(t, onTerminal(t, h, "task", "show", "task_a"), "\x1b")
		require.NotContains(t, onTerminal(t, h, "task", "watch", "task_a", "--follow=false"), "\x1b")
	}
	require.NoError(t, os.Unsetenv("NO_COLOR"))
	t.Setenv("TERM", "dumb")
	require.NotContains(t, onTerminal(t, h, "task", "list"), "\x1b")
}
