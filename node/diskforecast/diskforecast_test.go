package diskforecast_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/diskforecast"
)

func TestADiskThatFillsUpSteadilyIsForecast(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	samples := func(perDay int64) (out []diskforecast.Sample) {
		for i := range 48 {
			out = append(out, diskforecast.Sample{At: begin.Add(time.Duration(i) * time.Hour), Free: 100<<30 - perDay*int64(i)/24})
		}
		return out
	}
	f, ok := diskforecast.Of(samples(10 << 30))
	require.True(t, ok)
	require.InDelta(t, 10<<30, f.PerDay, 1<<20)
	require.InDelta(t, 8.04, f.Full.Hours()/24, 0.1, "80.4 GiB are left")

	f, ok = diskforecast.Of(samples(-(1 << 30)))
	require.True(t, ok)
	require.Zero(t, f.Full, "space is freed")
	_, ok = diskforecast.Of(samples(1)[:5])
	require.False(t, ok, "too few samples")
}

func TestSamplesAreKeptOnceAnHour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "disk-history.json")
	h := diskforecast.New(path, dir)
	now := time.Now()
	for _, at := range []time.Duration{0, time.Minute, time.Hour, 90 * time.Minute, 2 * time.Hour} {
		require.NoError(t, h.Add(now.Add(at)))
	}
	require.Len(t, diskforecast.Read(path), 3)
	require.Positive(t, diskforecast.Read(path)[0].Free)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Empty(t, diskforecast.Read(path))
	require.NoError(t, h.Add(now), "it begins again")
}
