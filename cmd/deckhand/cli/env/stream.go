package env

import (
	"context"
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

// maxStreamFailures is how often in a row a broken log stream is resumed.
const maxStreamFailures = 8

// streamBackoff is how long to wait before a stream is resumed.
var streamBackoff = backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}

// Resume calls read until it succeeds, fails in a way that broken does not report as
// the connection's, or has failed too often in a row without progress. read goes on
// at *offset, which it advances. The first failure without progress ends it too,
// unless patient.
func Resume(ctx context.Context, offset *int64, patient bool, broken func(error) bool, read func() error) error {
	for failures := 0; ; {
		before := *offset
		err := read()
		if ctx.Err() != nil || !broken(err) || *offset == before && failures == 0 && !patient {
			return err
		}
		if *offset > before {
			failures = 0
		}
		if failures++; failures > maxStreamFailures {
			return err
		}
		if err := backoff.Wait(ctx, streamBackoff.Delay(failures)); err != nil {
			return err
		}
	}
}

// BrokenStream reports whether the connection of a stream broke. An error that
// the hub returned has a fix or a code.
func BrokenStream(err error) bool {
	e := fault.As(err)
	return e != nil && e.Code == "" && e.Fix == "" && (e.Kind == fault.Unavailable || e.Kind == fault.Internal)
}
