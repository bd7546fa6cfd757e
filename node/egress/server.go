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

// server is the gRPC face of a Proxy.
type server struct {
	nodev1.UnimplementedEgressServiceServer

	p *Proxy
}

// NewServer returns the gRPC face of a Proxy.
func NewServer(p *Proxy) nodev1.EgressServiceServer { return &server{p: p} }

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
	up, err := s.p.through(stream.Context(), open)
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer up.Close()
	if err := stream.Send(&nodev1.TunnelResponse{}); err != nil {
		return err
	}
	// This half ends with the stream, and that with the handler.
	go func() {
		for {
			req, err := stream.Recv()
			if err == nil {
				_, err = up.Write(req.GetData())
			}
			switch {
			case errors.Is(err, io.EOF):
				if up.CloseWrite() == nil {
					up.linger()
					return
				}
				fallthrough
			case err != nil:
				_ = up.Close() // ends the read below
				return
			}
		}
	}()
	buf := buffers.Get()
	defer buffers.Put(buf)
	for {
		n, err := up.Read(buf)
		if n > 0 {
			if err := stream.Send(&nodev1.TunnelResponse{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			if why := s.p.cutFor(open.GetJailId()); why != "" {
				return fault.ToGRPC(fault.New(fault.Unavailable, "%s", why).WithObject(open.GetJailId()))
			}
			return nil
		}
	}
}

// through connects for the hub, on behalf of a jail that is served.
func (p *Proxy) through(ctx context.Context, open *nodev1.TunnelRequest_Open) (*conn, error) {
	id := open.GetJailId()
	j := p.jail(id)
	if j == nil {
		return nil, fault.New(fault.Precondition, "jail %s has no way out: it does not run", id).WithObject(id)
	}
	if why := p.cutFor(id); why != "" {
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
