package resident_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/resident"
)

func TestWhatIsLetGoComesBackAsItIsUsed(t *testing.T) {
	work := make([]byte, 64<<20)
	for i := range work {
		work[i] = byte(i)
	}
	before := resident.Bytes()
	require.Greater(t, before, int64(len(work)))
	require.EqualValues(t, 255, work[255])
	resident.LetGo()
	require.Less(t, resident.Bytes(), before-48<<20)
}
