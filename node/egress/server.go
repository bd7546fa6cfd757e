package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Tunnels connects with hosts for the hub.
type Tunnels interface {
	// Tunnel connects on behalf of a jail; EgressService.Tunnel has the errors, which are
	// faults.
	Tunnel(ctx context.Context, open *nodev1.TunnelRequest_Open) (io.ReadWriteCloser, error)
	// CutFor returns why nothing of a jail passes; empty when it may.
	CutFor(jailID string) string
}

// server is the gRPC face of Tunnels.
type server struct {
	nodev1.UnimplementedEgressServiceServer

	tunnels Tunnels
}

// NewServer returns the gRPC face of what connects for the hub.
func NewServer(t Tunnels) nodev1.EgressServiceServer { return &server{tunnels: t} }

// Tunnel implements the service.
func (s *server) Tunnel(stream nodev1.EgressService_TunnelServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return fault.ToGRPC(fault.New(fault.Invalid, "the first request of a tunnel is not open"))
	}
	up, err := s.tunnels.Tunnel(stream.Context(), open)
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer up.Close()
	defer context.AfterFunc(stream.Context(), func() { _ = up.Close() })()
	if err := stream.Send(&nodev1.TunnelResponse{}); err != nil {
		return err
	}
	if err := Pass(up, func() ([]byte, error) {
		req, err := stream.Recv()
		return req.GetData(), err
	}, func(b []byte) error { return stream.Send(&nodev1.TunnelResponse{Data: b}) }); err != nil {
		return err
	}
	if why := s.tunnels.CutFor(open.GetJailId()); why != "" {
		return fault.ToGRPC(fault.New(fault.Unavailable, "%s", why).WithObject(open.GetJailId()))
	}
	return nil
}

// Pass passes bytes both ways between a connection and a stream of messages until either has
// ended, and returns the error of send. The half that receives ends with the stream.
func Pass(c io.ReadWriteCloser, recv func() ([]byte, error), send func([]byte) error) error {
	go func() {
		for {
			b, err := recv()
			if err == nil {
				_, err = c.Write(b)
			}
			if err != nil {
				_ = c.Close() // ends the read below
				return
			}
		}
	}()
	buf := bodies.Get()
	defer bodies.Put(buf)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// Join passes bytes both ways between a connection of Tunnel and the one that the hub has,
// until either has ended, and closes both. The hub ends its connection when it wants nothing
// more of it: it speaks TLS or HTTP there, which have ends of their own.
func Join(up io.ReadWriteCloser, hub net.Conn) {
	defer up.Close()
	defer hub.Close()
	go func() {
		_ = copyTo(up, hub)
		_ = up.Close()
	}()
	_ = copyTo(hub, up) // either end may end it
}

// copyTo copies with a buffer of the pool: other methods of both ends would be used before it.
func copyTo(to io.Writer, from io.Reader) error {
	buf := bodies.Get()
	defer bodies.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf)
	return err
}

// Tunnel implements Tunnels.
func (p *Proxy) Tunnel(ctx context.Context, open *nodev1.TunnelRequest_Open) (io.ReadWriteCloser, error) {
	c, err := p.through(ctx, open)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// through connects for the hub, on behalf of a jail that is served.
func (p *Proxy) through(ctx context.Context, open *nodev1.TunnelRequest_Open) (*conn, error) {
	id := open.GetJailId()
	j := p.jail(id)
	if j == nil {
		return nil, fault.New(fault.Precondition, "jail %s has no way out: it does not run", id).WithObject(id)
	}
	if why := p.CutFor(id); why != "" {
		return nil, fault.New(fault.Unavailable, "%s", why).WithObject(id)
	}
	t, err := allowlist.ParseTarget(net.JoinHostPort(open.GetHost(), strconv.FormatUint(uint64(open.GetPort()), 10)), 0)
	if err != nil {
		return nil, fault.New(fault.Invalid, "host %.100q is neither a name nor an address", open.GetHost())
	}
	// Targets that the hub names are allowed, whatever the jail's own rules
	// are.
	own := &allowlist.List{}
	if open.GetPrivate() {
		own.Rules = []allowlist.Rule{{Host: t.Host, Ports: []uint16{t.Port}, Private: !t.Addr.IsValid()}}
	}
	c, err := j.dialBy(ctx, t, func(_ *policy, addr netip.Addr, mine bool) *allowlist.Refusal {
		if refusal := own.Address(t, addr, mine); refusal != nil {
			return refusal
		}
		return p.special(addr)
	})
	if err == nil {
		return c, nil
	}
	var refusal *allowlist.Refusal
	if errors.As(err, &refusal) {
		return nil, fault.New(fault.Denied, "%s", refusal.Reason).WithCode(fault.EgressDenied).
			WithFix("name an address that nodes may reach").WithObject(id)
	}
	return nil, fault.New(fault.Aborted, "%s:%d cannot be reached from the node", t.Host, t.Port).
		WithFix("check the address, and the node's network").WithCause(fmt.Errorf("dial: %w", err)).WithObject(id)
}
