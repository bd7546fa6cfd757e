// Package bridge carries many connections over one pair of pipes, for jails that
// cannot share a Unix socket with the host.
//
// The daemon runs deckhand-init once more in such a jail, with pipes for its
// standard input and output. Both ends make a Link of theirs. A connection that
// the daemon dials leads to the socket of the jail's init; one that the jail
// dials leaves the jail.
//
// A connection behaves like that of a stream socket: each direction ends by
// itself (CloseWrite), what was sent before arrives, and Close gives up both
// directions. A Link ends, with every connection, when one of its pipes does, and
// that of a jail also when the daemon does not respond for about 15 s: the pipes
// of a daemon that was killed may stay open.
// Neither end trusts the other: what is no frame of the protocol ends the Link,
// and so does a jail that asks the daemon without end whether it is there. For each
// connection at most 256 KiB wait in memory. The number of connections
// that a jail dials is for the caller to bound.
package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// backlog is how many connections may wait for Accept.
	backlog = 256
	// hostPatience is how long the daemon's writes may wait for a jail, which does
	// not read while it is frozen.
	hostPatience = time.Minute
	// closePatience is how long the daemon keeps a connection that it has closed for the
	// other end to close it, too.
	closePatience = 30 * time.Second
	// jailPatience is how long a jail's writes, and its question whether the daemon
	// is there, may wait for it, and askPause is the pause between two questions.
	jailPatience = 10 * time.Second
	askPause     = 5 * time.Second
	// maxChunk is the most that one chunk carries. Chunks are preceded by their
	// length in two bytes; one without content ends the direction.
	maxChunk = 16 << 10
)

// Link is one end of the pair of pipes.
type Link struct{ session *yamux.Session }

// New returns an end over a pair of pipes, which it closes. One of the ends must
// be the host.
func New(pipes io.ReadWriteCloser, host bool) (*Link, error) {
	cfg := yamux.DefaultConfig()
	cfg.AcceptBacklog, cfg.StreamOpenTimeout, cfg.LogOutput = backlog, 0, io.Discard
	cfg.EnableKeepAlive, cfg.ConnectionWriteTimeout = false, hostPatience
	cfg.StreamCloseTimeout = closePatience
	end := yamux.Client
	if host {
		pipes = &guard{ReadWriteCloser: pipes}
	} else {
		cfg.EnableKeepAlive, cfg.KeepAliveInterval, cfg.ConnectionWriteTimeout = true, askPause, jailPatience
		end = yamux.Server
	}
	session, err := end(pipes, cfg)
	if err != nil {
		return nil, fmt.Errorf("make a bridge: %w", err)
	}
	return &Link{session}, nil
}

// Dial opens a connection to the other end.
func (l *Link) Dial() (net.Conn, error) {
	s, err := l.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open a connection over the bridge: %w", err)
	}
	return &conn{Stream: s}, nil
}

// Accept returns the next connection that the other end has opened.
func (l *Link) Accept(ctx context.Context) (net.Conn, error) {
	s, err := l.session.AcceptStreamWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a connection of the bridge: %w", err)
	}
	return &conn{Stream: s}, nil
}

// Done is closed when the Link has ended.
func (l *Link) Done() <-chan struct{} { return l.session.CloseChan() }

// Close ends the Link and all its connections.
func (l *Link) Close() error { return l.session.Close() }

// conn adds the end of one direction to a stream, which can only be closed as a
// whole.
type conn struct {
	*yamux.Stream

	reading sync.Mutex
	left    int  // of the current chunk; guarded by reading
	ended   bool // guarded by reading

	writing sync.Mutex
	buf     []byte // guarded by writing
	closed  bool   // guarded by writing
}

func (c *conn) Read(to []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(to) == 0 {
		return 0, nil
	}
	if c.left == 0 && !c.ended {
		// The other end sends a head together with its chunk: who waits for it
		// waits for both.
		var head [2]byte
		if _, err := io.ReadFull(c.Stream, head[:1]); err != nil {
			return 0, c.lost(err)
		}
		if err := c.rest(head[1:]); err != nil {
			return 0, err
		}
		c.left = int(binary.BigEndian.Uint16(head[:]))
		c.ended = c.left == 0
	}
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.Stream.Read(to[:min(len(to), c.left)])
	c.left -= n
	if err != nil {
		err = c.lost(err)
	}
	return n, err
}

// rest reads the second byte of a head, however the read deadline is: without it
// the next read would begin in the middle of the head.
func (c *conn) rest(to []byte) error {
	for {
		_, err := io.ReadFull(c.Stream, to)
		if !errors.Is(err, yamux.ErrTimeout) {
			if err != nil {
				return c.lost(err)
			}
			return nil
		}
		if err := c.SetReadDeadline(time.Now().Add(hostPatience)); err != nil {
			return err
		}
	}
}

// lost says that a stream ended which did not say so, as a connection that the
// other end gave up.
func (c *conn) lost(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *conn) Write(from []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	for len(from) > 0 {
		part := from[:min(len(from), maxChunk)]
		if err := c.send(part); err != nil {
			return n, err
		}
		n += len(part)
		from = from[len(part):]
	}
	return n, nil
}

func (c *conn) send(part []byte) error {
	c.buf = append(binary.BigEndian.AppendUint16(c.buf[:0], uint16(len(part))), part...) //nolint:gosec // at most maxChunk
	_, err := c.Stream.Write(c.buf)
	if err != nil {
		// Perhaps after a part of the chunk: nothing may follow it.
		c.closed = true
	}
	return err
}

// CloseWrite says that nothing more is sent.
func (c *conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	return c.send(nil)
}
