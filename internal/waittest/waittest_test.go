package waittest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		factor string
		want   time.Duration
	}{
		{"", time.Second},
		{"1", time.Second},
		{"2.5", 2500 * time.Millisecond},
		{"0.1", time.Second}, // never shorter than written
		{"-3", time.Second},
		{"NaN", time.Second},
		{"fast", time.Second},
	} {
		t.Setenv(waittest.EnvFactor, c.factor)
		require.Equal(t, c.want, waittest.Limit(time.Second), c.factor)
	}
}

func TestUntilChecksUntilTheConditionHolds(t *testing.T) {
	t.Parallel()
	checks := 0
	waittest.Until(t, time.Minute, "the third check", func() bool { checks++; return checks == 3 })
	require.Equal(t, 3, checks)
}
