package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/backoff"
)

func TestDelaysStayBetweenATenthOfTheBoundAndTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "base"))
		limit := base * time.Duration(rapid.Int64Range(1, 1000).Draw(t, "factor"))
		n := rapid.IntRange(1, 200).Draw(t, "n")
		bound := base
		for i := 1; i < n && bound < limit; i++ {
			bound *= 2
		}
		bound = min(bound, limit)
		d := backoff.Policy{Base: base, Max: limit}.Delay(n)
		require.LessOrEqual(t, d, bound)
		require.GreaterOrEqual(t, d, bound/10)
		full := backoff.Policy{Base: base, Max: limit}.FullDelay(n)
		require.LessOrEqual(t, full, bound)
		require.GreaterOrEqual(t, full, time.Duration(0))
	})
}

// Those who lost the same hub at once come back evenly: as many in each tenth
// of the bound, the first as well.
func TestFullDelaysAreEvenlySpread(t *testing.T) {
	t.Parallel()
	const draws = 10_000
	var tenths [10]int
	for range draws {
		tenths[min(9, int(backoff.Policy{Base: time.Second, Max: time.Second}.FullDelay(1)/(time.Second/10)))]++
	}
	for i, n := range tenths {
		require.InDelta(t, draws/10, n, draws/50, "tenth %d of %v", i, tenths)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, backoff.Wait(ctx, 500*time.Millisecond))
		require.ErrorIs(t, backoff.Wait(ctx, time.Hour), context.DeadlineExceeded)
	})
}
