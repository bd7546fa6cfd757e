package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/bridge"
	"github.com/deckhand-sh/deckhand/node/initd"
)

// pipes is the transport of a jail with a kernel of its own: one more process of
// deckhand-init in the jail, which connects the daemon by its standard input and
// output to init's sockets (package bridge). It ends with its connection to init,
// or soon after a daemon that was killed. The next daemon starts another: the
// jail's init keeps nothing of it.
type pipes struct {
	m         *Manager
	container string
	dir       string // of the named pipes
	log       string // of init itself
	link      *bridge.Link
}

// bridgeID is the id of the bridge among the processes of a container.
const bridgeID = "bridge"

// dial starts the bridge. It ends with the connection.
func (b *pipes) dial(ctx context.Context) (net.Conn, error) {
	ctx = b.m.namespaced(ctx)
	ctr, err := b.m.containerd.LoadContainer(ctx, b.container)
	if err != nil {
		return nil, b.m.unavailable(err)
	}
	task, err := ctr.Task(ctx, nil)
	if err != nil {
		return nil, b.m.unavailable(err)
	}
	if err := endBridge(ctx, task); err != nil {
		return nil, err
	}
	made, err := ctr.Spec(ctx)
	if err != nil {
		return nil, b.m.unavailable(err)
	}
	streams, err := b.start(ctx, task, made.Process)
	if err != nil {
		return nil, err
	}
	if b.link, err = bridge.New(streams, true); err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	conn, err := b.link.Dial()
	if err != nil {
		return nil, errors.Join(err, b.link.Close())
	}
	return linkConn{conn, b.link}, nil
}

// endBridge ends the bridge of the daemon before, or of this one before it lost
// the jail's init.
func endBridge(ctx context.Context, task client.Task) error {
	old, err := task.LoadProcess(ctx, bridgeID, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the old bridge: %w", err)
	}
	// The shim holds its pipes open, whatever has become of the daemon's ends.
	exited, err := old.Wait(ctx)
	if err == nil {
		err = old.Kill(ctx, unix.SIGKILL)
	}
	if err == nil {
		select {
		case <-exited:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil || errdefs.IsNotFound(err) {
		_, err = old.Delete(ctx)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("end the old bridge: %w", err)
	}
	return nil
}

// start runs the bridge and returns the daemon's ends of its pipes.
func (b *pipes) start(ctx context.Context, task client.Task, init *specs.Process) (io.ReadWriteCloser, error) {
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, fmt.Errorf("remove the pipes of the old bridge: %w", err)
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the bridge's pipes: %w", err)
	}
	// Of this bridge alone: one that is just ending removes its own.
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return nil, fmt.Errorf("make the folder of the bridge's pipes: %w", err)
	}
	proc := &specs.Process{
		User: init.User, Args: []string{initMount, initd.Bridge}, Env: init.Env, Cwd: init.Cwd,
		Rlimits: init.Rlimits, NoNewPrivileges: true, Capabilities: &specs.LinuxCapabilities{},
	}
	// They stay open for as long as the daemon does not close them.
	open := context.WithoutCancel(ctx)
	var direct *cio.DirectIO
	process, err := task.Exec(ctx, bridgeID, proc, func(string) (_ cio.IO, err error) {
		in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		direct, err = cio.NewDirectIO(open, cio.NewFIFOSet(cio.Config{Stdin: in, Stdout: out}, func() error { return os.RemoveAll(dir) }))
		if err != nil {
			return nil, err
		}
		return bridgeIO{direct, cio.Config{Stdin: in, Stdout: out, Stderr: b.log}}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("make the bridge to the jail: %w", err)
	}
	if err := process.Start(ctx); err != nil {
		_, derr := process.Delete(open, client.WithProcessKill)
		return nil, errors.Join(fmt.Errorf("start the bridge to the jail: %w", err), derr)
	}
	return bridgeStreams{direct}, nil
}

// listen takes what the bridge brings out of the jail; dial must have been called.
func (b *pipes) listen() (net.Listener, error) {
	if b.link == nil {
		return nil, errors.New("there is no bridge to the jail")
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &linkListener{link: b.link, ctx: ctx, cancel: cancel}, nil
}

// bridgeIO are the pipes, and a file for what the bridge says of itself.
type bridgeIO struct {
	*cio.DirectIO
	config cio.Config
}

func (s bridgeIO) Config() cio.Config { return s.config }

// bridgeStreams are the daemon's ends of a bridge's pipes.
type bridgeStreams struct{ direct *cio.DirectIO }

func (s bridgeStreams) Read(to []byte) (int, error)    { return s.direct.Stdout.Read(to) }
func (s bridgeStreams) Write(from []byte) (int, error) { return s.direct.Stdin.Write(from) }
func (s bridgeStreams) Close() error {
	s.direct.Cancel()
	return s.direct.Close()
}

// linkConn is init's connection, with which the bridge ends.
type linkConn struct {
	net.Conn
	link *bridge.Link
}

func (c linkConn) Close() error { return errors.Join(c.Conn.Close(), c.link.Close()) }

// linkListener has what comes over a bridge.
type linkListener struct {
	link   *bridge.Link
	ctx    context.Context //nolint:containedctx // until Close
	cancel context.CancelFunc
}

func (l *linkListener) Accept() (net.Conn, error) {
	conn, err := l.link.Accept(l.ctx)
	if err != nil {
		return nil, errors.Join(net.ErrClosed, err)
	}
	return conn, nil
}

func (l *linkListener) Close() error {
	l.cancel()
	return nil
}

func (l *linkListener) Addr() net.Addr { return &net.UnixAddr{Name: initd.EgressSocket, Net: "unix"} }

// initOf returns the file that a container's init is made from, on the host.
func (m *Manager) initOf(ctx context.Context, ctr client.Container) (string, error) {
	spec, err := ctr.Spec(ctx)
	if err != nil {
		return "", m.unavailable(err)
	}
	at := slices.IndexFunc(spec.Mounts, func(mount specs.Mount) bool { return mount.Destination == initMount })
	if at < 0 {
		return "", nil
	}
	return spec.Mounts[at].Source, nil
}
