package asciicast_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/asciicast"
)

// Intervals are since the event before, a size that comes first is the
// header's, and a character that was cut is put together again.
func TestARecordingIsAsciicastV3(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1504467315, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var out strings.Builder
	w := asciicast.NewWriter(&out, asciicast.Header{Begin: begin, Title: "Demo", IdleLimit: 2 * time.Second})
	require.NoError(t, w.Resize(at(0), 100, 30))
	require.NoError(t, w.Output(at(248), []byte("\x1b[1;31mHello <\xe2\x9c")))
	require.NoError(t, w.Output(at(1249), []byte("\x93> \xff\r\n")))
	require.NoError(t, w.Output(at(1249), nil))
	require.NoError(t, w.Resize(at(3299), 90, 31))
	require.NoError(t, w.Mark(at(3299), "half"))
	require.NoError(t, w.Output(at(3000), []byte("the clock jumped")))
	require.NoError(t, w.Output(at(3300), []byte("cut \xe2")))
	require.NoError(t, w.Exit(at(4300), 7))
	require.Equal(t, `{"version":3,"term":{"cols":100,"rows":30},"timestamp":1504467315,"title":"Demo","idle_time_limit":2}
[0.248,"o","\u001b[1;31mHello <"]
[1.001,"o","✓> `+"\uFFFD"+`\r\n"]
[2.05,"r","90x31"]
[0,"m","half"]
[0,"o","the clock jumped"]
[0.001,"o","cut "]
[0,"o","`+"\uFFFD"+`"]
[1,"x","7"]
`, out.String())
}

func TestARecordingOfNothingHasAHeader(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, asciicast.NewWriter(&out, asciicast.Header{Begin: time.Unix(5, 0)}).Close())
	require.Equal(t, `{"version":3,"term":{"cols":80,"rows":24},"timestamp":5}`+"\n", out.String())
}
