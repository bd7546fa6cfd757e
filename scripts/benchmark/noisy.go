package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest/noisy"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	// noisyRounds are how often there is quiet and then noise, each for noisyTime.
	noisyRounds = 2
	noisyTime   = 8 * time.Second
	// noisyWarm is left out at the beginning of each.
	noisyWarm = time.Second
	// noisyApart is the time between two samples of one kind.
	noisyApart = 40 * time.Millisecond
)

// victim is the organisation that is measured, as its people, senders and workers
// see the hub.
type victim struct {
	s        *stack
	workers  *sdk.Client
	workerID string
	lease    *deckhandv1.Lease
	hook     *hook
	calls    int32
}

// noisyNeighbour measures what an organisation sees of another that does ten kinds
// of work as fast as it can: the p95 of an API call, of the answer to a webhook, of
// the time from a submission to its claim, and of a step, each with the noise as
// ours and without it as the peer, turn about in one run. The figure is the
// largest of the four ratios.
func noisyNeighbour(ctx context.Context) (result, error) {
	s, err := newStack(ctx, func(c *hub.Config) {
		c.APIRate, c.TrustedProxies, c.NotifyAllow, c.ProviderAllow = 0, "127.0.0.1", "127.0.0.0/8", "127.0.0.0/8"
	})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	v, err := newVictim(ctx, s)
	if err != nil {
		return nil, err
	}
	other, err := s.noisyNeighbour(ctx)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	quiet, loud := map[string][]time.Duration{}, map[string][]time.Duration{}
	for range noisyRounds {
		if err := v.measure(ctx, quiet); err != nil {
			return nil, fmt.Errorf("without noise: %w", err)
		}
		noise, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			other.Run(noise)
		}()
		err := v.measure(ctx, loud)
		stop()
		<-done
		if err != nil {
			return nil, fmt.Errorf("with noise: %w", err)
		}
		time.Sleep(noisyWarm) // what is in progress ends
	}
	return noisyResult(quiet, loud, other), nil
}

func noisyResult(quiet, loud map[string][]time.Duration, other *noisy.Neighbour) result {
	out := result{"unit": "p95 with noise / p95 without", "peer_name": "the same without the other organisation"}
	worst, n := 0.0, 0
	for kind, took := range loud {
		slices.Sort(took)
		slices.Sort(quiet[kind])
		with, without := percentile(took, 95), percentile(quiet[kind], 95)
		out[kind+"_ms"], out[kind+"_peer_ms"], out[kind+"_ratio"] = with, without, with/without
		n += len(took)
		if with/without > worst {
			worst = with / without
			out["ours"], out["peer"], out["ratio"] = with, without, worst
		}
	}
	noise := map[string]int64{}
	for name, count := range other.Counts() {
		noise[name] = count.Done.Load() + count.Refused.Load()
	}
	out["n"], out["noise"] = n, noise
	return out
}

// noisyNeighbour adds the other organisation, with a node of its own.
func (s *stack) noisyNeighbour(ctx context.Context) (*noisy.Neighbour, error) {
	other, err := noisy.Make(ctx, s.client, "noisy")
	if err != nil {
		return nil, err
	}
	if err := s.simulatedNode(ctx, func(c *nodetest.Config) {
		c.Dir, c.Name, c.JoinToken = filepath.Join(s.dir, "noisy"), noisy.NodeName, other.JoinToken
	}); err != nil {
		return nil, err
	}
	return other, other.Prepare(ctx)
}

func newVictim(ctx context.Context, s *stack) (v *victim, err error) {
	v = &victim{s: s}
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	if v.lease, v.workers, err = s.runningTask(ctx); err != nil {
		return nil, err
	}
	registered, err := v.workers.Workers.RegisterWorker(ctx, &deckhandv1.RegisterWorkerRequest{Name: "claims", Slots: 1000})
	if err != nil {
		return nil, err
	}
	v.workerID = registered.GetWorkerId()
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	v.hook, err = s.webhook(ctx, "ours", "noop", "payload.action == 'closed'")
	return v, err
}

// measure samples every kind for a time, each in a row of its own.
func (v *victim) measure(ctx context.Context, into map[string][]time.Duration) error {
	kinds := map[string]func(context.Context) (time.Duration, error){
		"api": v.api, "webhook": v.webhook, "dispatch": v.dispatch, "step": v.step,
	}
	type row struct {
		kind string
		took []time.Duration
		err  error
	}
	rows := make(chan row, len(kinds))
	begin := time.Now()
	for kind, sample := range kinds {
		go func() {
			r := row{kind: kind}
			for next := begin; time.Since(begin) < noisyTime && r.err == nil; next = next.Add(noisyApart) {
				time.Sleep(time.Until(next))
				var took time.Duration
				if took, r.err = sample(ctx); r.err == nil && time.Since(begin) > noisyWarm {
					r.took = append(r.took, took)
				}
			}
			rows <- r
		}()
	}
	var failed error
	for range kinds {
		r := <-rows
		into[r.kind] = append(into[r.kind], r.took...)
		if r.err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", r.kind, r.err)
		}
	}
	return failed
}

func (v *victim) api(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	_, err := v.s.client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: v.lease.GetTaskId()})
	return time.Since(begin), err
}

func (v *victim) webhook(ctx context.Context) (time.Duration, error) {
	req, err := v.hook.request(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = v.hook.post(req)
	return time.Since(begin), err
}

// dispatch is the time from a submission to the claim, which is tried all the
// while; the task is taken back then.
func (v *victim) dispatch(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	task, err := v.s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "noop"})
	if err != nil {
		return 0, err
	}
	id := task.GetTask().GetId()
	for {
		res, err := v.workers.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{WorkerId: v.workerID, TaskId: id, Attempt: 1})
		if err != nil {
			return 0, err
		}
		if res.GetClaimed() {
			break
		}
		if time.Since(begin) > noisyTime {
			return 0, fmt.Errorf("task %s was not admitted within %s", id, noisyTime)
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begin)
	_, err = v.s.client.Tasks.CancelTask(ctx, &deckhandv1.CancelTaskRequest{TaskId: id})
	return took, err
}

// step is a command from its proposal to its outcome.
func (v *victim) step(ctx context.Context) (time.Duration, error) {
	v.calls++
	begin := time.Now()
	step, err := v.workers.Workers.ProposeStep(ctx, &deckhandv1.ProposeStepRequest{
		Lease: v.lease, Turn: 1, CallIndex: v.calls, CallId: "c", Tool: "shell_exec", ArgumentsJson: `{"command":"true"}`,
	})
	if err != nil {
		return 0, err
	}
	ended, err := v.workers.Workers.ExecuteStep(ctx, &deckhandv1.ExecuteStepRequest{Lease: v.lease, StepId: step.GetStep().GetId()})
	if err == nil && ended.GetStep().GetState() != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
		err = fmt.Errorf("step %s is %s", step.GetStep().GetId(), ended.GetStep().GetState())
	}
	return time.Since(begin), err
}
