package link

import (
	"errors"
	"io"
	"net"
	"sync"
)

// conn is the connection to the hub. It records when and why it ended.
type conn struct {
	net.Conn

	closed chan struct{} // closed by Close
	once   sync.Once

	mu    sync.Mutex
	cause error // the first error of Read
}

func watch(c net.Conn) *conn { return &conn{Conn: c, closed: make(chan struct{})} }

// Read remembers why the connection ended: a TLS alert, for example, with
// which the edge refuses a certificate.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cause == nil && !errors.Is(err, net.ErrClosed) {
			c.cause = err
		}
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		err = c.Conn.Close()
		close(c.closed)
	})
	return err
}

// reason says why the connection ended, as far as it is known.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil || errors.Is(c.cause, io.EOF) {
		return errors.New("the hub closed the connection")
	}
	return c.cause
}

// listener gives a gRPC server its one connection, which is there already, and
// then nothing until that is closed.
type listener struct {
	conn    *conn
	pending chan *conn
	once    sync.Once
	stopped chan struct{}
}

func listenOn(c *conn) *listener {
	l := &listener{conn: c, pending: make(chan *conn, 1), stopped: make(chan struct{})}
	l.pending <- c
	return l
}

// Accept returns the connection once, and afterwards waits for the end.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pending:
		return c, nil
	case <-l.conn.closed:
	case <-l.stopped:
	}
	return nil, net.ErrClosed
}

// Close ends Accept. The connection stays: calls on it may still be answered.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.stopped) })
	return nil
}

// Addr is this end of the connection.
func (l *listener) Addr() net.Addr { return l.conn.LocalAddr() }
