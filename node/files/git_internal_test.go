package files

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever an index holds, it is read or it is not, and its names are no longer than itself.
// A version whose names may grow without bound is not read.
func FuzzGitIndex(f *testing.F) {
	entry := make([]byte, 62)
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Add(append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), entry...))
	f.Add(append([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"), entry...))
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00TREE\x00\x00\x00\x19\x00-1 0\nREUC\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := decode(bytes.NewReader(data))
		if err == nil {
			require.LessOrEqual(t, read.Version, uint32(3))
		}
		names := 0
		for _, e := range read.Entries {
			names += len(e.Name)
		}
		require.LessOrEqual(t, names, len(data))
	})
}
