package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	throughputTasks      = 2000
	throughputSubmitters = 16
	throughputRiverJobs  = 5000
	throughputRounds     = 3
)

// throughput measures how many no-op tasks a second live their whole life
// (submission, admission, wake-up, claim, turn, step, checkpoint, end, every
// event), and River's no-op jobs on the same PostgreSQL server, in turns.
func throughput(ctx context.Context) (result, error) {
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
	if err := s.cluster.EnsureDatabase(ctx, "river"); err != nil {
		return nil, err
	}
	if _, err := s.lives(ctx, throughputTasks/4); err != nil { // warm up
		return nil, err
	}
	var ours, peers, inserts []float64
	for range throughputRounds {
		rate, err := s.lives(ctx, throughputTasks)
		if err != nil {
			return nil, err
		}
		ours = append(ours, rate)
		river, err := s.river(ctx)
		if err != nil {
			return nil, err
		}
		peers, inserts = append(peers, river.PerS), append(inserts, river.InsertPerS)
	}
	out := compared("per s", median(ours), median(peers), "riverqueue/river, inserted one by one, worked by 200", throughputRounds*throughputTasks)
	out["peer_insert_per_s"] = median(inserts)
	return out, nil
}

// lives submits n tasks and returns how many finish per second.
func (s *stack) lives(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cursor, err := newest(ctx, s.client)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	submitted := make(chan error, throughputSubmitters)
	work := make(chan struct{})
	var submitters sync.WaitGroup
	for range throughputSubmitters {
		submitters.Go(func() {
			for range work {
				if _, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "noop"}); err != nil {
					submitted <- err
					cancel()
					return
				}
			}
		})
	}
	go func() {
		defer close(work)
		for range n {
			select {
			case work <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	ended := 0
	for res, err := range s.client.Watch(ctx, &deckhandv1.WatchRequest{
		Follow: true, Cursor: cursor, Types: []string{"execution_completed", "execution_failed", "execution_paused"},
	}) {
		if err != nil {
			select {
			case err = <-submitted:
			default:
			}
			return 0, fmt.Errorf("%d of %d tasks have ended: %w", ended, n, err)
		}
		switch res.GetEvent().GetType() {
		case "execution_completed":
			ended++
		case "execution_failed", "execution_paused":
			return 0, fmt.Errorf("task %s did not succeed", res.GetEvent().GetTaskId())
		}
		if ended == n {
			break
		}
	}
	took := time.Since(begin)
	submitters.Wait()
	return float64(n) / took.Seconds(), nil
}

type riverRates struct {
	InsertPerS float64 `json:"insert_per_s"`
	PerS       float64 `json:"per_s"`
}

// river runs the peer on a database of its own.
func (s *stack) river(ctx context.Context) (riverRates, error) {
	var rates riverRates
	//nolint:gosec // a fixed program
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "scripts/benchmark/river", ".", s.cluster.URL("river"), strconv.Itoa(throughputRiverJobs))
	out, err := cmd.Output()
	if err != nil {
		return rates, fmt.Errorf("run River: %w", err)
	}
	return rates, json.Unmarshal(out, &rates)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
