package listenaddr_test

import (
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/listenaddr"
)

func TestATakenPortNamesTheProcessThatHasIt(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	err = listenaddr.Probe("listen", taken.Addr().String())
	require.ErrorContains(t, err, "cannot listen on --listen "+taken.Addr().String())
	require.ErrorContains(t, err, string(comm[:len(comm)-1])+" (process "+strconv.Itoa(os.Getpid())+") uses that port")
	require.ErrorContains(t, err, "choose another address with --listen")
}

func TestAnAddressOfAnotherMachineIsRefused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, listenaddr.Probe("edge-listen", "192.0.2.1:7801"), "this machine does not have that address")
	require.NoError(t, listenaddr.Probe("listen", ""))
	require.NoError(t, listenaddr.Probe("listen", "127.0.0.1:0"))
}
