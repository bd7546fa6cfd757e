package initd

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/execlog"
)

const (
	readSize = 128 << 10
	// busyPipe is the size that a pipe is given once a command has filled it.
	// The kernel grants a user only so many pages of pipes, so quiet ones keep
	// its 64 KiB.
	busyPipe  = 512 << 10
	quietPipe = 64 << 10
)

// buffers are shared by all pipes: a pipe with nothing to read holds none.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[readSize]byte {
	if p, ok := b.pool.Get().(*[readSize]byte); ok {
		return p
	}
	return new([readSize]byte)
}

func (b *buffers) put(p *[readSize]byte) { b.pool.Put(p) }

// outputPipe makes a pipe whose read end is init's and waits without a
// thread, and whose write end is the command's.
func outputPipe(name string) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// copyOutput moves what a pipe brings into the log until the pipe ends or its
// deadline passes. When the log takes nothing more, full is called once and
// the rest is read and dropped, so that the command can die of its kill and
// not hang in a write. After each piece it calls kept, which may wait.
func copyOutput(pipe *os.File, stream execlog.Stream, log *execlog.Writer, g gate, bufs *buffers, full, kept func()) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	grown, dropped := false, false
	for {
		ended := false
		err := conn.Read(func(fd uintptr) (ready bool) {
			g.do(func() {
				buf := bufs.get()
				defer bufs.put(buf)
				n, err := unix.Read(int(fd), buf[:])
				ready = !errors.Is(err, unix.EAGAIN) // else wait for more, without the buffer
				switch {
				case !ready, errors.Is(err, unix.EINTR):
					return
				case err != nil || n == 0:
					ended = true
					return
				}
				if n >= quietPipe && !grown {
					grown = true
					_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, busyPipe)
				}
				if log.Append(stream, buf[:n]) != nil && !dropped {
					dropped = true
					full()
				}
			})
			return ready
		})
		if ended || err != nil {
			return
		}
		kept()
	}
}
