package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// startMCP runs "deckhand mcp" and returns its input and output, and its exit code.
func startMCP(t *testing.T, args ...string) (in io.WriteCloser, out io.ReadCloser, code <-chan int) {
	t.Helper()
	stdin, toServer := io.Pipe()
	fromServer, stdout := io.Pipe()
	done := make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		var stderr bytes.Buffer
		exit := cli.Execute(ctx, append([]string{"mcp"}, args...), stdin, stdout, &stderr)
		_ = stdout.CloseWithError(io.EOF)
		if exit != 0 && t.Context().Err() == nil {
			t.Log(stderr.String())
		}
		done <- exit
	}()
	return toServer, fromServer, done
}

// A client that starts the command has the hub's tools, with the command line's token.
func TestMCPOnStandardInputAndOutput(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	_, err := h.Client(t, h.AdminToken).Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "walker.md", Markdown: "---\nname: walker\ndescription: Walks.\nprovider: script\nscript: walker.script.yaml\ntools: [complete_task]\n---\nWalk.\n", Script: "turns: []\n",
	})
	require.NoError(t, err)
	in, out, code := startMCP(t, "--hub", h.URL(), "--token", h.AdminToken)
	progress := make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			require.Equal(t, "mine", req.Params.ProgressToken)
			progress <- req.Params.Message
		},
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	require.NoError(t, err)
	require.Contains(t, session.InitializeResult().Instructions, "task_run")
	listed, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, listed.Tools, 12)
	call := func(name string, arguments map[string]any) map[string]any {
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		params.SetProgressToken("mine")
		res, err := session.CallTool(t.Context(), params)
		require.NoError(t, err)
		require.False(t, res.IsError, "%v", res.Content[0])
		structured, ok := res.StructuredContent.(map[string]any)
		require.True(t, ok)
		return structured
	}
	require.Len(t, call("agent_list", nil)["agents"], 1)
	task, ok := call("task_run", map[string]any{"agent": "walker", "goal": "walk"})["task"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, true, call("task_wait", map[string]any{"task_id": task["id"], "timeout_seconds": 1})["still_running"])
	require.NotEmpty(t, <-progress)
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "deckhand://tasks/" + task["id"].(string)}) //nolint:forcetypeassert // an id
	require.NoError(t, err)
	require.Contains(t, read.Contents[0].Text, `"goal":"walk"`)
	prompts, err := session.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, prompts.Prompts, 1)
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "task_get", Arguments: map[string]any{"task_id": "task_none"}})
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.NoError(t, session.Close())
	require.NoError(t, in.Close())
	require.Equal(t, 0, <-code)

	// A client of the older revision begins with a handshake.
	in, out, code = startMCP(t, "--hub", h.URL(), "--token", h.AdminToken)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	ask := func(request string) map[string]any {
		_, err := io.WriteString(in, request+"\n")
		require.NoError(t, err)
		require.True(t, lines.Scan())
		var response map[string]any
		require.NoError(t, json.Unmarshal(lines.Bytes(), &response))
		require.Nil(t, response["error"])
		result, ok := response["result"].(map[string]any)
		require.True(t, ok)
		return result
	}
	hello := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	require.Equal(t, "2025-11-25", hello["protocolVersion"])
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	require.NoError(t, err)
	require.Len(t, ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)["tools"], 12)
	require.Nil(t, ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"agent_list","arguments":{}}}`)["isError"])
	require.NoError(t, in.Close())
	require.Equal(t, 0, <-code)

	_, _, code = startMCP(t, "--hub", h.URL(), "--token", "dhu_wrong")
	require.NotEqual(t, 0, <-code, "a wrong token is an error at once")
}
