package node

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"connectrpc.com/connect"
	"github.com/charmbracelet/x/term"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// keyboard sends what is typed, and the window's sizes.
type keyboard struct {
	mu     sync.Mutex // one sends at a time
	stream *connect.BidiStreamForClientSimple[deckhandv1.OpenTerminalRequest, deckhandv1.OpenTerminalResponse]
}

func (k *keyboard) send(m *deckhandv1.OpenTerminalRequest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stream.Send(m)
}

const maxTyped = 32 << 10

// read sends what is typed until the input or the stream ends. A read that
// waits for a key cannot be ended: it ends with the program.
func (k *keyboard) read(in io.Reader) {
	buf := make([]byte, maxTyped)
	for {
		n, err := in.Read(buf)
		if n > 0 && k.send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Input{Input: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			_ = k.stream.CloseRequest() // a stream that is broken is closed already
			return
		}
	}
}

// watch sends the window's size when it changes, until the returned function is
// called.
func (k *keyboard) watch(in term.File) func() {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		for range changes {
			if k.send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Resize{Resize: windowSize(in)}}) != nil {
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(changes)
	}
}

// windowSize returns a terminal's size; a usual one where it does not say.
func windowSize(f term.File) *deckhandv1.TerminalSize {
	const usualCols, usualRows = 80, 24
	cols, rows, err := term.GetSize(f.Fd())
	if err != nil || cols <= 0 || rows <= 0 {
		cols, rows = usualCols, usualRows
	}
	return &deckhandv1.TerminalSize{Cols: uint32(cols), Rows: uint32(rows)} //nolint:gosec // positive and small
}
