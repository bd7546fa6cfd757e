package budget

import (
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A month is forecast after three days of use; before that it is too early to tell.
func TestTheOutlookOfAMonth(t *testing.T) {
	t.Parallel()
	f := &deckhandv1.UsageForecast{Month: "2026-11", SpentMicros: 1_820_000, Early: true}
	require.Equal(t, "2026-11: $1.82 so far. Too early to tell what the month will cost: that takes three days of use.", outlook(f))
	f = &deckhandv1.UsageForecast{Month: "2026-11", SpentMicros: 1_820_000, DailyMicros: 500_000, MonthMicros: 9_000_000, Days: 4}
	require.Equal(t, "2026-11: $1.82 so far. Forecast: $9.00 by the end of the month, at $0.50 a day (mean of the last 4 days).", outlook(f))
}
