package tokencount_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker/tokencount"
)

func TestCountKnowsTheVocabulary(t *testing.T) {
	t.Parallel()
	require.Zero(t, tokencount.Count(""))
	require.Equal(t, 4, tokencount.Count("Hello, world!"))
}

// A long text is counted by samples: close to the whole, and cut at characters.
func TestALongTextIsCountedBySamples(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&log, "2026-01-02T03:04:%02d host app[%d]: wörker %d took %d ms für /api/v1/items\n", i%60, i, i%8, i*7%900)
	}
	pieces := 0
	for _, line := range strings.SplitAfter(log.String(), "\n") {
		pieces += tokencount.Count(line)
	}
	require.InEpsilon(t, pieces, tokencount.Count(log.String()), 0.05)
}

// The Meter stays within 5 % of a provider that has another vocabulary and
// counts more than the texts alone.
func TestTheMeterLearnsHowAProviderCounts(t *testing.T) {
	t.Parallel()
	tokencount.Count("load") // sets the loader
	other, err := tiktoken.GetEncoding(tiktoken.MODEL_P50K_BASE)
	require.NoError(t, err)
	words := strings.Fields("the error in /var/log/app.log at 10:42:17 says ECONNREFUSED 127.0.0.1:5432 while func (r *run) returned nil naïve Straße {\"path\":\"src/a.go\"}")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's variety
	var m tokencount.Meter
	counted, reported := 0, 0
	for turn := range 200 {
		var text strings.Builder
		for range 20 + random.IntN(400) {
			text.WriteString(words[random.IntN(len(words))] + " ")
		}
		counted += tokencount.Count(text.String())
		reported += len(other.EncodeOrdinary(text.String())) + 12
		if turn > 0 {
			require.InEpsilon(t, reported, m.Estimate(counted), 0.05, "turn %d", turn)
		}
		if turn%60 == 59 { // what was said before is cut
			counted, reported = counted/3, reported/3
			m.Cut()
			require.InEpsilon(t, reported, m.Estimate(counted), 0.05, "cut at turn %d", turn)
		}
		m.Report(counted, int64(reported))
	}
	require.Greater(t, m.Rate(), 1.0)
}
