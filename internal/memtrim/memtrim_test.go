package memtrim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/memtrim"
)

func TestWhatIsLetGoComesBackAsItIsUsed(t *testing.T) {
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
