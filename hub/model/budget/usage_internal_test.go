package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The forecast of a month is its cost so far, plus the mean of the last week for the
// rest.
func TestAForecastGoesOnAsTheLastWeek(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		perDay              map[string]int64
		limit               int64
		spent, daily, atEnd int64
		reached             time.Time
		days                int
	}{
		"nothing": {nil, 100, 0, 0, 0, time.Time{}, 0},
		"three days of a week": {
			// The calls began on the 17th.
			map[string]int64{"2026-11-17": 100, "2026-11-18": 200, "2026-11-20": 50}, 10_000, 350, 100, 350 + 1050, time.Time{}, 3,
		},
		"a whole week, and what was before it": {
			map[string]int64{
				"2026-11-01": 1000, "2026-11-13": 70, "2026-11-14": 70, "2026-11-15": 70, "2026-11-16": 70, "2026-11-17": 70, "2026-11-18": 70,
				"2026-11-19": 70,
			}, 1490 + 70*2, 1490, 70, 1490 + 735, noon.Add(48 * time.Hour), 7,
		},
		"too early on the first day":        {map[string]int64{"2026-11-20": 50}, none, 50, 0, 0, time.Time{}, 0},
		"too early after two days":          {map[string]int64{"2026-11-18": 100, "2026-11-20": 10}, 500, 110, 0, 0, time.Time{}, 2},
		"too early, and the limit is spent": {map[string]int64{"2026-11-19": 100, "2026-11-20": 10}, 60, 110, 0, 0, noon, 1},
		"the limit is behind":               {map[string]int64{"2026-11-17": 300, "2026-11-20": 10}, 60, 310, 100, 310 + 1050, noon, 3},
	} {
		got := forecast(noon, c.perDay, c.limit)
		require.Equal(t, Forecast{Month: "2026-11", Spent: c.spent, Daily: c.daily, AtEnd: c.atEnd, Limit: c.limit, Reached: c.reached, Days: c.days, Early: c.days < 3}, got, name)
	}
	second := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	got := forecast(second, map[string]int64{"2026-10-30": 200, "2026-10-31": 100, "2026-11-01": 300}, none)
	require.EqualValues(t, 300, got.Spent)
	require.EqualValues(t, 200, got.Daily, "days of the month before count as days")
	require.EqualValues(t, 300+200*29, got.AtEnd)
	require.Equal(t, time.Date(2026, 10, 26, 0, 0, 0, 0, time.UTC), forecastFrom(second))
	require.Equal(t, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), forecastFrom(noon))
}
