// Package tunnel connects the hub to a host by the way out of a jail, for requests that
// contain something that neither the jail nor its node may read. A node that cuts off the
// jail cuts its tunnels as well.
package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Way is by which jail a connection leaves.
type Way struct {
	Node   machine.Link
	JailID string
	// Private allows addresses of private networks: an operator has named the host.
	Private bool
	// Sent and Received count the bytes of the connection; nil for nobody.
	Sent, Received *atomic.Int64
}

// Dial connects to host:port. The connection ends with Close, or with the jail's way out;
// ctx bounds connecting only. Errors are of package fault; see EgressService.Tunnel.
func Dial(ctx context.Context, by Way, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	// The stream lives as long as the connection.
	streaming, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	stream, err := open(streaming, by, host, uint32(number))
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, fault.FromGRPC(err)
	}
	c := &conn{sent: by.Sent, received: by.Received}
	c.End = end
	c.Recv = func() ([]byte, error) {
		res, err := stream.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			err = fault.FromGRPC(err)
		}
		return res.GetData(), err
	}
	c.Send = func(b []byte) error {
		return fault.FromGRPC(stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{Data: b}}))
	}
	if c.sent == nil {
		c.sent = new(atomic.Int64)
	}
	if c.received == nil {
		c.received = new(atomic.Int64)
	}
	return c, nil
}

func open(ctx context.Context, by Way, host string, port uint32) (nodev1.EgressService_TunnelClient, error) {
	stream, err := by.Node.Egress().Tunnel(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Open_{Open: &nodev1.TunnelRequest_Open{
		JailId: by.JailID, Host: host, Port: port, Private: by.Private,
	}}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	_, err = stream.Recv() // with what is wrong, if anything is
	return stream, err
}

// conn is a tunnel as net/http uses a connection: read by one goroutine, written by one.
type conn struct {
	bytestream.Stream
	sent, received *atomic.Int64

	once sync.Once // of closing
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(c.End)
	return nil
}

type addr struct{}

// Network implements net.Addr.
func (addr) Network() string { return "tunnel" }

// String implements net.Addr.
func (addr) String() string { return "by a node" }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return addr{} }

// SetDeadline does nothing, as those below: the node has time limits of its own, and
// requests have their contexts.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
