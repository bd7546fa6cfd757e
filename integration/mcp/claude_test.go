package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// Claude Code connects to the hub by URL, is offered the tools, and gives an agent a task.
func TestClaudeCodeRunsATask(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	client := h.Client(t, h.AdminToken)
	_, err := client.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "walker.md", Markdown: walker, Script: "turns: []\n",
	})
	require.NoError(t, err)
	model := modeltest.New(t, func(r modeltest.Request) modeltest.Answer {
		answer := modeltest.Answer{Answer: anthropictest.Answer{Blocks: []anthropictest.Block{{Text: "ok"}}}}
		switch {
		case !strings.Contains(r.Text, "mcp__deckhand__task_run"): // a title, or a count of tokens
		case strings.Contains(r.Text, `"tool_result"`):
			answer.Blocks = []anthropictest.Block{{Text: "The walker has its task."}}
		default:
			answer.Blocks = []anthropictest.Block{{Tool: "mcp__deckhand__task_run", ID: "toolu_1", Input: `{"agent": "walker", "goal": "Walk for Claude."}`}}
		}
		return answer
	})
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"deckhand": map[string]any{
		"type": "http", "url": h.URL() + "/mcp", "headers": map[string]string{"Authorization": "Bearer " + h.AdminToken},
	}}})
	require.NoError(t, err)
	home := t.TempDir()
	config := filepath.Join(home, "mcp.json")
	require.NoError(t, os.WriteFile(config, servers, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	claude := exec.CommandContext(ctx, "node", filepath.Join(modules(t), "node_modules/@anthropic-ai/claude-code/cli.js"),
		"-p", "Give the walker a task.", "--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__deckhand__task_run", "--max-turns", "4")
	claude.Dir = home
	claude.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ANTHROPIC_BASE_URL=" + model.URL, "ANTHROPIC_API_KEY=sk-ant-test", //nolint:gosec // no key
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
	}
	var stderr bytes.Buffer
	claude.Stderr = &stderr
	out, err := claude.Output()
	require.NoError(t, err, "%s\n%s", out, &stderr)
	require.Contains(t, string(out), "The walker has its task.")
	listed, err := client.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{})
	require.NoError(t, err)
	require.Len(t, listed.GetTasks(), 1)
	require.Equal(t, "Walk for Claude.", listed.GetTasks()[0].GetGoal())
	// The result went to the model, with what to do next.
	requests := model.Requests()
	require.Contains(t, requests[len(requests)-1].Text, listed.GetTasks()[0].GetId())
}
