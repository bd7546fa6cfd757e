package api

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Any number of watchers look once per ttl, and one that goes away does not end the look of the
// others.
func TestWatchersShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGlances[int64](10, 900*time.Millisecond, 5*time.Second)
		var looks atomic.Int64
		look := func(ctx context.Context) int64 {
			time.Sleep(100 * time.Millisecond)
			if ctx.Err() != nil {
				return 0
			}
			return looks.Add(1)
		}
		first, leave := context.WithCancel(t.Context())
		gone := make(chan int64, 1)
		go func() { gone <- g.of(first, "a", look) }()
		synctest.Wait()
		var watchers sync.WaitGroup
		for range 50 {
			watchers.Go(func() {
				for second := int64(1); second <= 3; second++ {
					if got := g.of(t.Context(), "a", look); got != second {
						t.Errorf("the result of look %d is %d", second, got)
					}
					time.Sleep(time.Second)
				}
			})
		}
		synctest.Wait()
		leave()
		require.Zero(t, <-gone)
		watchers.Wait()
		require.Equal(t, int64(3), looks.Load())
		g.of(t.Context(), "b", look)
		require.Equal(t, int64(4), looks.Load(), "another key has a look of its own")
	})
}
