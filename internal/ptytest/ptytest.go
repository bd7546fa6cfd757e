// Package ptytest runs a program on a pseudoterminal in a test. A Person reads what it shows
// and types lines. A text that does not appear fails the test.
package ptytest

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// Person is somebody at a terminal.
type Person struct {
	// Done receives the exit code of the program.
	Done <-chan int

	t      testing.TB
	master *os.File

	mu   sync.Mutex
	text strings.Builder
	// read is how much of the text the person has read.
	read int
}

// Start runs a program whose input and output are a terminal of 60 lines and 120 columns. It
// returns an exit code.
func Start(t testing.TB, program func(tty *os.File) int) *Person {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 60, Cols: 120}))
	done := make(chan int, 1)
	p := &Person{Done: done, t: t, master: master}
	t.Cleanup(func() { _ = master.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.text.Write(bytes.ReplaceAll(buf[:n], []byte("\r\n"), []byte("\n")))
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		code := program(tty)
		_ = tty.Close()
		done <- code
	}()
	return p
}

// Sees waits for a text below what was read, and returns all up to it.
func (p *Person) Sees(text string) string {
	p.t.Helper()
	var got string
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		rest := p.text.String()[p.read:]
		at := strings.Index(rest, text)
		if at < 0 {
			return false
		}
		got, p.read = rest[:at+len(text)], p.read+at+len(text)
		return true
	}, waittest.Limit(20*time.Second), time.Millisecond, "the terminal to show %q", text)
	return got
}

// Types types a line.
func (p *Person) Types(line string) {
	p.t.Helper()
	_, err := p.master.WriteString(line + "\n")
	require.NoError(p.t, err)
}
