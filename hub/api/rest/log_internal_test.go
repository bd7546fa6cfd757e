package rest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is missing in a log is NUL bytes, and nothing behind the end is written.
func TestAGapInALogIsNULBytes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &rangeWriter{to: &out, at: 2, end: 12}
	require.NoError(t, l.write(0, []byte("0123")))
	require.NoError(t, l.write(7, []byte("78")))
	require.NoError(t, l.fill(10))
	require.NoError(t, l.write(10, []byte("abcd")))
	require.Equal(t, "23\x00\x00\x0078\x00ab", out.String())
	require.EqualValues(t, 12, l.at)
}

func TestRangesOfALog(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][3]any{
		"": {int64(0), int64(-1), false}, "bytes=5-": {int64(5), int64(-1), true}, "bytes=5-9": {int64(5), int64(9), true}, "bytes=9-5": {int64(0), int64(-1), false},
		"bytes=-5": {int64(0), int64(-1), false}, "bytes=1-2,4-5": {int64(0), int64(-1), false}, "lines=1-2": {int64(0), int64(-1), false},
	} {
		from, to, ok := byteRange(header)
		require.Equal(t, want, [3]any{from, to, ok}, header)
	}
}
