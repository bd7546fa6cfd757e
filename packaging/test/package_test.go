package test

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/rpm"
	"github.com/stretchr/testify/require"
)

// programs is the folder of deckhand and deckhand-node, built for the whole run of tests.
const programs = "DECKHAND_TEST_BINARIES"

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// build builds the packages of one format, from programs that are built already.
func build(t *testing.T, format string) (dir string) {
	t.Helper()
	bin := os.Getenv(programs)
	if bin == "" {
		t.Skip(programs + " names no folder of programs")
	}
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../../scripts/package", dir)
	cmd.Env = append(os.Environ(), "BIN="+bin, "FORMATS="+format, "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// files are what both packages of a program have. None is in /etc: what an operator may
// change is copied there once, and no upgrade asks about it.
var files = map[string][]string{
	"deckhand": {
		"/usr/bin/deckhand", "/usr/lib/systemd/system/deckhand.service", "/usr/lib/systemd/system/deckhand-hub.service",
		"/usr/lib/systemd/system/deckhand-worker.service", "/usr/lib/systemd/system/deckhand-sysusers.service", "/usr/lib/sysusers.d/deckhand.conf",
		"/usr/share/deckhand/up.yaml", "/usr/share/deckhand/hub.yaml", "/usr/share/deckhand/worker.yaml",
		"/usr/share/man/man1/deckhand.1.gz", "/usr/share/bash-completion/completions/deckhand",
		"/usr/share/zsh/site-functions/_deckhand", "/usr/share/fish/vendor_completions.d/deckhand.fish",
		"/usr/share/deckhand/personas/log-triage.md", "/usr/share/deckhand/monitoring/alerts.yaml", "/usr/share/doc/deckhand/copyright",
	},
	"deckhand-node": {
		"/usr/bin/deckhand-node", "/usr/lib/systemd/system/deckhand-node.service", "/usr/share/deckhand/node.yaml",
		"/usr/share/man/man1/deckhand-node.1.gz", "/usr/share/bash-completion/completions/deckhand-node",
		"/usr/share/zsh/site-functions/_deckhand-node", "/usr/share/fish/vendor_completions.d/deckhand-node.fish", "/usr/share/doc/deckhand-node/copyright",
	},
}

// dpkg installs into a root of its own, where it touches nothing of this machine.
type dpkg struct {
	t    *testing.T
	root string
}

func newRoot(t *testing.T) dpkg {
	t.Helper()
	d := dpkg{t, filepath.Join(t.TempDir(), "root")}
	for _, made := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"} {
		require.NoError(t, os.MkdirAll(d.path(made), 0o755))
	}
	require.NoError(t, os.WriteFile(d.path("var/lib/dpkg/status"), nil, 0o600))
	return d
}

func (d dpkg) path(path string) string { return filepath.Join(d.root, path) }

func (d dpkg) run(args ...string) string {
	d.t.Helper()
	return must(d.t, "dpkg", append([]string{"--root=" + d.root, "--force-depends", "--force-script-chrootless"}, args...)...)
}

func (d dpkg) write(path, text string) {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(filepath.Dir(d.path(path)), 0o755))
	require.NoError(d.t, os.WriteFile(d.path(path), []byte(text), 0o600))
}

func (d dpkg) read(path string) string {
	d.t.Helper()
	data, err := os.ReadFile(d.path(path))
	require.NoError(d.t, err)
	return string(data)
}

// nextRelease makes a package of a later version in which one file is another.
func nextRelease(t *testing.T, deb, file string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "next")
	must(t, "dpkg-deb", "--raw-extract", deb, dir)
	control := filepath.Join(dir, "DEBIAN/control")
	text, err := os.ReadFile(control)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(control, []byte(strings.Replace(string(text), "\nVersion: ", "\nVersion: 1", 1)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("# of the next release\n"), 0o600))
	must(t, "dpkg-deb", "-Znone", "--build", dir, dir+".deb")
	return dir + ".deb"
}

