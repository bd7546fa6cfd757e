package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The command line of the MCP inspector connects by URL, lists what there is, and calls tools.
// Without a token it is refused.
func TestTheInspectorUsesTheServer(t *testing.T) {
	t.Parallel()
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("Claude Code is the client of every run: set DECKHAND_SOAK=1")
	}
	h := hubtest.Start(t, hubtest.Config(t))
	_, err := h.Client(t, h.AdminToken).Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "walker.md", Markdown: walker, Script: "turns: []\n",
	})
	require.NoError(t, err)
	program := filepath.Join(modules(t), "node_modules/@modelcontextprotocol/inspector-cli/build/index.js")
	run := func(args ...string) (stdout []byte, stderr string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", append([]string{program, h.URL() + "/mcp", "--transport", "http"}, args...)...)
		cmd.Dir = filepath.Dir(program) // where it looks for its own package.json
		var errs bytes.Buffer
		cmd.Stderr = &errs
		stdout, err = cmd.Output()
		return stdout, errs.String(), err
	}
	_, stderr, err := run("--method", "tools/list")
	require.Error(t, err)
	require.Contains(t, stderr, "the request carries no token")
	inspect := func(to any, args ...string) {
		t.Helper()
		out, stderr, err := run(append([]string{"--header", "Authorization: Bearer " + h.AdminToken}, args...)...)
		require.NoError(t, err, "%s\n%s", out, stderr)
		require.NoError(t, json.Unmarshal(out, to), "%s", out)
	}
	var tools struct {
		Tools []struct {
			Name         string
			OutputSchema json.RawMessage
			Annotations  struct{ ReadOnlyHint bool }
		}
	}
	inspect(&tools, "--method", "tools/list")
	reads := map[string]bool{}
	for _, tool := range tools.Tools {
		require.NotEmpty(t, tool.OutputSchema, tool.Name)
		reads[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	require.Contains(t, reads, "task_run")
	require.True(t, reads["task_get"])
	require.False(t, reads["task_run"])

	var prompts struct{ Prompts []struct{ Name string } }
	inspect(&prompts, "--method", "prompts/list")
	require.Contains(t, prompts.Prompts, struct{ Name string }{"walker"})

	var made, shown struct {
		IsError           bool
		StructuredContent struct {
			Task struct{ ID, Agent, Goal string }
		}
	}
	inspect(&made, "--method", "tools/call", "--tool-name", "task_run", "--tool-arg", "agent=walker", "goal=Walk for the inspector.")
	require.False(t, made.IsError)
	task := made.StructuredContent.Task
	require.Equal(t, "Walk for the inspector.", task.Goal)
	inspect(&shown, "--method", "tools/call", "--tool-name", "task_get", "--tool-arg", "task_id="+task.ID)
	require.Equal(t, task, shown.StructuredContent.Task)
	var refused struct {
		IsError bool
		Content []struct{ Text string }
	}
	inspect(&refused, "--method", "tools/call", "--tool-name", "task_get", "--tool-arg", "task_id=task_none")
	require.True(t, refused.IsError)
	require.Len(t, refused.Content, 1)
	require.Contains(t, refused.Content[0].Text, "task_none")

	var resource struct{ Contents []struct{ URI, Text string } }
	inspect(&resource, "--method", "resources/read", "--uri", "deckhand://tasks/"+task.ID)
	require.Len(t, resource.Contents, 1)
	require.Contains(t, resource.Contents[0].Text, "Walk for the inspector.")
}
