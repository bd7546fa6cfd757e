package httprule

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule/corpus"
)

// readConn is a connection that has been written to.
type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// Whatever a StrictConn passes on, net/http finds as many requests in it, and
// nothing else, or refuses it.
func FuzzStrictConn(f *testing.F) {
	for _, raw := range corpus.Raws() {
		if len(raw.Bytes) < 1<<10 {
			f.Add(raw.Bytes)
			f.Add(append(raw.Bytes, raw.Bytes...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewStrictConn(readConn{Reader: bytes.NewReader(data)})
		got, err := io.ReadAll(c)
		require.True(t, bytes.HasPrefix(data, got))
		slow := NewStrictConn(readConn{Reader: iotest.OneByteReader(bytes.NewReader(data))})
		again, slowErr := io.ReadAll(iotest.OneByteReader(slow))
		require.Equal(t, got, again)
		require.Equal(t, err == nil, slowErr == nil)

		in := bufio.NewReader(bytes.NewReader(got))
		for range c.heads {
			r, readErr := http.ReadRequest(in)
			if readErr != nil {
				return // net/http refuses more targets, and closes the connection
			}
			_, bodyErr := io.Copy(io.Discard, r.Body)
			if err == nil && c.state == inHead {
				require.NoError(t, bodyErr)
			}
			if bodyErr != nil {
				return
			}
		}
		left, readErr := io.ReadAll(in)
		require.NoError(t, readErr)
		require.Empty(t, left)
	})
}
