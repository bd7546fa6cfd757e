package role

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/packaging/systemd"
	"github.com/deckhand-sh/deckhand/worker"
)

func flagSet(of func(*pflag.FlagSet)) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	of(flags)
	return flags
}

// keysOf returns the keys of a Config, those of its parts with them.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("koanf")
		switch {
		case strings.HasSuffix(tag, ",squash"):
			keys = append(keys, keysOf(t.Field(i).Type)...)
		case tag != "" && tag != "-":
			keys = append(keys, tag)
		}
	}
	return keys
}

// other returns a value of a flag that is not its default.
func other(t *testing.T, f *pflag.Flag) any {
	t.Helper()
	switch f.Value.Type() {
	case "bool":
		return f.DefValue != "true"
	case "int", "int64", "uint32":
		return 7654
	case "float64":
		return 7.5
	case "duration":
		return "7h0m0s"
	case "stringSlice":
		return []string{"/of/" + f.Name}
	case "stringToString":
		return map[string]string{"of": f.Name}
	case "string":
		if strings.HasPrefix(f.Name, "pressure-") {
			return "7"
		}
		return "of-" + f.Name
	}
	require.FailNow(t, "a flag of a type that this test does not know", "%s: %s", f.Name, f.Value.Type())
	return nil
}

// Every setting of hub, worker and node is one of `deckhand up`, and does there what
// it does in the role: one file serves all four.
func TestNoSettingIsOutOfReachOfUp(t *testing.T) {
	t.Parallel()
	own := up.Own()
	all := flagSet(upFlags)
	loadUp := func(path string) (cfg up.Config) {
		require.NoError(t, config.Load(flagSet(upFlags), path, &cfg))
		return cfg
	}
	settings, file := 0, map[string]any{}
	roles := map[string]struct {
		flags func(*pflag.FlagSet)
		made  any
	}{"hub": {hubFlags, hub.Config{}}, "worker": {workerFlags, worker.Config{}}, "node": {daemon.Flags, daemon.Config{}}}
	for name, role := range roles {
		flags := flagSet(role.flags)
		for _, key := range keysOf(reflect.TypeOf(role.made)) {
			require.NotNil(t, flags.Lookup(key), "%s has the key %s and no flag for it", name, key)
		}
		flags.VisitAll(func(f *pflag.Flag) {
			settings++
			if own[f.Name] != "" {
				return
			}
			require.NotNil(t, all.Lookup(f.Name), "%s of %s is out of reach of deckhand up", f.Name, name)
			file[f.Name] = other(t, f)
		})
	}
	require.Greater(t, settings, 80)
	for key, why := range own {
		require.NotEmpty(t, why)
		require.Equal(t, why, config.Reserved(all.Lookup(key)))
	}

	text, err := json.Marshal(file) // JSON is YAML
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "all.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	got := loadUp(path)
	for name, role := range roles {
		// What the role itself makes of these keys.
		flags := flagSet(role.flags)
		mine := map[string]any{}
		flags.VisitAll(func(f *pflag.Flag) {
			if value, there := file[f.Name]; there {
				mine[f.Name] = value
			}
		})
		text, err := json.Marshal(mine)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), name+".yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		switch name {
		case "hub":
			var want hub.Config
			require.NoError(t, config.Load(flags, path, &want))
			require.Equal(t, want, got.Hub)
		case "worker":
			var want worker.Config
			require.NoError(t, config.Load(flags, path, &want))
			require.Equal(t, want, got.Worker)
		case "node":
			var want daemon.Config
			require.NoError(t, config.Load(flags, path, &want))
			require.Equal(t, want, got.Node)
		}
	}

	// Without a file it is made for one machine.
	plain := loadUp("")
	require.Equal(t, up.DefaultEdgeListen, plain.Hub.EdgeListen)
	require.Empty(t, plain.Node.Containerd)
	require.Equal(t, 7*24*time.Hour, plain.Hub.UndoWindow)
	require.Equal(t, 8, plain.Worker.Slots)
}

// installed runs deckhand up with flags in a root folder of another system.
func installed(t *testing.T, root string, args ...string) (code int, said string) {
	t.Helper()
	var stderr bytes.Buffer
	e := &env.Env{Out: io.Discard, Err: &stderr}
	cmd := UpCommand(e)
	cmd.SetArgs(append([]string{"--install-root", root}, args...))
	return e.Report(t.Context(), cmd.ExecuteContext(t.Context())), stderr.String()
}

