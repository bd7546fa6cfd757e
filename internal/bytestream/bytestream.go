// Package bytestream makes a stream of bytes of the messages of a gRPC stream, and passes such
// messages on.
package bytestream

import (
	"errors"
	"io"
	"sync"
)

// Stream is a stream of gRPC messages as a stream of bytes. It is read by one goroutine and
// may be written by several.
type Stream struct {
	// Recv returns the bytes of the next message; io.EOF at the end.
	Recv func() ([]byte, error)
	// Send sends bytes as one message, of at most MaxPiece.
	Send func([]byte) error
	// End ends the stream; nil for one that ends with its call.
	End func()

	rest []byte // of the last message

	mu sync.Mutex // of Write
}

// MaxPiece is how much goes in one message, in bytes.
const MaxPiece = 64 << 10

// Read implements io.Reader.
func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		got, err := s.Recv()
		if err != nil {
			return 0, err
		}
		s.rest = got
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write implements io.Writer.
func (s *Stream) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(b) > 0 {
		piece := b[:min(len(b), MaxPiece)]
		if err := s.Send(piece); err != nil {
			return n, err
		}
		n, b = n+len(piece), b[len(piece):]
	}
	return n, nil
}

// Close implements io.Closer.
func (s *Stream) Close() error {
	if s.End != nil {
		s.End()
	}
	return nil
}

// Reader reads the bytes of a message, and then those of all that follow.
func Reader(first []byte, recv func() ([]byte, error)) io.Reader {
	return &Stream{Recv: recv, rest: first}
}

// Forward sends the messages that next returns until its io.EOF. It returns another error of
// next. An error of send ends it as well and is not returned: the call's response says why.
func Forward(next func() ([]byte, error), send func([]byte) error) error {
	for {
		data, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if send(data) != nil {
			return nil
		}
	}
}
