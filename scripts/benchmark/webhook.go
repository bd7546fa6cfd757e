package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/jackc/pgx/v5/pgxpool"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	webhookRate    = 500 // a second
	webhookTime    = 30 * time.Second
	webhookBody    = 14 << 10
	webhookWarm    = 2 * time.Second
	webhookFlood   = 8 * time.Second
	webhookSenders = 64
	webhookTasks   = 300
)

// hook is a webhook of GitHub's kind on a stack's hub.
type hook struct {
	url, secret string
	client      *http.Client
	sent        atomic.Int64
}

func (s *stack) webhook(ctx context.Context, name, agent, filter string) (*hook, error) {
	res, err := s.client.Triggers.CreateTrigger(ctx, &deckhandv1.CreateTriggerRequest{
		Name: name, AgentId: agent, Kind: deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK, Spec: &deckhandv1.TriggerSpec{
			Filter: filter, Goal: "Look at {{ payload.number }}.", Webhook: &deckhandv1.WebhookSpec{Verify: "github", RatePerMinute: 1_000_000},
		},
	})
	if err != nil {
		return nil, err
	}
	return &hook{
		url: s.hub.URL() + res.GetTrigger().GetPath(), secret: res.GetSecret(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}},
	}, nil
}

// request makes a signed payload of 14 KB that is sent once.
func (h *hook) request(ctx context.Context) (*http.Request, error) {
	n := h.sent.Add(1)
	body := fmt.Appendf(nil, `{"action":"opened","number":%d,"pull_request":{"title":"Fix","body":"`, n)
	body = append(body, strings.Repeat("x", webhookBody-len(body)-3)...)
	body = append(body, `"}}`...)
	m := hmac.New(sha256.New, []byte(h.secret))
	_, _ = m.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Github-Event", "pull_request")
	req.Header.Set("X-Github-Delivery", fmt.Sprint("delivery-", n))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	return req, nil
}

// post sends a request, and returns when it was taken.
func (h *hook) post(req *http.Request) error {
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("HTTP %d: %s", res.StatusCode, data)
	}
	return err
}

// steady sends at a rate, whatever the answers take.
func (h *hook) steady(ctx context.Context, during time.Duration) ([]time.Duration, error) {
	n := int(during.Seconds() * webhookRate)
	took, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		req, err := h.request(ctx)
		if err != nil {
			return nil, err
		}
		due := begin.Add(time.Duration(i) * time.Second / webhookRate)
		time.Sleep(time.Until(due))
		wg.Go(func() {
			errs[i] = h.post(req)
			took[i] = time.Since(due) // with what it had to wait to be sent
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}

// flood returns how many a second are taken of many senders that wait for
// nothing.
func (h *hook) flood(ctx context.Context) (float64, error) {
	var done atomic.Int64
	errs := make([]error, webhookSenders)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range errs {
		wg.Go(func() {
			for time.Since(begin) < webhookFlood && errs[i] == nil {
				var req *http.Request
				if req, errs[i] = h.request(ctx); errs[i] == nil {
					errs[i] = h.post(req)
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}

// webhookAck measures how long senders wait for an answer, at five hundred
// signed payloads of 14 KB a second, each committed before it is answered; and
// what a hub takes at most, beside a bare handler that inserts a row.
func webhookAck(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	h, err := s.webhook(ctx, "ack", "noop", "payload.action == 'closed'")
	if err != nil {
		return nil, err
	}
	if _, err := h.steady(ctx, webhookWarm); err != nil {
		return nil, err
	}
	took, err := h.steady(ctx, webhookTime)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var stored int64
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM deliveries").Scan(&stored); err != nil {
		return nil, err
	}
	lost := h.sent.Load() - stored
	peer, stop, err := bareHandler(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer stop()
	peer.secret = h.secret
	var ours, bare float64
	const rounds = 2
	for range rounds { // turn about
		for _, side := range []struct {
			h   *hook
			sum *float64
		}{{h, &ours}, {peer, &bare}} {
			rate, err := side.h.flood(ctx)
			if err != nil {
				return nil, err
			}
			*side.sum += rate / rounds
		}
	}
	slices.Sort(took)
	return result{
		"unit": "ms to the answer, p99", "ours": percentile(took, 99), "p50": percentile(took, 50), "n": len(took), "lost": lost,
		"rate_per_s": webhookRate, "throughput_per_s": ours, "peer_throughput_per_s": bare, "throughput_ratio": ours / bare,
		"peer_name": "a bare Go handler that does one INSERT",
	}, nil
}

// bareHandler reads a body and inserts it, with its own pool of as many
// connections as a hub has.
func bareHandler(ctx context.Context, pool *pgxpool.Pool) (*hook, func(), error) {
	if _, err := pool.Exec(ctx, "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"); err != nil {
		return nil, nil, err
	}
	cfg := pool.Config()
	cfg.MaxConns = 32
	wide, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = wide.Exec(r.Context(), "INSERT INTO bare (body) VALUES ($1)", body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	stop := func() {
		server.Close()
		wide.Close()
	}
	return &hook{url: server.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}, stop, nil
}

// webhookToTask measures the time from a webhook's answer to the claim of its
// task by a worker.
func webhookToTask(ctx context.Context) (result, error) {
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
	h, err := s.webhook(ctx, "start", "noop", "")
	if err != nil {
		return nil, err
	}
	const apart = 50 * time.Millisecond
	for range webhookTasks {
		req, err := h.request(ctx)
		if err != nil {
			return nil, err
		}
		if err := h.post(req); err != nil {
			return nil, err
		}
		time.Sleep(apart)
	}
	pool, err := pgxpool.New(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var took []time.Duration
	for begin := time.Now(); len(took) < webhookTasks; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			return nil, fmt.Errorf("only %d of %d tasks were claimed", len(took), webhookTasks)
		}
		// A delivery's time is its statement's, just before the answer.
		rows, err := pool.Query(ctx, "SELECT a.claimed_at - d.received_at FROM deliveries d JOIN attempts a ON a.task_id = d.task_id AND a.attempt = 1")
		if err != nil {
			return nil, err
		}
		took = took[:0]
		for rows.Next() {
			var d time.Duration
			if err := rows.Scan(&d); err != nil {
				return nil, err
			}
			took = append(took, d)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return result{"unit": "ms", "ours": percentile(took, 50), "p99": percentile(took, 99), "n": len(took)}, nil
}
