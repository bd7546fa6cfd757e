package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
)

// signalHelper makes the test binary a process that obeys WithSignals.
const signalHelper = "CLI_TEST_SIGNAL_HELPER"

func TestTheSecondSignalEndsTheProcessAtOnce(t *testing.T) {
	if os.Getenv(signalHelper) != "" {
		ctx, stop := cli.WithSignals(t.Context())
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("stopping")
		select {} // a stop that never ends
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTheSecondSignalEndsTheProcessAtOnce$") //nolint:gosec // this very binary
	cmd.Env = append(os.Environ(), signalHelper+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	require.Equal(t, "stopping", lines.Text())
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
}
