package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// tell changes what the daemon knows, and tells the proxy if there is one and change reports
// that there is something to tell. A proxy that starts later is told what the daemon knows
// then.
func (p *Process) tell(change func() bool, do func(c *child) error) error {
	p.telling.RLock()
	defer p.telling.RUnlock()
	p.mu.Lock()
	changed, c := change(), p.child
	p.mu.Unlock()
	if c == nil || !changed {
		return nil
	}
	err := do(c)
	select {
	case <-c.ended:
		return nil // the next one is told
	default:
		return err
	}
}

// Serve takes the connections of a jail, until Leave, as its rules allow. The listener is the
// proxy's from then on, also with an error. A jail that was served before is served again.
func (p *Process) Serve(id string, l net.Listener, rules *nodev1.Egress) error {
	if err := egress.Check(rules); err != nil {
		return errors.Join(err, l.Close())
	}
	s, err := p.socket(l)
	if err != nil {
		return errors.Join(fmt.Errorf("serve the egress of jail %s: %w", id, err), l.Close())
	}
	s.rules = rules
	var before *served
	err = p.tell(func() bool {
		before, p.jails[id] = p.jails[id], s
		return true
	}, func(c *child) error { return c.serveJail(id, s) })
	if before != nil {
		before.close()
	}
	return err
}

// socket returns a listener as a socket that can be passed on. One that is none gets one.
func (p *Process) socket(l net.Listener) (*served, error) {
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
		file, err := u.File()
		if err != nil {
			return nil, err
		}
		return &served{file: file, close: func() { _, _ = file.Close(), u.Close() }}, nil
	}
	dir := p.socketsDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ident.New("s"))
	own, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	file, err := own.File()
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	go join(l, path)
	return &served{file: file, close: func() { _, _, _ = file.Close(), own.Close(), l.Close() }}, nil
}

// join passes the connections of a listener to a socket, until the listener is closed.
func join(l net.Listener, path string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return
			}
			defer to.Close()
			var both sync.WaitGroup
			both.Go(func() {
				_, _ = io.Copy(to, from)
				_ = to.CloseWrite()
			})
			_, _ = io.Copy(from, to)
			if half, ok := from.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
				_ = from.Close()
			}
			both.Wait()
		}()
	}
}

// Change gives a jail other rules, and ends the connections that they do not allow. A jail
// that is not served has none.
func (p *Process) Change(id string, rules *nodev1.Egress) error {
	if err := egress.Check(rules); err != nil {
		return err
	}
	return p.tell(func() bool {
		s := p.jails[id]
		if s == nil {
			return false
		}
		s.rules = rules
		return true
	}, func(c *child) error {
		return c.call(func(ctx context.Context) error {
			_, err := c.proxy.ChangeJail(ctx, &nodev1.ChangeJailRequest{JailId: id, Egress: rules})
			return err
		})
	})
}

// Cut ends every connection of a jail, and refuses new ones until Resume.
func (p *Process) Cut(id, why string) {
	p.log(p.tell(func() bool {
		p.cut[id] = why
		return true
	}, func(c *child) error { return c.cutJail(id, why) }))
}

// Resume lets a jail's connections pass again.
func (p *Process) Resume(id string) {
	p.log(p.tell(func() bool {
		_, was := p.cut[id]
		delete(p.cut, id)
		return was
	}, func(c *child) error {
		return c.call(func(ctx context.Context) error {
			_, err := c.proxy.ResumeJail(ctx, &nodev1.ResumeJailRequest{JailId: id})
			return err
		})
	}))
}

// Leave stops serving a jail and ends its connections.
func (p *Process) Leave(id string) {
	var before *served
	p.log(p.tell(func() bool {
		before = p.jails[id]
		delete(p.jails, id)
		delete(p.cut, id)
		return before != nil
	}, func(c *child) error {
		return c.call(func(ctx context.Context) error {
			_, err := c.proxy.LeaveJail(ctx, &nodev1.LeaveJailRequest{JailId: id})
			return err
		})
	}))
	if before != nil {
		before.close()
	}
}

// Begin notes that an exec is about to run in a jail. Asking again changes nothing.
func (p *Process) Begin(jail, exec string) { p.BeginTool(jail, exec, "", "") }

