package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fill makes a tree of small files, a hundred in a folder.
func fill(b *testing.B, dir string, files, size int) {
	b.Helper()
	content := make([]byte, size)
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i/1000), fmt.Sprintf("e%d", i/100))
		require.NoError(b, os.MkdirAll(sub, 0o755))
		copy(content, fmt.Sprintf("file %d\n", i))
		require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d", i)), content, 0o644))
	}
}

func benchStep(b *testing.B, files, changed int) {
	b.Helper()
	m := newMachine(b)
	s := m.service(b, m.config())
	require.NoError(b, s.Begin(b.Context(), jailID, "step_0", true))
	fill(b, m.dir(), files, 1000)
	require.Empty(b, s.End(b.Context(), jailID, "step_0", true).GetError())
	b.ResetTimer()
	for i := range b.N {
		id := fmt.Sprintf("step_%d", i+1)
		require.NoError(b, s.Begin(b.Context(), jailID, id, true))
		b.StopTimer()
		for n := range changed {
			name := filepath.Join(m.dir(), "d0", "e0", fmt.Sprintf("f%d", n))
			require.NoError(b, os.WriteFile(name, fmt.Appendf(nil, "changed %d %d", i, n), 0o644))
		}
		b.StartTimer()
		require.Empty(b, s.End(b.Context(), jailID, id, true).GetError())
	}
}

func BenchmarkStep1000FilesNoneChanged(b *testing.B) { benchStep(b, 1000, 0) }

func BenchmarkStep50000Files10Changed(b *testing.B) { benchStep(b, 50_000, 10) }
