package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/datadir"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	mcpCalls = 2000
	mcpWarm  = 200
)

// authorized adds a token to each request.
type authorized struct {
	token string
	next  http.RoundTripper
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.next.RoundTrip(r)
}

// mcpGet measures the MCP tool task_get against the Connect call that it makes, one after
// the other in turns.
func mcpGet(ctx context.Context) (_ result, err error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	submitted, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "noop"})
	if err != nil {
		return nil, err
	}
	id := submitted.GetTask().GetId()
	token, err := os.ReadFile(filepath.Join(s.dir, "hub", datadir.AdminTokenFile))
	if err != nil {
		return nil, err
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "benchmark", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.hub.URL() + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: authorized{strings.TrimSpace(string(token)), http.DefaultTransport}},
	}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close() //nolint:errcheck // the hub keeps nothing of it
	var ours, peer []time.Duration
	for i := range mcpWarm + mcpCalls {
		begin := time.Now()
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "task_get", Arguments: map[string]any{"task_id": id}})
		if err == nil && res.IsError {
			err = fmt.Errorf("task_get: %v", res.Content)
		}
		if err != nil {
			return nil, err
		}
		tool := time.Since(begin)
		begin = time.Now()
		if _, err := s.client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: id}); err != nil {
			return nil, err
		}
		if call := time.Since(begin); i >= mcpWarm {
			ours, peer = append(ours, tool), append(peer, call)
		}
	}
	slices.Sort(ours)
	slices.Sort(peer)
	tool, call := percentile(ours, 50), percentile(peer, 50)
	return result{"unit": "ms", "ours": tool, "peer": call, "peer_name": "Connect GetTask", "ratio": tool / call, "n": mcpCalls, "p99": percentile(ours, 99)}, nil
}
