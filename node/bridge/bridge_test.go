package bridge_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/node/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both ends of a bridge over pipes, as a daemon and a jail have them.
func pair(t *testing.T) (host, jail *bridge.Link) {
	t.Helper()
	a, b := net.Pipe()
	host, err := bridge.New(a, true)
	require.NoError(t, err)
	jail, err = bridge.New(b, false)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = host.Close(), jail.Close() })
	return host, jail
}

// connected returns both ends of a connection that the host dialled.
func connected(t *testing.T, host, jail *bridge.Link) (here, there net.Conn) {
	t.Helper()
	here, err := host.Dial()
	require.NoError(t, err)
	there, err = jail.Accept(t.Context())
	require.NoError(t, err)
	return here, there
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	half, ok := c.(interface{ CloseWrite() error })
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
}

func TestEachDirectionEndsByItself(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	here, there := connected(t, host, jail)
	_, err := here.Write([]byte("question"))
	require.NoError(t, err)
	closeWrite(t, here)
	got, err := io.ReadAll(there)
	require.NoError(t, err)
	require.Equal(t, "question", string(got))
	_, err = there.Write([]byte("reply"))
	require.NoError(t, err)
	closeWrite(t, there)
	got, err = io.ReadAll(here)
	require.NoError(t, err)
	require.Equal(t, "reply", string(got))
	_, err = here.Write([]byte("more"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestBothEndsDial(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	out, err := jail.Dial()
	require.NoError(t, err)
	in, err := host.Accept(t.Context())
	require.NoError(t, err)
	_, err = out.Write([]byte("out"))
	require.NoError(t, err)
	buf := make([]byte, 3)
	_, err = io.ReadFull(in, buf)
	require.NoError(t, err)
	require.Equal(t, "out", string(buf))
}

// What is larger than any window arrives whole, on many connections at once.
func TestContentArrivesWhole(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	const many, size = 20, 1 << 20
	var wg sync.WaitGroup
	for i := range many {
		here, there := connected(t, host, jail)
		content := bytes.Repeat([]byte{byte(i), 1, 2}, size/3)
		wg.Go(func() {
			_, err := here.Write(content)
			if half, ok := here.(interface{ CloseWrite() error }); ok {
				err = errors.Join(err, half.CloseWrite())
			}
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			got, err := io.ReadAll(there)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}

// A connection that is given up is no complete one.
func TestAClosedConnectionIsNoEndOfContent(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	here, there := connected(t, host, jail)
	_, err := here.Write([]byte("half of"))
	require.NoError(t, err)
	require.NoError(t, here.Close())
	got, err := io.ReadAll(there)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "half of", string(got))
}

// A write to who does not read ends when the reader gives up.
func TestAWriterDoesNotWaitForAReaderThatIsGone(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	here, there := connected(t, host, jail)
	began, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		close(began) // the first write is larger than what waits in memory
		for {
			if _, err := here.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	}()
	<-began
	require.NoError(t, there.Close())
	_, _ = io.Copy(io.Discard, here)
	require.NoError(t, here.Close())
	require.Error(t, <-failed)
}

func TestDeadlinesOfReads(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	here, there := connected(t, host, jail)
	require.NoError(t, there.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := there.Read(make([]byte, 1))
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
	require.NoError(t, there.SetReadDeadline(time.Time{}))
	_, err = here.Write([]byte("later"))
	require.NoError(t, err)
	buf := make([]byte, 5)
	_, err = io.ReadFull(there, buf)
	require.NoError(t, err)
	require.Equal(t, "later", string(buf))
}

// The end of the pipes, as of a daemon that was killed, ends everything.
func TestTheEndOfThePipesEndsTheLink(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	jail, err := bridge.New(b, false)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	<-jail.Done()
	_, err = jail.Dial()
	require.Error(t, err)
	_, err = jail.Accept(t.Context())
	require.Error(t, err)
}

// Bytes that are no frame end the link, and nothing else.
func TestWhatIsNoFrameEndsTheLink(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	host, err := bridge.New(b, true)
	require.NoError(t, err)
	_, err = a.Write(bytes.Repeat([]byte{0xff}, 64))
	if err != nil {
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
	<-host.Done()
	require.NoError(t, a.Close())
}

// A jail that asks without end whether the daemon is there, and reads no answer, is cut off:
// each question would wait in the daemon's memory.
func TestAJailThatAsksWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	host, err := bridge.New(a, true)
	require.NoError(t, err)
	defer host.Close()
	question := []byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7}
	asked := 0
	for err == nil && asked < 10_000 {
		// In pieces that are no frames, as a pipe may have them.
		if _, err = b.Write(question[:5]); err == nil {
			_, err = b.Write(question[5:])
		}
		asked++
	}
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.InDelta(t, 65, asked, 2)
	<-host.Done()
}

// Bytes in the data of a stream that look like pings are not counted as pings.
func TestDataIsNoQuestion(t *testing.T) {
	t.Parallel()
	host, jail := pair(t)
	here, there := connected(t, host, jail)
	question := bytes.Repeat([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7}, 100_000)
	go func() {
		_, _ = there.Write(question)
		_ = there.Close()
	}()
	got := make([]byte, len(question))
	_, err := io.ReadFull(here, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(question, got))
	require.NoError(t, here.Close())
}
