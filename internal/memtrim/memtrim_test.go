package memtrim_test

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/memtrim"
)

func TestWhatIsLetGoComesBackAsItIsUsed(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector keeps memory of its own for what the program has written, and it stays")
	}
	work := make([]byte, 64<<20)
	for i := range work {
		work[i] = byte(i)
	}
	before := memtrim.Bytes()
	require.Greater(t, before, int64(len(work)))
	require.EqualValues(t, 255, work[255])
	memtrim.LetGo()
	require.Less(t, memtrim.Bytes(), before-48<<20)
}
