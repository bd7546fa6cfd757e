package systemd_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/packaging/systemd"
)

// dying has the test binary die in the way that it names.
const dying = "DECKHAND_TEST_DYING"

func TestMain(m *testing.M) {
	switch os.Getenv(dying) {
	case "panic":
		panic("on purpose")
	case "watchdog":
		// As systemd does it when the watchdog was not fed.
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	}
	os.Exit(m.Run())
}

// Only a configuration error keeps a service down: after a panic, or when the watchdog has
// ended a program that hung, it is started again.
func TestAServiceIsRestartedAfterAPanicAndAfterTheWatchdog(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, how := range []string{"panic", "watchdog"} {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), dying+"="+how)
		var exit *exec.ExitError
		require.True(t, errors.As(cmd.Run(), &exit), how)
		code := exit.ExitCode() // -1 if a signal ended it
		for _, name := range []string{systemd.Up, systemd.Hub, systemd.Worker, systemd.Node} {
			unit, err := systemd.Unit(name, "/usr/bin/deckhand", "/etc/deckhand")
			require.NoError(t, err)
			require.Contains(t, unit, "\nRestart=always\n")
			_, rest, found := strings.Cut(unit, "\nRestartPreventExitStatus=")
			require.True(t, found, name)
			prevented, _, _ := strings.Cut(rest, "\n")
			require.Equal(t, "78", prevented, "what the programs end with when the configuration is invalid")
			require.NotContains(t, strings.Fields(prevented), strconv.Itoa(code), "%s after %s", name, how)
		}
	}
}