// BeginTool is Begin for an exec that makes the call of a tool, which proves that by a secret.
func (p *Process) BeginTool(jail, exec, tool, secret string) {
	u, of := use{jail, exec}, toolUse{tool, secret}
	p.log(p.tell(func() bool {
		if have, known := p.uses[u]; known {
			of = have
		}
		p.uses[u] = of
		return true
	}, func(c *child) error { return c.beginUse(u, of) }))
}

// End returns what an exec sent out, which has ended; nil for nothing, or for what is not
// known because the proxy died.
func (p *Process) End(jail, exec string) (out *nodev1.EgressUse) {
	u := use{jail, exec}
	p.log(p.tell(func() bool {
		_, was := p.uses[u]
		delete(p.uses, u)
		return was
	}, func(c *child) error {
		return c.call(func(ctx context.Context) error {
			res, err := c.proxy.EndUse(ctx, &nodev1.EndUseRequest{JailId: jail, ExecId: exec})
			out = res.GetUse()
			return err
		})
	}))
	return out
}

func (p *Process) log(err error) {
	if err != nil {
		p.cfg.Log.Error("the egress proxy does not do what it is told", "error", err)
	}
}

// current waits for the proxy.
func (p *Process) current(ctx context.Context) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		p.mu.Lock()
		c, ready := p.child, p.ready
		p.mu.Unlock()
		select {
		case <-ready:
			if c != nil {
				return c, nil
			}
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "this node's egress proxy does not run").WithFix("see the node's log")
		}
	}
}

// CutFor returns why nothing of a jail passes; empty when it may.
func (p *Process) CutFor(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut[id]
}

// Tunnel implements egress.Tunnels. The bytes pass by a socket of their own.
func (p *Process) Tunnel(ctx context.Context, open *nodev1.TunnelRequest_Open) (io.ReadWriteCloser, error) {
	c, err := p.current(ctx)
	if err != nil {
		return nil, err
	}
	return c.socketFor(func(number uint64) error {
		// It goes on if ctx ends, since the proxy must take what was sent to it; it has time
		// limits of its own, and what it connects with ends with the socket.
		_, err := c.proxy.OpenTunnel(context.WithoutCancel(ctx), &nodev1.OpenTunnelRequest{Open: open, Socket: number})
		return fault.FromGRPC(err)
	})
}

// socketFor sends one of two connected sockets to the process, has it use that, and returns
// the other one. It ends with the process.
func (c *child) socketFor(use func(number uint64) error) (*net.UnixConn, error) {
	own, theirs, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	number := c.counter.Add(1)
	err = c.send(number, theirs)
	_ = theirs.Close() // the process has it
	if err == nil {
		err = use(number)
	}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// server passes calls of the hub on to the proxy.
type server struct {
	nodev1.EgressServiceServer
	p *Process
}

// NewServer returns the proxy as the hub calls it.
func NewServer(p *Process) nodev1.EgressServiceServer {
	return &server{EgressServiceServer: egress.NewServer(p), p: p}
}

// Channel implements the service.
func (s *server) Channel(in nodev1.EgressService_ChannelServer) error {
	c, err := s.p.current(in.Context())
	if err != nil {
		return fault.ToGRPC(err)
	}
	socket, err := c.socketFor(func(number uint64) error {
		_, err := c.proxy.OpenChannel(context.WithoutCancel(in.Context()), &nodev1.OpenChannelRequest{Socket: number})
		return err
	})
	if err != nil {
		return fault.ToGRPC(err)
	}
	defer socket.Close()
	defer context.AfterFunc(in.Context(), func() { _ = socket.Close() })()
	return egress.Pass(socket, func() ([]byte, error) {
		req, err := in.Recv()
		return req.GetData(), err
	}, func(b []byte) error { return in.Send(&nodev1.ChannelResponse{Data: b}) })
}

// EndCredential implements the service.
func (s *server) EndCredential(ctx context.Context, req *nodev1.EndCredentialRequest) (*nodev1.EndCredentialResponse, error) {
	c, err := s.p.current(ctx)
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	return c.egress.EndCredential(ctx, req)
}
