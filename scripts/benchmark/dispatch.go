package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
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
// so that jails do not eat the machine. The peer is one bare commit beside it.
func dispatch(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	if err := s.worker(ctx, dispatchSlots); err != nil {
		return nil, err
	}
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	if _, err := s.measure(ctx, 2*time.Second); err != nil { // warm up
		return nil, err
	}
	peer, err := startBareCommit(ctx, s)
	if err != nil {
		return nil, err
	}
	took, err := s.measure(ctx, dispatchTime)
	commit, peerErr := peer.end()
	if err := errors.Join(err, peerErr); err != nil {
		return nil, err
	}
	slices.Sort(took)
	out := compared("ms", percentile(took, 50), commit, bareCommitName, len(took))
	out["p99"], out["rate_per_s"] = percentile(took, 99), dispatchRate
	return out, nil
}

func (s *stack) applyNoop(ctx context.Context) error {
	_, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
		Filename: "noop.md", Markdown: noopPersona, Script: noopScript,
	})
	return err
}

// measure submits at the rate for a time and returns how long each claim took.
func (s *stack) measure(ctx context.Context, during time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	submitted := map[string]time.Time{}
	claimed := map[string]time.Time{}
	var failed error
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	want := int(during.Seconds() * dispatchRate)
	all := make(chan struct{})
	cursor, err := newest(ctx, s.client)
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
			res, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "noop"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			submitted[res.GetTask().GetId()] = begin
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

// newest returns the cursor after everything that is stored.
func newest(ctx context.Context, client *sdk.Client) (string, error) {
	cursor := ""
	for res, err := range client.Watch(ctx, &deckhandv1.WatchRequest{}) {
		if err != nil {
			return "", err
		}
		cursor = res.GetCursor()
	}
	return cursor, nil
}