// The Debian packages install programs, units, help and configuration; what the operator
// wrote and what Deckhand keeps stays, through upgrades, removal and purge.
func TestTheDebianPackages(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil || os.Geteuid() != 0 {
		t.Skip("packages are installed by root, where dpkg is")
	}
	dir, d := build(t, "deb"), newRoot(t)
	version := ""
	for name, want := range files {
		deb := one(t, filepath.Join(dir, name+"_*.deb"))
		version = strings.TrimSpace(must(t, "dpkg-deb", "--field", deb, "Version"))
		require.NotContains(t, must(t, "dpkg-deb", "--contents", deb), "./etc/")
		said := d.run("--install", deb)
		require.Contains(t, said, "Next:")
		for _, path := range want {
			info, err := os.Stat(d.path(path))
			require.NoError(t, err)
			require.NotZero(t, info.Size(), path)
		}
		program := d.path("usr/bin/" + name)
		require.Contains(t, strings.ReplaceAll(must(t, program, "--version"), "-dev", "~dev"), version)
		page, err := os.Open(d.path("usr/share/man/man1/" + name + ".1.gz"))
		require.NoError(t, err)
		unzipped, err := gzip.NewReader(page)
		require.NoError(t, err)
		text, err := io.ReadAll(unzipped)
		require.NoError(t, err)
		require.NoError(t, page.Close())
		require.Contains(t, string(text), ".TH")
	}
	for name, mode := range map[string]os.FileMode{"up": 0o600, "hub": 0o640, "worker": 0o640, "node": 0o600} {
		info, err := os.Stat(d.path("etc/deckhand/" + name + ".yaml"))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), "%s.yaml may have passwords", name)
		require.Equal(t, d.read("usr/share/deckhand/"+name+".yaml"), d.read("etc/deckhand/"+name+".yaml"))
	}
	require.NotContains(t, version, "-", "no revision of a distribution's")
	require.Contains(t, must(t, "dpkg-deb", "--field", one(t, filepath.Join(dir, "deckhand-node_*.deb")), "Depends"), "containerd")

	// The user of hub and worker, whose group reads their configuration.
	passwd, group := d.read("etc/passwd"), d.read("etc/group")
	require.Contains(t, passwd, "deckhand:x:")
	gid := strings.TrimSpace(must(t, "stat", "-c", "%g", d.path("etc/deckhand/hub.yaml")))
	require.NotEqual(t, "0", gid)
	require.Contains(t, group, ":"+gid+":")

	// systemd finds no fault with the units as they are installed.
	var units []string
	for _, name := range []string{"deckhand", "deckhand-hub", "deckhand-worker", "deckhand-node"} {
		units = append(units, name+".service")
		text := d.read("usr/lib/systemd/system/" + name + ".service")
		require.NotContains(t, text, "@PROGRAM@")
		require.Contains(t, text, "\nExecStart=/usr/bin/deckhand")
		require.Contains(t, text, "\nType=notify\n")
		require.Contains(t, text, "\nWatchdogSec=")
		require.Contains(t, text, "\nRestart=always\n")
		// Archives and make install have no script that creates the user.
		require.Equal(t, strings.Contains(text, "\nUser=deckhand\n"), strings.Contains(text, " deckhand-sysusers.service"))
	}
	if _, err := os.Stat(d.path("usr/bin/systemd-sysusers")); err == nil { // a package of its own in Debian, whose absence would be a fault
		units = append(units, "deckhand-sysusers.service")
	}
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no", "--root=" + d.root}, units...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		require.NotContains(t, string(out), "deckhand", "a warning")
	}

	// The configuration is read by the program that wrote it: nothing in it is unknown.
	for _, c := range [][]string{{"deckhand", "hub", "hub.yaml"}, {"deckhand", "worker", "worker.yaml"}} {
		out, err := exec.CommandContext(t.Context(), d.path("usr/bin/"+c[0]), c[1], "--config", d.path("etc/deckhand/"+c[2])).CombinedOutput()
		require.Error(t, err, "it has no database and no hub")
		require.NotContains(t, string(out), "unknown key")
	}

	// What people wrote, and what Deckhand keeps.
	kept := map[string]string{
		"etc/deckhand/node.yaml": "hub-url: https://hub.example:7800\n", "etc/deckhand/up.yaml": "slots: 3\n",
		"etc/deckhand/hub.env": "DECKHAND_DATABASE_URL=postgres://secret\n", "etc/deckhand/node.env": "DECKHAND_JOIN_TOKEN=dhj_1\n",
	}
	data := []string{"var/lib/deckhand/keyset.json", "var/lib/deckhand-hub/keyset.json", "var/lib/deckhand-node/identity/node.json"}
	for path, text := range kept {
		d.write(path, text)
	}
	for _, path := range data {
		d.write(path, "{}")
	}
	require.NoError(t, os.Remove(d.path("etc/deckhand/worker.yaml")))
	// The next release has other settings. dpkg has no terminal to ask what to do with
	// configuration that was changed, and would fail.
	both := []string{one(t, filepath.Join(dir, "deckhand_*.deb")), nextRelease(t, one(t, filepath.Join(dir, "deckhand-node_*.deb")), "usr/share/deckhand/node.yaml")}
	require.NotContains(t, d.run(append([]string{"--install"}, both...)...), "Next:", "it was installed already, and the node has a hub")
	require.Equal(t, "# of the next release\n", d.read("usr/share/deckhand/node.yaml"))
	require.NotEmpty(t, d.read("etc/deckhand/worker.yaml"), "what is missing is made")
	for path, text := range kept {
		require.Equal(t, text, d.read(path), path)
	}
	d.run("--remove", "deckhand", "deckhand-node")
	require.NoFileExists(t, d.path("usr/bin/deckhand"))
	for path, text := range kept {
		require.Equal(t, text, d.read(path), path)
	}
	said := d.run("--purge", "deckhand", "deckhand-node")
	for path := range kept {
		require.NoFileExists(t, d.path(path), "configuration and secrets go with a purge")
	}
	require.NoDirExists(t, d.path("etc/deckhand"))
	for _, path := range data {
		require.FileExists(t, d.path(path), "what belongs to people is theirs to delete")
	}
	for _, dir := range []string{"/var/lib/deckhand", "/var/lib/deckhand-hub", "/var/lib/deckhand-node"} {
		require.Contains(t, said, "stay")
		require.Contains(t, said, "rm -r "+dir)
	}
}

// The RPM packages have the same files and scripts.
func TestTheRPMPackages(t *testing.T) {
	t.Parallel()
	dir := build(t, "rpm")
	for name, want := range files {
		p, err := rpm.Open(one(t, filepath.Join(dir, name+"-[0-9]*.rpm")))
		require.NoError(t, err)
		require.Equal(t, name, p.Name())
		require.Equal(t, "Apache-2.0", p.License())
		require.Equal(t, "x86_64", p.Architecture())
		have := map[string]*rpm.FileInfo{}
		for _, f := range p.Files() {
			have[f.Name()] = &f
			require.Equal(t, "root", f.Owner(), f.Name())
		}
		for _, path := range want {
			f, there := have[path]
			require.True(t, there, path)
			require.EqualValues(t, 1700000000, f.ModTime().Unix(), "%s: two builds are the same", path)
		}
		for path := range have {
			require.False(t, strings.HasPrefix(path, "/etc/"), path)
		}
		const postInstall, preRemove = 1024, 1025
		require.Contains(t, p.Header.GetTag(postInstall).String(), "systemctl --no-block try-restart")
		require.Contains(t, p.Header.GetTag(preRemove).String(), "disable --now")
	}
}
