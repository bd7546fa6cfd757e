package keeper_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/node/skill/keeper"
)

func TestASecondKeeperWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := keeper.Lock(t.Context(), path, time.Second)
	require.NoError(t, err)
	_, err = keeper.Lock(t.Context(), path, 30*time.Millisecond)
	require.ErrorContains(t, err, "another process uses "+path)
	unlock()
	unlock, err = keeper.Lock(t.Context(), path, time.Second)
	require.NoError(t, err)
	unlock()
}

func TestAKeeperIsIdleWhenItsCallsHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		idle := keeper.NewIdle(time.Minute)
		done := idle.Call()
		time.AfterFunc(time.Hour, done)
		idle.Wait(t.Context(), nil)
		require.InDelta(t, (time.Hour + time.Minute).Seconds(), time.Since(begun).Seconds(), 2)

		over := make(chan struct{})
		close(over)
		idle.Wait(t.Context(), over)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		idle.Wait(ctx, nil)
	})
}

func TestATailIsTheEndOfWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tail := &keeper.Tail{Max: rapid.IntRange(1, 20).Draw(t, "max")}
		whole := ""
		for _, part := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,30}`)).Draw(t, "parts") {
			n, err := tail.Write([]byte(part))
			require.NoError(t, err)
			require.Equal(t, len(part), n)
			whole += part
		}
		require.True(t, strings.HasSuffix(whole, tail.String()))
		require.Len(t, tail.String(), min(len(whole), tail.Max))
	})
}
