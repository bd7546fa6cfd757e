package fair_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fair"
)

// calls begins n calls of who that each hold the processors for a time, one after
// the other's end if they must, and returns how many hold them.
func calls(t *testing.T, turns *fair.Turns, who string, n int, long time.Duration) (holding func() int) {
	t.Helper()
	now := make(chan int, 1)
	now <- 0
	add := func(by int) { now <- <-now + by }
	for range n {
		go func() {
			for range 20 {
				turn := turns.Turn(who)
				if turn.Begin(t.Context()) == nil {
					add(1)
					time.Sleep(long)
					add(-1)
				}
				turn.End()
			}
		}()
	}
	return func() int {
		held := <-now
		now <- held
		return held
	}
}

func TestTurnsAreNotBoundedForOneAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holding := calls(t, fair.NewTurns(), "a", 50, 100*time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 50, holding())
		time.Sleep(time.Minute)
		require.Zero(t, holding())
	})
}

func TestTurnsAreBoundedForOneThatTakesMoreThanItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fair.NewTurns()
		noisy := calls(t, turns, "noisy", 50, 100*time.Millisecond)
		time.Sleep(150 * time.Millisecond)
		for range 20 {
			began := time.Now()
			turn := turns.Turn("quiet")
			require.NoError(t, turn.Begin(t.Context()))
			require.Zero(t, time.Since(began), "one that uses little never waits")
			turn.End()
			time.Sleep(50 * time.Millisecond)
		}
		require.LessOrEqual(t, noisy(), fair.Share(2))
		time.Sleep(time.Hour)
		require.Zero(t, noisy(), "each had its turn")
	})
}

// A call that takes long is taken to wait for something, and keeps no other call of
// its asker waiting.
func TestATurnIsGivenBackByACallThatTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fair.NewTurns()
		stuck := calls(t, turns, "noisy", 50, time.Hour)
		for range 300 { // somebody else is there all the while
			turn := turns.Turn("quiet")
			require.NoError(t, turn.Begin(t.Context()))
			turn.End()
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 50, stuck())
		time.Sleep(100 * time.Hour)
	})
}

// A call that rests while it waits for a node lets the next one of its asker come,
// and waits for a turn again afterwards.
func TestATurnRestsWhileItsCallWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fair.NewTurns()
		quiet, first := turns.Turn("quiet"), turns.Turn("noisy")
		require.NoError(t, quiet.Begin(t.Context()))
		defer quiet.End()
		require.NoError(t, first.Begin(t.Context()))
		defer first.End()
		again := fair.Rest(first.With(t.Context()))
		calls(t, turns, "noisy", 50, 100*time.Millisecond)
		time.Sleep(150 * time.Millisecond)
		began := time.Now()
		again()
		require.Positive(t, time.Since(began), "behind the others")
		again() // once is enough
		fair.Rest(t.Context())()
		time.Sleep(time.Hour)
	})
}

// Between the turns of one that takes more than its share the machine is free.
func TestTurnsOfOneThatTakesMoreThanItsSharePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fair.NewTurns()
		noisy := calls(t, turns, "noisy", 50, 100*time.Millisecond)
		free, n := 0, 0
		for range 200 {
			turn := turns.Turn("quiet")
			require.NoError(t, turn.Begin(t.Context()))
			turn.End()
			time.Sleep(10 * time.Millisecond)
			if n++; noisy() == 0 {
				free++
			}
		}
		require.Greater(t, free, n/2)
		require.Less(t, free, n*3/4)
		time.Sleep(time.Hour)
	})
}

func TestATurnIsNotWaitedForLongerThanItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fair.NewTurns()
		calls(t, turns, "noisy", 50, 100*time.Millisecond)
		time.Sleep(150 * time.Millisecond)
		quiet := turns.Turn("quiet")
		require.NoError(t, quiet.Begin(t.Context()))
		quiet.End()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		late := turns.Turn("noisy")
		require.ErrorIs(t, late.Begin(ctx), context.DeadlineExceeded)
		late.End()
		time.Sleep(time.Hour)
	})
}
