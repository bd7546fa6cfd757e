package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Site builds the web site of the tests of browsers where a jail can see it, and returns the front
// matter that shows it and the program, which serves it on the port that it is given.
func Site(t testing.TB) (keys, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("/opt", "deckhand-") // no jail is shown what is below /tmp
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the jail's user runs what is in it
	program = filepath.Join(dir, "site")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "../../node/skill/browser/testdata/site")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return fmt.Sprintf("jail: {read_only_paths: [%s]}", dir), program
}
