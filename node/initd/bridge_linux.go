package initd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/bridge"
)

// initPatience is how long a bridge waits for an init that is just starting.
const initPatience = 15 * time.Second

// stdio is the pair of pipes that the daemon holds the other ends of.
type stdio struct{ in, out *os.File }

func (s stdio) Read(to []byte) (int, error)    { return s.in.Read(to) }
func (s stdio) Write(from []byte) (int, error) { return s.out.Write(from) }
func (s stdio) Close() error                   { return errors.Join(s.in.Close(), s.out.Close()) }

// openStdio makes the pipes wait without a thread each.
func openStdio() (s stdio, err error) {
	for fd := range 2 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return s, fmt.Errorf("open the daemon's pipes: %w", err)
		}
	}
	return stdio{os.NewFile(0, "in"), os.NewFile(1, "out")}, nil
}

// bridgeMain connects the daemon with the sockets in the state folder. It ends with
// the daemon's connection to init, which is the first one.
func bridgeMain() error {
	// Threads that wake each other cost more than what they would do at once.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	egress := filepath.Join(StateDir, EgressSocket)
	// Of the bridge of the daemon before, which may still be about to end.
	if err := os.Remove(egress); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: egress, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	// By its name it would be another's by then.
	l.SetUnlinkOnClose(false)
	pipes, err := openStdio()
	if err != nil {
		return err
	}
	link, err := bridge.New(pipes, false)
	if err != nil {
		return err
	}
	defer link.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go join(c, link.Dial)
		}
	}()
	c, err := link.Accept(context.Background())
	if err != nil {
		return nil //nolint:nilerr // the daemon has closed the bridge, which is how it ends
	}
	join(c, dialInit)
	return nil
}

// dialInit connects to init, which may be just starting.
func dialInit() (net.Conn, error) {
	for end := time.Now().Add(initPatience); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("unix", filepath.Join(StateDir, SocketFile))
		if err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

// join moves bytes both ways until both directions have ended.
func join(from net.Conn, dial func() (net.Conn, error)) {
	defer from.Close()
	to, err := dial()
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(to, from)
	}()
	pass(from, to)
	<-done
}

func pass(to, from net.Conn) {
	buf := make([]byte, chunk)
	// Without the shortcuts of io.Copy: splice(2) does not work between a socket and a
	// connection of the bridge.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf)
	if err != nil || closeWrite(to) != nil {
		_, _ = to.Close(), from.Close()
	}
}
