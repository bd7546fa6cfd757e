package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Debian package installs the daemon, its unit and a configuration that belongs to
// the operator, and prints what to do next. It is installed into a separate root folder,
// where it touches nothing of this machine.
func TestTheDebianPackage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("packages are built where dpkg-deb is")
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
		return string(out)
	}
	dir := t.TempDir()
	must("env", "DEB_COMPRESSION=gzip", "../../scripts/deb", dir) // xz takes half a minute of a processor
	built, err := filepath.Glob(filepath.Join(dir, "deckhand-node_*.deb"))
	require.NoError(t, err)
	require.Len(t, built, 1)
	require.Contains(t, must("dpkg-deb", "--field", built[0], "Depends"), "containerd")
	require.NotContains(t, must("dpkg-deb", "--field", built[0], "Version"), "-", "no revision of a distribution's")

	root := filepath.Join(dir, "root")
	for _, made := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, made), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600))
	dpkg := func(args ...string) string {
		t.Helper()
		return must("dpkg", append([]string{"--root=" + root, "--force-depends", "--force-script-chrootless", "--force-confold"}, args...)...)
	}
	said := dpkg("--install", built[0])
	for _, step := range []string{"deckhand node token", "hub-url:", "deckhand-node doctor", "systemctl enable --now deckhand-node"} {
		require.Contains(t, said, step)
	}
	unit, err := os.ReadFile(filepath.Join(root, "lib/systemd/system/deckhand-node.service"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(unit), "[Unit]\n"))
	for _, line := range []string{
		"ExecStart=/usr/bin/deckhand-node --config /etc/deckhand/node.yaml", "EnvironmentFile=-/etc/deckhand/node.env",
		"KillMode=process", "Delegate=yes", "WatchdogSec=10min",
	} {
		require.Contains(t, string(unit), line+"\n")
	}
	require.NotContains(t, string(unit), "{{")
	program := filepath.Join(root, "usr/bin/deckhand-node")
	version := strings.TrimSpace(must("dpkg-deb", "--field", built[0], "Version"))
	require.Contains(t, strings.ReplaceAll(must(program, "--version"), "-dev", "~dev"), version)
	require.Contains(t, must(program, "--help"), "--hub-url")

	// What the operator wrote stays, through upgrades and removal.
	config := filepath.Join(root, "etc/deckhand/node.yaml")
	require.NoError(t, os.WriteFile(config, []byte("hub-url: https://hub.example:7800\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/deckhand-node/identity"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/deckhand-node/identity/node.json"), []byte("{}"), 0o600))
	require.NotContains(t, dpkg("--install", built[0]), "Next:", "it has a hub")
	dpkg("--remove", "deckhand-node")
	require.NoFileExists(t, program)
	kept, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Equal(t, "hub-url: https://hub.example:7800\n", string(kept))
	dpkg("--purge", "deckhand-node")
	require.NoFileExists(t, config)
	require.FileExists(t, filepath.Join(root, "var/lib/deckhand-node/identity/node.json"), "what belongs to people is theirs to delete")
}
