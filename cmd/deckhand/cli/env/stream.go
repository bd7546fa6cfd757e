package env

import (
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Copy writes the data of a stream to out, and closes the stream.
func Copy[T any, P interface {
	*T
	GetData() []byte
}](out io.Writer, stream *connect.ServerStreamForClient[T]) error {
	defer stream.Close()
	for stream.Receive() {
		if _, err := out.Write(P(stream.Msg()).GetData()); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
	}
	return stream.Err()
}

// MaxStreamFailures is how often in a row a broken log stream is resumed.
const MaxStreamFailures = 8

// BrokenStream reports whether the connection of a stream broke. An error that
// the hub returned has a fix or a code.
func BrokenStream(err error) bool {
	e := fault.As(err)
	return e != nil && e.Code == "" && e.Fix == "" && (e.Kind == fault.Unavailable || e.Kind == fault.Internal)
}

// StreamBackoff is how long to wait before a stream is resumed.
var StreamBackoff = backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}
