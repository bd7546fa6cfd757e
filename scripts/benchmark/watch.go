package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	watchers    = 200
	watchRate   = 50 // events a second
	watchEvents = 20 * watchRate
	watchWarmUp = 2 * watchRate
	watchedType = "progress_update"
)

// watch measures the time from an event's commit to each of two hundred
// watchers of the whole organisation, over the API. It counts from the event's
// own time, which is when its row was written, just before the commit.
func watch(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	lease, workers, err := s.runningTask(ctx)
	if err != nil {
		return nil, err
	}
	cursor, err := newest(ctx, s.client)
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	took := make([][]time.Duration, watchers)
	failed := make([]error, watchers)
	var all sync.WaitGroup
	for i := range watchers {
		all.Go(func() {
			n := 0
			for res, err := range s.client.Watch(watching, &deckhandv1.WatchRequest{Follow: true, Cursor: cursor}) {
				if err != nil {
					failed[i] = err
					return
				}
				if e := res.GetEvent(); e.GetType() == watchedType {
					if n++; n > watchWarmUp {
						took[i] = append(took[i], time.Since(e.GetTime().AsTime()))
					}
					if n == watchWarmUp+watchEvents {
						return
					}
				}
			}
		})
	}
	tick := time.NewTicker(time.Second / watchRate)
	defer tick.Stop()
	for n := range watchWarmUp + watchEvents {
		<-tick.C
		if _, err := workers.Workers.RecordEvents(ctx, &deckhandv1.RecordEventsRequest{
			Lease: lease, Batch: int64(n + 1), Events: []*deckhandv1.EventDraft{{Type: watchedType}},
		}); err != nil {
			return nil, err
		}
	}
	patience := time.AfterFunc(time.Minute, cancel)
	defer patience.Stop()
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	return result{
		"unit": "ms", "ours": percentile(every, 99), "p50": percentile(every, 50), "n": len(every),
		"watchers": watchers, "rate_per_s": watchRate,
	}, nil
}
