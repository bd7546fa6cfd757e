package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	relayCalls   = 300
	relayStreams = 200
	relayAsk     = `{"model":"claude-sonnet-5-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"%s"}]}`
	relayPiece   = `event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"piece"}}` + "\n\n"
	relayBegin   = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n\n"
	relayEnd     = `event: message_delta` + "\n" + `data: {"type":"message_delta","usage":{"output_tokens":20}}` + "\n\n" +
		`event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
)

// relayed measures how much later the first byte of a model's answer comes
// through the relay than from the provider itself, turn about in one run, and
// whether one hub carries 200 streams at once.
func relayed(ctx context.Context) (_ result, err error) {
	var open atomic.Int64
	together := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		flush := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, relayBegin)
		_ = flush.Flush()
		if bytes.Contains(body, []byte("together")) {
			if open.Add(1) == relayStreams {
				close(together)
			}
			select {
			case <-together:
			case <-r.Context().Done():
				return
			}
		}
		for range 20 {
			_, _ = io.WriteString(w, relayPiece)
			_ = flush.Flush()
		}
		_, _ = io.WriteString(w, relayEnd)
	}))
	defer provider.Close()
	s, err := newStack(ctx, func(c *hub.Config) { c.AnthropicBaseURL, c.AnthropicKey = provider.URL, "sk-ant-bench" })
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := noBudget(ctx, s.client); err != nil {
		return nil, err
	}
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	key, err := s.leased(ctx)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: relayStreams}}
	defer client.CloseIdleConnections()
	call := func(url, text string) (time.Duration, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", strings.NewReader(fmt.Sprintf(relayAsk, text)))
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-Api-Key", key)
		begin := time.Now()
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		first, err := in.ReadByte()
		took := time.Since(begin)
		if err != nil {
			return 0, err
		}
		rest, err := io.ReadAll(in)
		if err == nil && (first != 'e' || !bytes.HasSuffix(rest, []byte(relayEnd))) {
			err = fmt.Errorf("HTTP %d: %c%s", res.StatusCode, first, rest)
		}
		return took, err
	}
	var ours, peer []time.Duration
	for n := range relayCalls + 20 {
		direct, err := call(provider.URL, "alone")
		if err != nil {
			return nil, err
		}
		through, err := call(s.hub.URL()+"/relay/anthropic", "alone")
		if err != nil {
			return nil, err
		}
		if n >= 20 { // the first ones open connections
			ours, peer = append(ours, through), append(peer, direct)
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, relayStreams)
	for i := range errs {
		wg.Go(func() { _, errs[i] = call(s.hub.URL()+"/relay/anthropic", "together") })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%d streams at once: %w", relayStreams, err)
	}
	slices.Sort(ours)
	slices.Sort(peer)
	return result{
		"unit": "ms to the first byte", "ours": percentile(ours, 50), "peer": percentile(peer, 50), "peer_name": "the same call direct",
		"ratio": percentile(ours, 50) / percentile(peer, 50), "added": percentile(ours, 50) - percentile(peer, 50),
		"added_p95": percentile(ours, 95) - percentile(peer, 95), "streams_at_once": relayStreams, "n": relayCalls,
	}, nil
}

// noBudget lifts the organisation's budgets.
func noBudget(ctx context.Context, client *sdk.Client) error {
	for _, every := range []string{"day", "month"} {
		if _, err := client.Budgets.SetBudget(ctx, &deckhandv1.SetBudgetRequest{
			Scope: "organisation", Every: every, Limit: &deckhandv1.SetBudgetRequest_Unlimited{Unlimited: true},
		}); err != nil {
			return err
		}
	}
	return nil
}

// leased begins a task as a worker and returns the key of its lease.
func (s *stack) leased(ctx context.Context) (string, error) {
	token, err := s.hub.WorkerToken()
	if err != nil {
		return "", err
	}
	workers, err := sdk.New(sdk.Config{URL: s.hub.URL(), Token: token})
	if err != nil {
		return "", err
	}
	if _, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: "waiter.md", Markdown: loopPersona}); err != nil {
		return "", err
	}
	task, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "waiter"})
	if err != nil {
		return "", err
	}
	worker, err := workers.Workers.RegisterWorker(ctx, &deckhandv1.RegisterWorkerRequest{Name: "bench", Slots: 1})
	if err != nil {
		return "", err
	}
	for {
		res, err := workers.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{
			WorkerId: worker.GetWorkerId(), TaskId: task.GetTask().GetId(), Attempt: 1,
		})
		if err != nil {
			return "", err
		}
		if !res.GetClaimed() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		lease := res.GetLease()
		_, err = workers.Workers.StartTask(ctx, &deckhandv1.StartTaskRequest{Lease: lease})
		return fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()), err
	}
}
