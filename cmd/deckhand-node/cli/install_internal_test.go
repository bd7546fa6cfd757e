package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/doctor"
	"github.com/deckhand-sh/deckhand/node/identity"
	"github.com/deckhand-sh/deckhand/node/identity/identitytest"
)

func TestInstallWritesAUnitThatSparesCommands(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a service is installed by root")
	}
	dir := t.TempDir()
	args := []string{"install", "--unit-dir", dir, "--config-dir", filepath.Join(dir, "etc"), "--hub-url", "https://hub.example:7800"}
	var out, errs bytes.Buffer
	require.Zero(t, Main(t.Context(), append(args, "--print"), &out, &errs), errs.String())
	self, err := os.Executable()
	require.NoError(t, err)
	for _, line := range []string{
		"Type=notify", "WatchdogSec=10min", "KillMode=process", "Delegate=yes", "Restart=always",
		"ExecStart=" + self + " --config " + dir + "/etc/node.yaml",
	} {
		require.Contains(t, out.String(), line+"\n")
	}
	require.NoFileExists(t, filepath.Join(dir, unitName))

	unit := out.String()
	out.Reset()
	require.Zero(t, Main(t.Context(), args, &out, &errs), errs.String())
	require.Contains(t, out.String(), "systemctl daemon-reload")
	written, err := os.ReadFile(filepath.Join(dir, unitName))
	require.NoError(t, err)
	require.Equal(t, unit, string(written))
	configured, err := os.ReadFile(filepath.Join(dir, "etc", configName))
	require.NoError(t, err)
	require.Contains(t, string(configured), "hub-url: https://hub.example:7800")
	require.Equal(t, exitUsage, Main(t.Context(), append(args, "--join-token", "hunter2hunter2"), &out, &errs))
	require.NotContains(t, errs.String(), "hunter2hunter2")
}

// The packages ship a configuration, and a token may be spent before it enrols the machine.
func TestInstallUsesTheConfigurationAndTheUnitThatAreThere(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a service is installed by root")
	}
	dir := t.TempDir()
	etc, data, packaged := filepath.Join(dir, "etc"), filepath.Join(dir, "data"), filepath.Join(dir, "packaged")
	for _, made := range []string{etc, packaged} {
		require.NoError(t, os.Mkdir(made, 0o700))
	}
	put := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	file := func(path, want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
	}
	hub := identitytest.New(t)
	in := install{UnitDir: dir, ConfigDir: etc, HubURL: "https://hub.example:7800", packaged: []string{packaged}}
	run := func(token string) (string, error) {
		in.JoinToken = config.Secret(token)
		var out bytes.Buffer
		err := in.run(t.Context(), &out)
		require.NotContains(t, out.String(), "dhj_")
		return out.String(), err
	}
	node, environment := filepath.Join(etc, configName), filepath.Join(etc, environmentName)
	put(node, "# mine\n#hub-url: \"\"\nname: web-1\ndata-dir: "+data+"\n")
	put(environment, "HTTPS_PROXY=http://proxy\nDECKHAND_JOIN_TOKEN=dhj_spent\n")
	token := hub.Token()
	out, err := run(token)
	require.NoError(t, err)
	require.Contains(t, out, "wrote "+node)
	configured := "# mine\nhub-url: https://hub.example:7800\nname: web-1\ndata-dir: " + data + "\n"
	file(node, configured)
	file(environment, "HTTPS_PROXY=http://proxy\nDECKHAND_JOIN_TOKEN="+token+"\n")
	require.FileExists(t, filepath.Join(dir, unitName))

	// With a package's unit, the one that was written before goes.
	put(filepath.Join(packaged, unitName), "[Service]\n")
	out, err = run(token)
	require.NoError(t, err)
	require.Contains(t, out, "the unit is "+packaged)
	require.Contains(t, out, "left "+node+" as it is")
	require.NoFileExists(t, filepath.Join(dir, unitName))

	// What an administrator wrote is not replaced.
	put(filepath.Join(dir, unitName), "[Service]\n# mine\n")
	_, err = run(token)
	require.ErrorContains(t, err, "written by somebody else")
	file(filepath.Join(dir, unitName), "[Service]\n# mine\n")
	require.NoError(t, os.Remove(filepath.Join(dir, unitName)))

	// An enrolled machine keeps its hub and its token.
	known, err := identity.Open(identity.Config{Dir: filepath.Join(data, daemon.IdentityDir)})
	require.NoError(t, err)
	require.NoError(t, known.Enrol(t.Context(), identity.Enrolment{HubURL: hub.URL, JoinToken: token, Name: "web-1"}))
	out, err = run(hub.Token())
	require.NoError(t, err)
	require.Contains(t, out, "enrolled already")
	in.HubURL = "https://other.example:7800"
	_, err = run(identitytest.New(t).Token())
	require.ErrorContains(t, err, "enrolled with another hub")
	file(node, configured)
	file(environment, "HTTPS_PROXY=http://proxy\nDECKHAND_JOIN_TOKEN="+token+"\n")

	put(node, "hub_url: x\n")
	_, err = run(token)
	require.ErrorContains(t, err, "config file "+node+": unknown key")
	file(node, "hub_url: x\n")
}

func TestTheDoctorsReportIsALinePerFindingAndAnExitCode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, report(&out, []doctor.Finding{
		{Name: "root", State: doctor.OK, Says: "this is root"}, {Name: "clock", State: doctor.Warn, Says: "30s off", Fix: "set it"},
	}))
	require.Equal(t, "ok    root                this is root\nwarn  clock               30s off\n                          -> set it\n", out.String())
	require.ErrorContains(t, report(&out, []doctor.Finding{{State: doctor.Fail}}), "one check failed")
	require.ErrorContains(t, report(&out, []doctor.Finding{{State: doctor.Fail}, {State: doctor.Fail}}), "2 checks failed")

	out.Reset()
	var errs bytes.Buffer
	code := Main(t.Context(), []string{"doctor", "--data-dir", t.TempDir(), "--containerd", "/nowhere.sock"}, &out, &errs)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out.String(), "fail  containerd")
	require.Contains(t, errs.String(), "failed")
}
