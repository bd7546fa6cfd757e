package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// Two builds of the same commit, in two places and with two keys, make the same files; the
// signature is good, and the lists of what is in it are complete.
func TestAReleaseIsReproducible(t *testing.T) {
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("it builds everything twice: make soak")
	}
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SNAPSHOT=1", "ARCHS="+runtime.GOARCH, "RELEASE_KEY="+filepath.Join(dir, "..", "key"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), harness.Tail(string(out), 5000))
		return string(out)
	}
	var sums [2]string
	var release string
	for i, name := range []string{"one", "a-longer-name"} {
		parent := t.TempDir()
		source := filepath.Join(parent, name)
		run(parent, "git", "clone", "-q", "--no-hardlinks", mustAbs(t, harness.Root), source)
		run(source, "go", "tool", "-modfile=packaging/test/go.mod", "minisign", "-G", "-W", "-s", filepath.Join(parent, "key"), "-p", filepath.Join(parent, "key.pub"))
		run(source, "scripts/release")
		release = filepath.Join(source, "bin/release")
		run(source, "go", "tool", "-modfile=packaging/test/go.mod", "minisign", "-V", "-p", filepath.Join(parent, "key.pub"), "-m", filepath.Join(release, "SHA256SUMS"))
		run(release, "sha256sum", "--quiet", "--check", "SHA256SUMS")
		data, err := os.ReadFile(filepath.Join(release, "SHA256SUMS"))
		require.NoError(t, err)
		sums[i] = string(data)
	}
	require.Equal(t, sums[0], sums[1])
	for _, want := range []string{".tar.gz", ".deb", ".rpm", "deckhand-chart-", "deckhand-compose-", "deckhand-node-linux-", ".cdx.json", "build.txt"} {
		require.Contains(t, sums[0], want)
	}
	for pattern, component := range map[string]string{"deckhand-[0-9]*.cdx.json": "github.com/jackc/pgx/v5", "deckhand-node-[0-9]*.cdx.json": "github.com/containerd/containerd/v2", "console-*.cdx.json": "react"} {
		found, err := filepath.Glob(filepath.Join(release, pattern))
		require.NoError(t, err)
		require.Len(t, found, 1)
		data, err := os.ReadFile(found[0])
		require.NoError(t, err)
		var sbom struct {
			BOMFormat  string
			Components []struct{ Name, Version, PURL string }
		}
		require.NoError(t, json.Unmarshal(data, &sbom))
		require.Equal(t, "CycloneDX", sbom.BOMFormat)
		var names []string
		for _, c := range sbom.Components {
			names = append(names, c.Name)
			require.NotEmpty(t, c.PURL, c.Name)
		}
		require.Contains(t, names, component)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
