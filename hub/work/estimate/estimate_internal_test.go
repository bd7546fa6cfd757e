package estimate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

func runs(n int) []db.RunsOfAgentRow {
	var out []db.RunsOfAgentRow
	for i := 1; i <= n; i++ { // the longest has n iterations, n times 10 s and n cents
		out = append(out, db.RunsOfAgentRow{Seconds: float64(10 * i), CostMicros: int64(10_000 * i), Iteration: int32(i)}) //nolint:gosec // small
	}
	return out
}

// With fewer than five runs there is no history; with five there are the
// middle and the 90th percentile.
func TestFiveRunsMakeAnEstimate(t *testing.T) {
	t.Parallel()
	require.Equal(t, Estimate{Basis: NoHistory}, estimate(runs(4), far{}))
	require.Equal(t, Estimate{
		Runs: 5, Basis: "the last 5 runs of the agent",
		Duration: Range[time.Duration]{30 * time.Second, 46 * time.Second}, Cost: Range[int64]{30_000, 46_000},
	}, estimate(runs(5), far{}))
}

// After each iteration the estimate is of the runs that had as many, at the
// pace and the price of this one.
func TestAnEstimateGoesOnFromWhereTheRunIs(t *testing.T) {
	t.Parallel()
	// Ten runs of 1 to 10 iterations. This one has had 2 in 60 s for 4 cents: it
	// takes 30 s and 2 cents each. The nine with 2 and more have 6 in the middle.
	e := estimate(runs(10), far{iteration: 2, seconds: 60, cost: 40_000})
	require.EqualValues(t, 9, e.Runs)
	require.EqualValues(t, 2, e.Iteration)
	require.Equal(t, Range[time.Duration]{180 * time.Second, 276 * time.Second}, e.Duration)
	require.Equal(t, Range[int64]{120_000, 184_000}, e.Cost)
	require.Equal(t, "9 of the last 10 runs of the agent, which had as many iterations", e.Basis)

	longer := estimate(runs(10), far{iteration: 7, seconds: 70})
	require.Zero(t, longer.Runs)
	require.Equal(t, "it goes on for longer than all but 4 of the last 10 runs of the agent", longer.Basis)

	begun := estimate(runs(5), far{seconds: 45})
	require.Equal(t, Range[time.Duration]{45 * time.Second, 48 * time.Second}, begun.Duration, "what it has taken is certain")
}
