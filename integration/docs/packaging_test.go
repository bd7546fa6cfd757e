package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The packages and the compose file are checked by a module of their own, and with
// DECKHAND_SOAK the chart too.
func TestPackaging(t *testing.T) {
	t.Parallel()
	programs := filepath.Dir(harness.Binary(t, "deckhand"))
	packages := "."
	if os.Getenv("DECKHAND_SOAK") != "" {
		packages = "./..." // with the chart: Helm's libraries take minutes to compile
	}
	args := []string{"test", "-vet=off", "-count=1", "-ldflags=-s -w"}
	if testing.Verbose() {
		args = append(args, "-v")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages)...)
	cmd.Dir = filepath.Join(harness.Root, "packaging/test")
	cmd.Env = append(os.Environ(), harness.EnvBinaries+"="+programs, "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Log(string(out))
}

// Without Go, or with one that is too old, the first line says what to install.
func TestTheDemoSaysWhichGoItNeeds(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(mod), "\ngo ")
	want, _, _ := strings.Cut(rest, "\n")
	tools := t.TempDir()
	for _, name := range []string{"bash", "sed", "sort", "head", "dirname", "uname", "env"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(tools, name)))
	}
	demo := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "bash"), "scripts/demo")
		cmd.Dir, cmd.Env = harness.Root, []string{"PATH=" + tools, "HOME=" + tools}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	said, err := demo()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(said, "error: Go is not installed: install Go "+want+" or later (curl -L https://go.dev/dl/go"+want+".linux-"), said)
	require.Contains(t, said, "docs/install.md")
	require.NotContains(t, said, "Installing what is missing")

	for version, refused := range map[string]bool{"1.19.8": true, "1.25.1 local": true} {
		version, toolchain, _ := strings.Cut(version, " ")
		old := "#!/bin/sh\ncase $2 in GOVERSION) echo go" + version + " ;; GOTOOLCHAIN) echo " + toolchain + " ;; esac\n"
		require.NoError(t, os.WriteFile(filepath.Join(tools, "go"), []byte(old), 0o700)) //nolint:gosec // a program
		said, err := demo()
		require.Equal(t, refused, err != nil, said)
		require.True(t, strings.HasPrefix(said, "error: Go "+version+" is too old: install Go "+want), said)
	}
}