// The service is enabled by the real systemctl, in the root folder of a system that
// does not run, and systemd finds no fault with its unit.
func TestUpIsInstalledAsAService(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a service is installed by root")
	}
	if _, err := exec.LookPath("systemctl"); err != nil {
		t.Skip("this machine has no systemd")
	}
	root := t.TempDir()
	code, said := installed(t, root, "--install", "--listen", "0.0.0.0:7800", "--insecure-http", "--show-paths", "/var/log,/srv")
	require.Zero(t, code, said)
	etc := filepath.Join(root, etcDir)
	text, err := os.ReadFile(filepath.Join(etc, upFile))
	require.NoError(t, err)
	require.Contains(t, string(text), "\nlisten: 0.0.0.0:7800\n")
	require.Contains(t, string(text), "\ninsecure-http: true\n")
	require.Contains(t, string(text), "\nshow-paths: [\"/var/log\",\"/srv\"]\n")
	require.Contains(t, string(text), "\n#lease-ttl: "+hub.DefaultLeaseTTL.String()+"\n")
	require.NotContains(t, string(text), "#install", "no setting")
	info, err := os.Stat(filepath.Join(etc, upFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it may have passwords")

	unit := filepath.Join(root, unitDir, systemd.Up)
	text, err = os.ReadFile(unit)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, line := range []string{"Type=notify", "WatchdogSec=2min", "Restart=always", "ExecStart=" + self + " up --config /etc/deckhand/up.yaml"} {
		require.Contains(t, string(text), "\n"+line+"\n")
	}
	wanted := filepath.Join(root, unitDir, "multi-user.target.wants", systemd.Up)
	_, err = os.Lstat(wanted)
	require.NoError(t, err, "it starts with the machine")

	// Again, with another setting: what a person wrote stays.
	mine := append([]byte("# mine\n"), []byte("slots: 3\nlisten: 0.0.0.0:7800\n")...)
	require.NoError(t, os.WriteFile(filepath.Join(etc, upFile), mine, 0o600))
	code, said = installed(t, root, "--install", "--max-active", "5")
	require.Zero(t, code, said)
	text, err = os.ReadFile(filepath.Join(etc, upFile))
	require.NoError(t, err)
	require.Equal(t, string(mine)+"max-active: 5\n", string(text))

	code, said = installed(t, root, "--install", "--token", "dhw_1")
	require.Equal(t, env.ExitUsage, code)
	require.Contains(t, said, "deckhand up gives its worker a token")
	code, said = installed(t, root, "--install", "--config", "/elsewhere.yaml")
	require.Equal(t, env.ExitUsage, code)
	require.Contains(t, said, "copy it there")

	// A unit that a person wrote is not replaced.
	written, err := os.ReadFile(unit)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(unit, []byte("# mine\n[Service]\n"), 0o600))
	code, said = installed(t, root, "--install", "--max-active", "6")
	require.NotZero(t, code)
	require.Contains(t, said, "was not written by --install")
	text, err = os.ReadFile(unit)
	require.NoError(t, err)
	require.Equal(t, "# mine\n[Service]\n", string(text))
	text, err = os.ReadFile(filepath.Join(etc, upFile))
	require.NoError(t, err)
	require.NotContains(t, string(text), "max-active: 6", "nothing else is changed either")
	require.NoError(t, os.WriteFile(unit, written, 0o600))

	code, said = installed(t, root, "--uninstall")
	require.Zero(t, code, said)
	require.NoFileExists(t, unit)
	_, err = os.Lstat(wanted)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.FileExists(t, filepath.Join(etc, upFile))
	require.Contains(t, said, "data stays in")
}

// systemd's own check finds nothing wrong with any unit.
func TestTheUnitsAreValid(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("this machine has no systemd")
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no", "--recursive-errors=no"}
	for _, name := range []string{systemd.Up, systemd.Hub, systemd.Worker, systemd.Node} {
		text, err := systemd.Unit(name, "/bin/true", "/etc/deckhand")
		require.NoError(t, err)
		require.NotContains(t, text, "@P")
		path := filepath.Join(dir, name)
		// The user is made by the package.
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "=deckhand\n", "=daemon\n")), 0o600))
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, dir, "a warning about a unit of ours")
	}
}

// The service's folder is the default only: the configuration file names another one.
func TestTheHubsFolderIsThatOfTheConfiguration(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/deckhand-hub")
	load := func(text string) hub.Config {
		path := filepath.Join(t.TempDir(), "hub.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
		hubFlags(flags)
		var cfg hub.Config
		require.NoError(t, config.Load(flags, path, &cfg))
		return cfg
	}
	require.Equal(t, "/var/lib/deckhand-hub", load("listen: 127.0.0.1:7800\n").DataDir)
	require.Equal(t, "/srv/hub", load("data-dir: /srv/hub\n").DataDir)
	unit, err := systemd.Unit(systemd.Hub, "/usr/bin/deckhand", etcDir)
	require.NoError(t, err)
	require.NotContains(t, unit, "DECKHAND_DATA_DIR", "it would override the file")
	var printed bytes.Buffer
	cmd := HubCommand(&env.Env{Out: &printed, Err: io.Discard})
	cmd.SetArgs([]string{"--print-config"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, printed.String(), "\n#data-dir: /var/lib/deckhand-hub\n")
}
