package api

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// A jail that says an impossible time does not keep a frame from being sent.
func TestAFrameHasATime(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{math.MinInt64, -1, 0, time.Now().UnixMilli(), math.MaxInt64} {
		frame := frameOf(browserlink.Frame{At: at}, nil, func(text string) string { return text })
		_, err := protojson.Marshal(frame)
		require.NoError(t, err)
		require.False(t, frame.GetTime().AsTime().After(time.Now()))
		require.False(t, frame.GetTime().AsTime().Before(time.Unix(0, 0)))
	}
}
