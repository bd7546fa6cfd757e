package cli_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand-node/cli"
)

// A pack is imported by its pin, listed and pruned with the commands; one without a pin is refused.
func TestPacksAreManagedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "chromium", Mode: 0o755, Size: 1, Typeflag: tar.TypeReg}))
	_, err := w.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	file, pins := filepath.Join(dir, "chromium.tar"), filepath.Join(dir, "packs.yaml")
	require.NoError(t, os.WriteFile(file, archive.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(pins, fmt.Appendf(nil, "chromium: {sha256: %x}\n", sha256.Sum256(archive.Bytes())), 0o600))
	run := func(code int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, code, cli.Main(t.Context(), append(append([]string{"pack"}, args...), "--data-dir", dir), &out, &errs), errs.String())
		return out.String() + errs.String()
	}
	require.Contains(t, run(0, "import", "chromium", file, "--pins", pins), "current")
	require.Contains(t, run(1, "import", "other", file, "--pins", pins), `no pin for the pack "other"`)
	require.Contains(t, run(1, "fetch", "chromium", "--pins", filepath.Join(dir, "missing")), "nothing says which archive")
	require.Contains(t, run(2, "import", "chromium"), "takes 2 arguments, not 1")
	require.Contains(t, run(0, "list"), "chromium  ")
	require.Empty(t, run(0, "prune"))
	require.Contains(t, run(0, "prune", "chromium"), "deleted chromium")
	require.Empty(t, run(0, "list"))
}
