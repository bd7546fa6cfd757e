package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/doctor"
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
	config, err := os.ReadFile(filepath.Join(dir, "etc", configName))
	require.NoError(t, err)
	require.Contains(t, string(config), "hub-url: https://hub.example:7800")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", configName), []byte("mine"), 0o644))
	out.Reset()
	require.Zero(t, Main(t.Context(), args, &out, &errs), errs.String())
	require.Contains(t, out.String(), "left "+dir+"/etc/node.yaml as it is")
	kept, err := os.ReadFile(filepath.Join(dir, "etc", configName))
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))
	require.Equal(t, exitUsage, Main(t.Context(), append(args, "--join-token", "hunter2hunter2"), &out, &errs))
	require.NotContains(t, errs.String(), "hunter2hunter2")
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
