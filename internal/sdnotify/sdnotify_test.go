package sdnotify_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/sdnotify"
)

func TestAStopSaysHowLongItMayTake(t *testing.T) {
	t.Parallel()
	require.Equal(t, "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000", sdnotify.StoppingWithin(time.Minute))
}

func TestTheWatchdogIsFedWhileTheServiceIsAlive(t *testing.T) {
	t.Parallel()
	address := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	defer systemd.Close()
	heard := func() string {
		buf := make([]byte, 100)
		require.NoError(t, systemd.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, err := systemd.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	require.NoError(t, sdnotify.Send(address, sdnotify.Ready))
	require.Equal(t, "READY=1", heard())

	ctx, stop := context.WithCancel(t.Context())
	tick, ended, problems := make(chan time.Time), make(chan struct{}), make(chan error, 1)
	alive := make(chan error, 1)
	go func() {
		defer close(ended)
		sdnotify.Watch(ctx, address, tick, func(context.Context) error { return <-alive }, func(err error) { problems <- err })
	}()
	alive <- nil
	tick <- time.Time{}
	require.Equal(t, "WATCHDOG=1", heard())
	alive <- errors.New("the API does not answer")
	tick <- time.Time{}
	require.ErrorContains(t, <-problems, "does not answer")
	alive <- nil
	tick <- time.Time{}
	require.Equal(t, "WATCHDOG=1", heard(), "nothing was sent in between")
	stop()
	<-ended

	require.NoError(t, sdnotify.Send("", sdnotify.Ready), "without systemd nothing is sent")
	require.Error(t, sdnotify.Send(address+"-gone", sdnotify.Ready))
}
