package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/initd"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// transport connects this daemon and the init of one jail: sockets, or pipes for
// runtimes that cannot share a Unix socket with the host.
type transport interface {
	// dial reaches init.
	dial(ctx context.Context) (net.Conn, error)
	// listen takes the connections that init brings out of the jail.
	listen() (net.Listener, error)
}

// sockets are the ones in the jail's state folder, which belongs to its init.
type sockets struct{ state string }

func (d sockets) dial(ctx context.Context) (net.Conn, error) {
	// By way of the open folder: a socket's path may be 108 bytes long, and
	// that of a data folder is not ours to choose.
	dir, err := os.Open(d.state)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var nd net.Dialer
	return nd.DialContext(ctx, "unix", filepath.Join(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), initd.SocketFile))
}

func (d sockets) listen() (net.Listener, error) {
	dir, err := os.Open(d.state)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	var owner unix.Stat_t
	if err := unix.Fstat(fd, &owner); err != nil {
		return nil, fmt.Errorf("look for the owner of the jail's state: %w", err)
	}
	// Of the daemon before, or of this one before it lost the jail's init.
	if err := unix.Unlinkat(fd, initd.EgressSocket, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(fmt.Sprintf("/proc/self/fd/%d", fd), initd.EgressSocket), Net: "unix"})
	if err != nil {
		return nil, err
	}
	// By its name it would be another's by then.
	l.SetUnlinkOnClose(false)
	if err := unix.Fchownat(fd, initd.EgressSocket, int(owner.Uid), int(owner.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errors.Join(fmt.Errorf("change the owner of init's socket: %w", err), l.Close())
	}
	return l, nil
}

// Init is a connection to the init of a running jail.
type Init struct {
	initv1.InitServiceService

	// Instance distinguishes this init from one that replaced it.
	Instance string
	// Closed is closed when the connection has ended: init died or the Manager
	// was closed.
	Closed <-chan struct{}

	// Image is the image that the jail is made from; empty for the machine's own
	// system folders. Shell is the path of its shell, empty if it has none, and Env
	// the environment that it gives to commands.
	Image, Shell string
	Env          []string
	// Root says that commands run as user 0, in a user namespace of their own.
	Root bool
	// Proxied says that the jail has a way to the node's proxy.
	Proxied bool
	// OwnKernel says that the jail has a kernel of its own: the host does not see
	// its processes, and init does what is done to them.
	OwnKernel bool

	link transport
	// egress are the jail's rules.
	egress atomic.Pointer[nodev1.Egress]

	client  *ttrpc.Client
	pid     int32 // on the host
	oomFile atomic.Pointer[string]

	protocol int32
}

// User returns the user and group, in the jail, that commands run under unless they name
// others.
func (i *Init) User() (uid, gid uint32) {
	if i.Root {
		return 0, 0
	}
	return userID, userID
}

// Egress returns where the jail's commands may connect to, and with which credentials.
func (i *Init) Egress() *nodev1.Egress { return i.egress.Load() }

// Alive reports whether the connection is open.
func (i *Init) Alive() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.Closed:
		return false
	default:
		return true
	}
}

// connect makes one attempt to reach an init.
func connect(ctx context.Context, d transport, pid int32) (*Init, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the jail's init: %w", err)
	}
	closed := make(chan struct{})
	client := ttrpc.NewClient(conn, ttrpc.WithOnClose(func() { close(closed) }))
	svc := initv1.NewInitServiceClient(client)
	info, err := svc.Info(ctx, &initv1.InfoRequest{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("greet the jail's init: %w", err), client.Close())
	}
	_, own := d.(*pipes)
	return &Init{
		OwnKernel: own, link: d,
		InitServiceService: svc, Instance: info.GetInstance(), Closed: closed, client: client, pid: pid,
		protocol: info.GetProtocol(),
	}, nil
}

// connectPause is the first pause between attempts to reach an init that is
// just starting.
const connectPause = time.Millisecond

// errInitGone is answered when the init that was to be reached has ended.
var errInitGone = errors.New("the jail's init ended")

// await reaches an init that is just starting, until ctx or the init ends.
func await(ctx context.Context, d transport, pid int32) (*Init, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := connectPause; ; pause = min(pause*5/4, 20*connectPause) {
		init, err := connect(ctx, d, pid)
		if err == nil {
			return init, nil
		}
		if ended(pid) {
			return nil, errInitGone
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return nil, err
		case <-timer.C:
		}
	}
}

// adoptTimeout bounds how long it may take to reach the init of a jail that runs.
// A bridge to a jail is a process that must be started first.
func adoptTimeout(rec *nodev1.JailRecord) time.Duration {
	if classes[rec.GetSpec().GetRuntime()].ownKernel {
		return startTimeout
	}
	return dialTimeout
}

// ended reports whether a process is gone or a zombie.
func ended(pid int32) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The name, in parentheses, may hold anything; the state follows it.
	at := bytes.LastIndexByte(raw, ')')
	return at < 0 || bytes.HasPrefix(raw[at:], []byte(") Z")) || bytes.HasPrefix(raw[at:], []byte(") X"))
}
