package coalesce_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/coalesce"
)

func TestWhoAsksWhileAnAnswerIsUnderWaySharesTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g coalesce.Group[string, int32]
		var asked atomic.Int32
		release := make(chan struct{})
		ask := func(context.Context) (int32, error) {
			n := asked.Add(1)
			<-release
			return n, nil
		}
		var wg sync.WaitGroup
		answers := make([]int32, 10)
		for i := range answers {
			wg.Go(func() {
				var err error
				answers[i], err = g.Do(t.Context(), "a", ask)
				require.NoError(t, err)
			})
			synctest.Wait() // the first is in progress before the others ask
		}
		var other int32
		wg.Go(func() { other, _ = g.Do(t.Context(), "b", ask) })
		synctest.Wait()
		close(release)
		wg.Wait()
		require.EqualValues(t, 1, answers[0])
		require.EqualValues(t, 2, other, "another key waits for nobody")
		for _, answer := range answers[1:] {
			require.EqualValues(t, 3, answer)
		}
		again, err := g.Do(t.Context(), "a", ask)
		require.NoError(t, err)
		require.EqualValues(t, 4, again, "nothing is kept")
	})
}

func TestAnAnswerEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g coalesce.Group[string, string]
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		left := make(chan error, 1)
		ask := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			left <- ctx.Err()
			return "", ctx.Err()
		}
		var wg sync.WaitGroup
		wait := func(ctx context.Context) {
			wg.Go(func() {
				_, err := g.Do(ctx, "a", ask)
				require.ErrorIs(t, err, context.Canceled)
			})
			synctest.Wait()
		}
		wait(first)
		wait(second)
		leave()
		require.ErrorIs(t, <-left, context.Canceled, "the only one who waited for the first answer has gone")
		synctest.Wait()
		require.Empty(t, left, "somebody waits for the second")
		leaveToo()
		require.ErrorIs(t, <-left, context.Canceled)
		wg.Wait()
	})
}

func TestAnErrorIsForAllWhoAsked(t *testing.T) {
	t.Parallel()
	var g coalesce.Group[int, int]
	broken := errors.New("broken")
	_, err := g.Do(t.Context(), 1, func(context.Context) (int, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
}
