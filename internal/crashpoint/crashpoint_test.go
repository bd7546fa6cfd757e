package crashpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
)

// A program with points is the same, byte for byte of what runs, as one
// without them: it holds no name of one, nor of the package.
func TestPointsAreInNoBinaryWithoutTheTag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tags string
		has  bool
	}{{"grpcnotrace", false}, {"crashpoints,grpcnotrace", true}} {
		path := filepath.Join(t.TempDir(), "init")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+c.tags, "-o", path,
			"github.com/deckhand-sh/deckhand/cmd/deckhand-init")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		binary, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range []string{string(crashpoint.AfterSpawn), string(crashpoint.AfterExit), crashpoint.Env, crashpoint.JailSocket} {
			require.Equal(t, c.has, bytes.Contains(binary, []byte(name)), "%s with tags %q", name, c.tags)
		}
	}
}
