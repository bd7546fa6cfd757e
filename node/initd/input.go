package initd

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endOfFile is what a terminal takes for the end of its input.
const endOfFile = 0x04

// input is init's end of a command's standard input. A writer must hold turn.
type input struct {
	file    *os.File
	pty     bool
	turn    chan struct{}
	written atomic.Int64
	over    atomic.Bool // nobody is left to read it
	closed  bool        // guarded by turn
}

func newInput(f *os.File, pty bool) *input {
	return &input{file: f, pty: pty, turn: make(chan struct{}, 1)}
}

// given returns how many bytes the command was given; an input that is not
// there gave none.
func (in *input) given() int64 {
	if in == nil {
		return 0
	}
	return in.written.Load()
}

// first gives the command what it was started with, without waiting for it. A
// command that does not want all of it is no error.
func (in *input) first(data []byte, eof bool) {
	in.turn <- struct{}{}
	go func() {
		defer func() { <-in.turn }()
		_ = in.put(data, time.Time{})
		if eof {
			in.close()
		}
	}()
}

// write gives the command the part of data, which begins at offset, that it has
// not received yet, and returns how many bytes it has received in total. A
// timeout is not an error.
func (in *input) write(offset int64, data []byte, eof bool, timeout time.Duration) (int64, error) {
	deadline := time.Now().Add(timeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case in.turn <- struct{}{}:
	case <-timer.C:
		return in.given(), nil
	}
	defer func() { <-in.turn }()
	if eof && in.pty {
		data = append(data[:len(data):len(data)], endOfFile)
	}
	skip := in.given() - offset
	if skip < 0 {
		return in.given(), status.Errorf(codes.OutOfRange, "the command was given %d bytes of input, and these begin at %d", in.given(), offset)
	}
	data = data[min(skip, int64(len(data))):]
	if in.closed && len(data) > 0 {
		return in.given(), status.Error(codes.FailedPrecondition, "the command's input has ended")
	}
	if err := in.put(data, deadline); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !in.over.Load() {
			return in.given(), nil
		}
		return in.given(), status.Error(codes.FailedPrecondition, "the command reads no more input")
	}
	if eof && !in.pty {
		in.close()
	}
	return in.given(), nil
}

// put writes all of data, unless the deadline passes or the read end is closed.
func (in *input) put(data []byte, deadline time.Time) error {
	if len(data) == 0 {
		return nil
	}
	_ = in.file.SetWriteDeadline(deadline)
	if in.over.Load() {
		return unix.EPIPE
	}
	n, err := in.file.Write(data)
	in.written.Add(int64(n))
	return err
}

func (in *input) close() {
	if !in.closed && !in.pty {
		_ = in.file.Close()
	}
	in.closed = true
}

// end is called when the command's tree is gone: who still waits for room
// waits no longer.
func (in *input) end() {
	in.over.Store(true)
	// A writer may set its own deadline once more; it then sees over.
	for {
		_ = in.file.SetWriteDeadline(time.Unix(1, 0))
		select {
		case in.turn <- struct{}{}:
			in.close()
			<-in.turn
			return
		case <-time.After(time.Millisecond):
		}
	}
}
