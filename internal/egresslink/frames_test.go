package egresslink_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
)

// written is a connection that keeps what was written at once.
type written struct {
	net.Conn

	mu     sync.Mutex
	pieces [][]byte // guarded by mu
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.pieces = append(w.pieces, bytes.Clone(b))
	w.mu.Unlock()
	return w.Conn.Write(b)
}

// A session of yamux over Frames says what one without it says, and no header of a frame is
// written without its body.
func TestAFrameIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	conn := &written{Conn: near}
	client, err := yamux.Client(&egresslink.Frames{ReadWriteCloser: conn}, egresslink.SessionConfig())
	require.NoError(t, err)
	defer client.Close()
	server, err := yamux.Server(&egresslink.Frames{ReadWriteCloser: far}, egresslink.SessionConfig())
	require.NoError(t, err)
	defer server.Close()

	// One frame that fits into a message, one that does not, and one whose body looks like a
	// header.
	texts := [][]byte{[]byte("hello"), bytes.Repeat([]byte("0123456789abcdef"), 20_000), {0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 9}}
	var all sync.WaitGroup
	all.Go(func() {
		in, err := server.Accept()
		if !assert.NoError(t, err) {
			return
		}
		got, err := io.ReadAll(in)
		assert.NoError(t, err)
		assert.Equal(t, bytes.Join(texts, nil), got)
		assert.NoError(t, in.Close())
	})
	out, err := client.Open()
	require.NoError(t, err)
	for _, text := range texts {
		_, err := out.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	all.Wait()

	conn.mu.Lock()
	defer conn.mu.Unlock()
	for _, piece := range conn.pieces {
		if len(piece) <= 12 {
			assert.NotEqual(t, byte(0), piece[1], "the header of a frame with a body is alone")
		}
	}
}
