package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/postgres"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/simnode"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
	"github.com/deckhand-sh/deckhand/worker"
)

const (
	dispatchRate  = 100 // tasks a second
	dispatchTime  = 15 * time.Second
	dispatchSlots = 200
)

// The task does nothing but end, in a workspace of its own.
const (
	noopPersona = `---
name: noop
description: Ends at once.
provider: script
script: noop.script.yaml
limits: {iterations: 5}
workspace: {scope: task}
tools: [complete_task]
---
End.
`
	noopScript = `turns:
  - text: Done.
    calls:
      - tool: complete_task
        arguments: {summary: done}
`
)

// dispatch measures the time from a submission to the worker's claim, at a
// hundred submissions a second, with every task living its whole life: real
// PostgreSQL (with fsync), NATS, hub, link and worker; the node is simulated,
// so that jails do not eat the machine.
func dispatch(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if _, err := s.client.Agents.ApplyAgent(ctx, connect.NewRequest(&deckhandv1.ApplyAgentRequest{
		Filename: "noop.md", Markdown: noopPersona, Script: noopScript,
	})); err != nil {
		return nil, err
	}
	if _, err := s.measure(ctx, 2*time.Second); err != nil { // warm up
		return nil, err
	}
	took, err := s.measure(ctx, dispatchTime)
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	return result{
		"unit": "ms", "ours": percentile(took, 50), "p99": percentile(took, 99), "n": len(took), "rate_per_s": dispatchRate,
	}, nil
}

// measure submits at the rate for a time and answers how long each claim took.
func (s *stack) measure(ctx context.Context, during time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	submitted := map[string]time.Time{}
	claimed := map[string]time.Time{}
	var failed error
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	want := int(during.Seconds() * dispatchRate)
	all := make(chan struct{})
	cursor, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	go func() {
		for res, err := range s.client.Watch(watchCtx, &deckhandv1.WatchRequest{Follow: true, Cursor: cursor}) {
			if err != nil {
				return
			}
			if e := res.GetEvent(); e.GetType() == "agent.spawned" {
				mu.Lock()
				claimed[e.GetTaskId()] = e.GetTime().AsTime()
				if len(claimed) == want {
					close(all)
				}
				mu.Unlock()
			}
		}
	}()
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / dispatchRate)
	defer tick.Stop()
	for range want {
		<-tick.C
		wg.Go(func() {
			begin := time.Now()
			res, err := s.client.Tasks.SubmitTask(ctx, connect.NewRequest(&deckhandv1.SubmitTaskRequest{AgentId: "noop"}))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			submitted[res.Msg.GetTask().GetId()] = begin
		})
	}
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("only %d of %d tasks were claimed", len(claimed), want)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	took := make([]time.Duration, 0, want)
	for id, begin := range submitted {
		took = append(took, claimed[id].Sub(begin))
	}
	return took, nil
}

// newest answers the cursor after everything that is stored.
func (s *stack) newest(ctx context.Context) (string, error) {
	cursor := ""
	for res, err := range s.client.Watch(ctx, &deckhandv1.WatchRequest{}) {
		if err != nil {
			return "", err
		}
		cursor = res.GetCursor()
	}
	return cursor, nil
}

// stack is a hub with its database, a simulated node and a worker.
type stack struct {
	dir      string
	services []lifecycle.Service
	client   *sdk.Client
}

func newStack(ctx context.Context) (_ *stack, err error) {
	s := &stack{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "deckhand-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // PostgreSQL runs as a user of its own
		return nil, err
	}
	cluster, err := postgres.Config{DataDir: filepath.Join(s.dir, "postgres")}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, cluster); err != nil {
		return nil, err
	}
	if err := cluster.EnsureDatabase(ctx, "deckhand"); err != nil {
		return nil, err
	}
	h, err := hub.Config{
		Listen: "127.0.0.1:0", EdgeListen: "127.0.0.1:0", DataDir: filepath.Join(s.dir, "hub"),
		DatabaseURL: config.Secret(cluster.URL("deckhand")), InProcessNATS: true,
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, h); err != nil {
		return nil, err
	}
	join, err := h.LocalJoinToken(ctx)
	if err != nil {
		return nil, err
	}
	node, err := simnode.New(ctx, simnode.Config{Dir: filepath.Join(s.dir, "node"), HubURL: h.URL(), JoinToken: join, Name: "simulated"})
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, node); err != nil {
		return nil, err
	}
	token, err := h.WorkerToken()
	if err != nil {
		return nil, err
	}
	w, err := worker.Config{
		HubURL: h.URL(), Token: config.Secret(token), Slots: dispatchSlots,
		NATSOptions: []nats.Option{nats.InProcessServer(h.NATS())},
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, w); err != nil {
		return nil, err
	}
	admin, err := os.ReadFile(filepath.Join(s.dir, "hub", hub.AdminTokenFile))
	if err != nil {
		return nil, err
	}
	s.client, err = sdk.New(sdk.Config{URL: h.URL(), Token: strings.TrimSpace(string(admin))})
	return s, err
}

func (s *stack) start(ctx context.Context, service lifecycle.Service) error {
	if err := service.Start(ctx); err != nil {
		service.Stop()
		return err
	}
	s.services = append(s.services, service)
	return nil
}

// stop ends everything in reverse order and removes it.
func (s *stack) stop() {
	for _, service := range slices.Backward(s.services) {
		service.Stop()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(errors.New("clean up"), err))
	}
}
