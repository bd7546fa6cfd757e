package egresslink

import (
	"encoding/binary"
	"io"

	"github.com/deckhand-sh/deckhand/internal/bytestream"
)

// Frames is what a session of yamux runs over. It writes the header and the body of a frame
// at once, which yamux writes one after the other: each write would be a message, and wake
// every process on the way. It is written by one goroutine.
type Frames struct {
	io.ReadWriteCloser

	head []byte // of the frame whose body is written next
}

const (
	// frameHead is the length of the header of yamux's frames: a version, a type, flags, a
	// stream, and the length of the body.
	frameHead = 12
	frameData = 0 // the type of the frames that have bodies
)

// Write implements io.Writer.
func (f *Frames) Write(b []byte) (int, error) {
	if len(f.head) == 0 {
		if len(b) == frameHead && b[1] == frameData && binary.BigEndian.Uint32(b[frameHead-4:]) > 0 {
			f.head = append(f.head, b...)
			return len(b), nil
		}
		return f.ReadWriteCloser.Write(b)
	}
	first := b[:min(len(b), bytestream.MaxPiece-frameHead)]
	both := append(f.head, first...)
	f.head = both[:0]
	if _, err := f.ReadWriteCloser.Write(both); err != nil {
		return 0, err
	}
	if len(first) == len(b) {
		return len(b), nil
	}
	n, err := f.ReadWriteCloser.Write(b[len(first):])
	return len(first) + n, err
}
