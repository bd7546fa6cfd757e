package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/datadir"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	restReads   = 2000
	restSubmits = 300
	restWarmUp  = 100
)

// restCalls measures GET and POST of a task by REST against the same Connect call with
// JSON, in turn, on connections of their own. Allocations are those of client, hub and
// database driver together.
func restCalls(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	admin, err := os.ReadFile(filepath.Join(s.dir, "hub", datadir.AdminTokenFile))
	if err != nil {
		return nil, err
	}
	if _, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
		Filename: "rested.md", Markdown: strings.ReplaceAll(noopPersona, "noop", "rested"), Script: noopScript,
	}); err != nil {
		return nil, err
	}
	// The tasks wait: what is measured is the call.
	if _, err := s.client.Agents.PauseAgent(ctx, &deckhandv1.PauseAgentRequest{AgentId: "rested", Reason: "measured"}); err != nil {
		return nil, err
	}
	first, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "rested", Goal: "rest"})
	if err != nil {
		return nil, err
	}
	id := first.GetTask().GetId()
	call := func(client *http.Client, method, path, body string) func() error {
		return func() error {
			req, err := http.NewRequestWithContext(ctx, method, s.hub.URL()+path, bytes.NewReader([]byte(body)))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(admin)))
			if body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
			}
			return err
		}
	}
	rest, rpc := &http.Client{Transport: &http.Transport{}}, &http.Client{Transport: &http.Transport{}}
	submit := `{"agentId": "rested", "goal": "rest"}`
	get, err := inTurn(restReads, call(rest, http.MethodGet, "/v1/tasks/"+id, ""), call(rpc, http.MethodPost, "/deckhand.v1.TaskService/GetTask", `{"taskId": "`+id+`"}`))
	if err != nil {
		return nil, err
	}
	post, err := inTurn(restSubmits, call(rest, http.MethodPost, "/v1/tasks", submit), call(rpc, http.MethodPost, "/deckhand.v1.TaskService/SubmitTask", submit))
	if err != nil {
		return nil, err
	}
	return result{
		"unit": "ms", "ours": get.ours, "peer": get.peer, "peer_name": "GetTask by Connect", "ratio": get.ours / get.peer, "n": restReads,
		"allocs": get.allocs, "peer_allocs": get.peerAllocs,
		"post": post.ours, "peer_post": post.peer, "post_ratio": post.ours / post.peer, "post_n": restSubmits,
		"post_allocs": post.allocs, "peer_post_allocs": post.peerAllocs,
	}, nil
}

// restTimes are the medians of two calls in milliseconds, and their allocations.
type restTimes struct {
	ours, peer         float64
	allocs, peerAllocs uint64
}

// inTurn makes two calls in turn.
func inTurn(n int, ours, peer func() error) (out restTimes, err error) {
	took := [2][]time.Duration{}
	var allocated [2]uint64
	var before, after runtime.MemStats
	for i := range restWarmUp + n {
		for side, do := range []func() error{ours, peer} {
			counted := i >= restWarmUp && (i-restWarmUp)%10 == 0
			if counted {
				runtime.ReadMemStats(&before)
			}
			begin := time.Now()
			if err := do(); err != nil {
				return out, err
			}
			spent := time.Since(begin)
			if counted {
				runtime.ReadMemStats(&after)
				allocated[side] += after.Mallocs - before.Mallocs
			} else if i >= restWarmUp {
				took[side] = append(took[side], spent)
			}
		}
	}
	for side := range took {
		slices.Sort(took[side])
	}
	samples := uint64(n / 10) //nolint:gosec // a positive constant
	return restTimes{percentile(took[0], 50), percentile(took[1], 50), allocated[0] / samples, allocated[1] / samples}, nil
}
