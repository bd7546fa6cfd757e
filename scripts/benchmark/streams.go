package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// streamAttempts is how many streams are asked for, streamsAtOnce how many at a
	// time.
	streamAttempts = 10_000
	streamsAtOnce  = 50
	streamSamples  = 200
)

// streams measures an API call while one token asks for 10,000 streams, of which it
// gets as many as a token may have; the peer is the same call before. In both its
// p95.
func streams(ctx context.Context) (result, error) {
	s, err := newStack(ctx, func(c *hub.Config) { c.APIRate = -1 })
	if err != nil {
		return nil, err
	}
	defer s.stop()
	v, err := newVictim(ctx, s)
	if err != nil {
		return nil, err
	}
	sample := func(while func() bool) ([]time.Duration, error) {
		var out []time.Duration
		for next := time.Now(); while() || len(out) < streamSamples; next = next.Add(10 * time.Millisecond) {
			time.Sleep(time.Until(next))
			took, err := v.api(ctx)
			if err != nil {
				return nil, err
			}
			out = append(out, took)
		}
		slices.Sort(out)
		return out, nil
	}
	quiet, err := sample(func() bool { return false })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var opened, refused, next atomic.Int64
	var other atomic.Pointer[error]
	var openers, held sync.WaitGroup
	done := make(chan struct{})
	for range streamsAtOnce {
		openers.Go(func() {
			for next.Add(1) <= streamAttempts {
				stream, err := s.client.Events.Watch(ctx, &deckhandv1.WatchRequest{Follow: true, FromNow: true})
				if err == nil {
					if stream.Receive() {
						opened.Add(1)
						held.Go(func() {
							for stream.Receive() {
							}
							_ = stream.Close()
						})
						continue
					}
					err = stream.Err()
					_ = stream.Close()
				}
				if connect.CodeOf(err) != connect.CodeResourceExhausted {
					err = fmt.Errorf("a stream was refused otherwise than for their number: %w", err)
					other.CompareAndSwap(nil, &err)
				}
				refused.Add(1)
			}
		})
	}
	go func() {
		openers.Wait()
		close(done)
	}()
	loud, err := sample(func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	})
	<-done
	cancel()
	held.Wait()
	if why := other.Load(); why != nil {
		err = errors.Join(err, *why)
	}
	if err != nil {
		return nil, err
	}
	with, without := percentile(loud, 95), percentile(quiet, 95)
	return result{
		"unit": "ms, p95 of a call", "ours": with, "peer": without, "ratio": with / without, "n": len(loud),
		"peer_name": "the same before", "opened": opened.Load(), "refused": refused.Load(),
	}, nil
}
