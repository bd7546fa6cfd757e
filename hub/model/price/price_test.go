package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/model/price"
)

// Cost of a call from the shipped table.
func TestCostOfACall(t *testing.T) {
	table := price.Shipped()
	m, ok := table.Of("anthropic", "claude-sonnet-4-5-20250929")
	require.True(t, ok, "a dated name has its family's price")
	// 1 000 in at 3, 200 out at 15, 10 000 read at 0.30, 400 written at 3.75 dollars a million.
	require.EqualValues(t, 3000+3000+3000+1500, m.Micros(price.Usage{Input: 1000, Output: 200, CacheRead: 10000, CacheWrite: 400}))
	require.EqualValues(t, 1, m.Micros(price.Usage{CacheRead: 1}), "fractions round up")
	require.EqualValues(t, 100*3.75+300*2*3, m.Micros(price.Usage{CacheWrite: 400, CacheWriteHour: 300}), "a cache of an hour costs more to write")
	require.EqualValues(t, 1000*2*3, m.Micros(m.Dearest(price.Usage{Input: 1000, CacheWriteHour: 1000})))
	_, ok = table.Of("anthropic", "claude-sonnet-4-5-latest")
	require.False(t, ok)
	_, ok = table.Of("openai", "claude-sonnet-4-5")
	require.False(t, ok)
	free, ok := table.Of("script", "scripted")
	require.True(t, ok)
	require.Zero(t, free.Micros(price.Usage{Input: 1e6}))
}
