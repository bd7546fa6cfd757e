package attempt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A run waits for a quota at a limit that the quota has lowered. A resumed run whose own limit of
// tokens is the lower one has ended, though the quota grants it fewer tokens than that limit.
func TestOnlyALoweredLimitWaitsForAQuota(t *testing.T) {
	t.Parallel()
	turns := []*deckhandv1.Turn{{Turn: 1, Usage: &deckhandv1.Usage{LimitTokens: 50}}, {Turn: 2, Usage: &deckhandv1.Usage{LimitTokens: 7}}}
	for granted, want := range map[int64][]string{40: {"tokens"}, 60: nil} {
		row := db.Task{ResumedAt: 1, GrantedTokens: &granted}
		limits := &deckhandv1.TaskLimits{Tokens: 100}
		row.QuotaLimits = LowerByQuota(row, limits, turns)
		require.Equal(t, want, row.QuotaLimits)
		require.Equal(t, min(100, 50+granted), limits.GetTokens())
		require.Equal(t, want != nil, quotaEnded(row, Outcome{Limit: "tokens"}))
		require.False(t, quotaEnded(row, Outcome{Limit: "iterations"}))
		require.False(t, quotaEnded(row, Outcome{}))
	}
}
