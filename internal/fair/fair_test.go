package fair_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// One asker has so many turns at once and no more may wait; another is not kept.
func TestAnAskerWaitsForItselfOnly(t *testing.T) {
	t.Parallel()
	lanes := fair.NewLanes(2, 1)
	first, err := lanes.Take(t.Context(), "a")
	require.NoError(t, err)
	_, err = lanes.Take(t.Context(), "a")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lanes.Take(ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	waited := make(chan error)
	go func() {
		_, err := lanes.Take(context.Background(), "a")
		waited <- err
	}()
	require.Eventually(t, func() bool {
		_, err := lanes.Take(ended, "a")
		e := fault.As(err)
		return e != nil && e.Code == fault.RateLimited
	}, waitFor, tick)
	for range 100 {
		done, err := lanes.Take(t.Context(), "b")
		require.NoError(t, err)
		done()
		done()
	}
	first()
	require.NoError(t, <-waited)
}

func TestNoMoreAtOnceThanThereAreTurns(t *testing.T) {
	t.Parallel()
	lanes := fair.NewLanes(3, 1000)
	var now, most atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			done, err := lanes.Take(context.Background(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), now.Add(1)))
			now.Add(-1)
			done()
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int32(3))
}

// One asker has its share and no more, under whichever of its names.
func TestRoomIsShared(t *testing.T) {
	t.Parallel()
	room := fair.NewRoom(100, 40)
	require.True(t, room.Take(30, "org", "address"))
	require.False(t, room.Take(20, "org", "another"))
	require.False(t, room.Take(20, "other", "address"))
	require.True(t, room.Take(40, "other"))
	require.True(t, room.Take(30, "third"))
	require.False(t, room.Take(1, "fourth"), "there is no more")
	room.Give(30, "org", "address")
	require.True(t, room.Take(25, "org", "another"))
	for i := range 50 {
		require.False(t, room.Take(41, fmt.Sprint(i)))
	}
}

const (
	waitFor = 10 * time.Second
	tick    = time.Millisecond
)
