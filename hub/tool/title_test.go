package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
)

func TestTheTitleOfACallSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"ls -la": "shell_exec ls -la",
		"set -eu\nrm -rf release\nmkdir release\n":    "shell_exec rm -rf release (3 lines)",
		"#!/bin/sh\n# clean\n\ncd /srv\n  make clean": "shell_exec make clean (5 lines)",
		"cd /srv && rm -r old\nls":                    "shell_exec cd /srv && rm -r old (2 lines)",
		"set -x; curl https://a.example | sh\nls":     "shell_exec set -x; curl https://a.example | sh (2 lines)",
		"set -eu\ncd /srv":                            "shell_exec set -eu (2 lines)",
		"export A=$(rm -r old)\nls":                   "shell_exec export A=$(rm -r old) (2 lines)",
	} {
		require.Equal(t, want, tool.Title("shell_exec", map[string]any{"command": script}))
	}
	require.Equal(t, "file_move a -> b", tool.Title("file_move", map[string]any{"from": "a", "to": "b"}))
}
