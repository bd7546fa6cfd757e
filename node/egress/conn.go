package egress

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// conn is a connection of a jail's: a command's to the proxy, or the proxy's to
// a host. It ends by itself when the other end takes nothing, or when nothing
// passes for long, and with its jail.
type conn struct {
	net.Conn

	jail *jail
	// judge decides, for an outgoing connection, whether rules allow it.
	judge func(p *policy) *allowlist.Refusal
	count atomic.Pointer[counter] // of what passes, if it leads out

	mu    sync.Mutex
	idle  time.Duration // guarded by mu
	asked bool          // somebody set a deadline for reading; guarded by mu
	// armed is when the deadline for reading was set to idle, and sending when that for writing
	// was set; guarded by mu.
	armed, sending time.Time

	once sync.Once
}

// precision is how much earlier than said a time limit may end, as a part of it: limits are set
// again when that has passed, and not for each read and write.
const precision = 64

// Read waits no longer than a connection may be idle, unless its user has set a
// deadline.
func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if now := time.Now(); !c.asked && now.Sub(c.armed) >= c.idle/precision {
		c.armed = now
		_ = c.Conn.SetReadDeadline(now.Add(c.idle))
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	c.count.Load().passed(0, n)
	return n, err
}

// Write waits no longer than an end may take to take something.
func (c *conn) Write(b []byte) (n int, err error) {
	for slow := false; len(b) > 0 && err == nil; {
		c.limitWrite(slow)
		var passed int
		passed, err = c.Conn.Write(b)
		n, b = n+passed, b[passed:]
		var late net.Error
		if slow = passed > 0 && errors.As(err, &late) && late.Timeout(); slow {
			err = nil // it does take something
		}
	}
	c.count.Load().passed(n, 0)
	return n, err
}

// limitWrite sets the deadline for writing. It leaves one that was set a moment ago, unless
// exact is set.
func (c *conn) limitWrite(exact bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	patience := c.jail.p.cfg.Patience
	if now := time.Now(); exact || now.Sub(c.sending) >= patience/precision {
		c.sending = now
		_ = c.Conn.SetWriteDeadline(now.Add(patience))
	}
}

// SetReadDeadline has the user's deadline hold instead of idle.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.armed = !t.IsZero(), time.Time{}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline is for reading: writing has its own.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writing has its own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// linger shortens how long the connection may be idle: its user has sent
// everything.
func (c *conn) linger() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = min(c.idle, lingers*c.jail.p.cfg.Patience)
	if !c.asked {
		c.armed = time.Now()
		_ = c.Conn.SetReadDeadline(c.armed.Add(c.idle))
	}
}

// CloseWrite says that nothing more will be written.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends it, once.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		c.jail.forget(c)
		err = c.Conn.Close()
	})
	return err
}

// lingers is how many times the Patience a half-closed connection may be idle.
const lingers = 3

// listener takes the connections of a jail's commands, as many as it may have.
type listener struct {
	net.Listener
	jail *jail
}

// tooMany is said to a connection that is one too many.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"deckhand: this jail has as many connections open as it may have; try again once some have ended\n"

// Accept returns the next connection that is not one too many.
func (l listener) Accept() (net.Conn, error) {
	for {
		got, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.jail.keep(&conn{Conn: got})
		if c != nil {
			return c, nil
		}
		go sayTooMany(got)
	}
}

// sayTooMany waits a moment for the words to be read: closed with something
// unread, a connection may lose what was said.
func sayTooMany(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, tooMany); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
