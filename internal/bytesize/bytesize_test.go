package bytesize_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
)

func TestSizesAreWrittenInTheLargestUnitThatFits(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 B", 5: "5 B", 1023: "1023 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 96<<20 + 1: "96 MiB", 1536 << 20: "1.5 GiB", 3 << 40: "3 TiB",
	} {
		require.Equal(t, want, bytesize.Format(bytes))
	}
}

func TestSizesAreReadWithTheirUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 GB": 1_500_000_000, "4TiB": 4 << 40, "-1KiB": -1, "1e99GiB": 1 << 62} {
		got, ok := bytesize.Parse(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "512", "MiB", "x KiB", "NaNMiB", "5 parsecs"} {
		_, ok := bytesize.Parse(text)
		require.False(t, ok, text)
	}
}

// What is written is read as the same size, to the digit after the point.
func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(1<<10, 1<<50).Draw(t, "bytes")
		got, ok := bytesize.Parse(bytesize.Format(bytes))
		if !ok || float64(got) < 0.9*float64(bytes) || float64(got) > 1.1*float64(bytes) {
			t.Fatalf("%d is written as %s and read as %d", bytes, bytesize.Format(bytes), got)
		}
	})
}
