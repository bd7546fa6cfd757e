package snapshot_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Of some steps' changes, the files are counted that are there afterwards and have other
// content, each once, with the largest.
func TestWrittenFilesAreCounted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	m.step(t, s, "zero", "echo before > old; echo mode > exec")
	m.step(t, s, "one", "mkdir d; seq 3 > d/a; head -c 5000 /dev/zero > big; echo gone > gone; ln -s d/a link")
	m.step(t, s, "other", "seq 100000 > others")
	m.step(t, s, "two", "echo more >> d/a; echo after > old; rm gone; chmod +x exec")
	got, err := s.GetChanges(t.Context(), &nodev1.GetChangesRequest{JailId: jailID, Range: &nodev1.ChangeRange{By: []string{"one", "two"}}, Limit: 1})
	require.NoError(t, err)
	require.EqualValues(t, 3, got.GetWritten(), "d/a, big and old")
	require.EqualValues(t, 5000, got.GetLargestBytes())
	require.Equal(t, "big", string(got.GetLargestPath()))
}
