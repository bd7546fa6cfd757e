package process

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config is what a Process works with.
type Config struct {
	// Command is the program and its arguments before the last one that call RunIfAsked;
	// none for this program, whose main must have called it.
	Command []string
	// Dir is the folder of the proxy's own files, made if it is missing. The folders above
	// it must be searchable by everyone.
	Dir string
	// UID is the user and group that the proxy runs as, which is nobody else's.
	UID uint32
	// Special are the special addresses that jails may reach; see egress.Config.
	Special []netip.Prefix
	Log     hclog.Logger
}

// Argument is the first argument of a program that is to be the proxy.
const Argument = "egress-proxy"

// asked says that RunIfAsked was called.
var asked bool

// RunIfAsked is called first in the main of every program that is a node. If the program was
// started to be the egress proxy of one, it never returns.
func RunIfAsked() {
	asked = true
	if len(os.Args) == 3 && os.Args[1] == Argument {
		os.Exit(Main(os.Args[2]))
	}
}

const (
	// callTimeout bounds a call to the proxy. One that does not answer is killed.
	callTimeout = 1500 * time.Millisecond
	// startTimeout bounds its start.
	startTimeout = 20 * time.Second
)

// settings are what the proxy is started with, as JSON in its last argument.
type settings struct {
	Dir     string         `json:"dir"`
	UID     uint32         `json:"uid"`
	Special []netip.Prefix `json:"special,omitempty"`
}

// Process is the proxy as the daemon sees it. It is a lifecycle.Service, and implements what
// node/jail and node/exec need of the way out of jails.
type Process struct {
	lifecycle.Runner

	cfg Config
	// telling is held for writing while a proxy that was just started is told everything,
	// and for reading while one is told of a change.
	telling sync.RWMutex

	mu    sync.Mutex
	child *child             // the one that runs; nil between two; guarded by mu
	ready chan struct{}      // closed while there is one; guarded by mu
	jails map[string]*served // guarded by mu
	cut   map[string]string  // by jail; guarded by mu
	uses  map[use]toolUse    // guarded by mu
}

type use struct{ jail, exec string }

// toolUse is what makes an exec that of a tool's call; empty for the others.
type toolUse struct{ tool, secret string }

// served is a jail's socket and rules.
type served struct {
	file  *os.File
	rules *nodev1.Egress
	close func()
}

// child is a process that runs.
type child struct {
	cmd     *exec.Cmd
	conn    *grpc.ClientConn
	rights  *net.UnixConn
	proxy   nodev1.EgressProxyServiceClient
	egress  nodev1.EgressServiceClient
	counter atomic.Uint64
	ended   chan struct{}
}

// New creates a Process.
func New(cfg Config) (*Process, error) {
	if cfg.Dir == "" || cfg.UID == 0 {
		return nil, errors.New("egress proxy: a folder and a user id other than 0 are needed")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if len(cfg.Command) == 0 {
		if !asked {
			return nil, errors.New("egress proxy: this program's main does not call RunIfAsked, and no other program is configured")
		}
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program, which is the egress proxy too: %w", err)
		}
		cfg.Command = []string{own}
	}
	return &Process{cfg: cfg, ready: make(chan struct{}), jails: map[string]*served{}, cut: map[string]string{}, uses: map[use]toolUse{}}, nil
}

// Start starts the proxy and returns once it serves.
func (p *Process) Start(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the egress proxy: %w", err)
	}
	if err := errors.Join(os.Chmod(p.cfg.Dir, 0o700), os.Chown(p.cfg.Dir, int(p.cfg.UID), int(p.cfg.UID))); err != nil {
		return fmt.Errorf("make the folder of the egress proxy: %w", err)
	}
	first, err := p.launch(ctx)
	if err != nil {
		return err
	}
	return p.Run(ctx, func(ctx context.Context) error { return p.keep(ctx, first) })
}

// keep starts the proxy again whenever it has ended.
func (p *Process) keep(ctx context.Context, running *child) error {
	defer p.forgetAll()
	for failures := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			running.end()
			return nil
		case <-running.ended:
		}
		p.set(nil)
		p.cfg.Log.Error("the egress proxy ended; starting it again", "state", running.cmd.ProcessState.String())
		if time.Since(began) > time.Minute {
			failures = 0
		}
		for {
			if failures++; failures > 1 {
				if backoff.Wait(ctx, backoff.Policy{}.Delay(failures-1)) != nil {
					return nil
				}
			}
			var err error
			if running, err = p.launch(ctx); err == nil {
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			p.cfg.Log.Error("cannot start the egress proxy; nothing leaves the jails", "error", err)
		}
	}
}

// launch starts a process, tells it everything, and puts it into use.
func (p *Process) launch(ctx context.Context) (*child, error) {
	c, err := start(ctx, p.cfg)
	if err != nil {
		return nil, fmt.Errorf("start the egress proxy: %w", err)
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	jails, cut, uses := maps.Clone(p.jails), maps.Clone(p.cut), maps.Clone(p.uses)
	p.mu.Unlock()
	// Whoever wants to cut a jail off waits for this: a proxy that is slow is killed instead.
	slow := time.AfterFunc(callTimeout, func() { _ = c.cmd.Process.Kill() })
	defer slow.Stop()
	for id, why := range cut {
		err = errors.Join(err, c.cutJail(id, why))
	}
	for u, of := range uses {
		err = errors.Join(err, c.beginUse(u, of))
	}
	for id, s := range jails {
		if err == nil {
			err = c.serveJail(id, s)
		}
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("tell the egress proxy about the jails: %w", err)
	}
	p.set(c)
	return c, nil
}

// set puts a process into use; nil for none.
func (p *Process) set(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child = c
	select {
	case <-p.ready:
		if c == nil {
			p.ready = make(chan struct{})
		}
	default:
		if c != nil {
			close(p.ready)
		}
	}
}

// forgetAll closes the sockets of all jails.
func (p *Process) forgetAll() {
	p.mu.Lock()
	left := p.jails
	p.jails, p.child = map[string]*served{}, nil
	p.mu.Unlock()
	for _, s := range left {
		s.close()
	}
}

// start runs a process and connects with it.
func start(ctx context.Context, cfg Config) (_ *child, err error) {
	control, theirs, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	defer func() {
		if err != nil {
			_ = control.Close()
		}
	}()
	rights, theirRights, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer theirRights.Close()
	defer func() {
		if err != nil {
			_ = rights.Close()
		}
	}()
	text, err := json.Marshal(settings{Dir: cfg.Dir, UID: cfg.UID, Special: cfg.Special})
	if err != nil {
		return nil, err
	}
	logs, theirLogs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirLogs.Close()
	cmd := exec.Command(cfg.Command[0], append(slices.Clone(cfg.Command[1:]), Argument, string(text))...) //nolint:gosec,noctx // it ends with its socket
	cmd.ExtraFiles = []*os.File{theirs, theirRights}
	cmd.Stderr = theirLogs
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	c := &child{cmd: cmd, rights: rights, ended: make(chan struct{})}
	go passLogs(logs, cfg.Log)
	go func() {
		_ = cmd.Wait()
		_, _ = control.Close(), rights.Close()
		close(c.ended)
	}()
	takeover := time.AfterFunc(takeoverAfter, func() {
		if err := endOthers(cfg, cmd.Process.Pid); err != nil {
			cfg.Log.Error("cannot take over from the egress proxy before", "error", err)
		}
	})
	defer takeover.Stop()
	if err = c.connect(ctx, control); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// environment returns the variables that the proxy gets: those that say which certificates
// it trusts and how Go resolves names, and no others.
func environment() (out []string) {
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "TZ", "PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// connect waits until the process serves.
func (c *child) connect(ctx context.Context, control *net.UnixConn) (err error) {
	var dialled atomic.Bool
	c.conn, err = grpc.NewClient("passthrough:///egress-proxy",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if dialled.Swap(true) {
				return nil, errors.New("the egress proxy has ended")
			}
			return control, nil
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(nodelink.MaxMessageBytes), grpc.MaxCallSendMsgSize(nodelink.MaxMessageBytes)))
	if err != nil {
		return err
	}
	c.proxy, c.egress = nodev1.NewEgressProxyServiceClient(c.conn), nodev1.NewEgressServiceClient(c.conn)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// A jail that there is not.
	if _, err := c.proxy.ResumeJail(ctx, &nodev1.ResumeJailRequest{JailId: "none"}); err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return nil
}

// end kills the process and waits for it.
func (c *child) end() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// passLogs writes what the process says into the daemon's log.
func passLogs(from io.ReadCloser, log hclog.Logger) {
	defer from.Close()
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			var entry map[string]any
			if json.Unmarshal(line, &entry) != nil {
				log.Error("the egress proxy said", "text", string(line))
			} else {
				passLine(entry, log)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func passLine(entry map[string]any, log hclog.Logger) {
	level, _ := entry["@level"].(string)
	message, _ := entry["@message"].(string)
	var args []any
	for name, value := range entry {
		if name == "" || name[0] != '@' {
			args = append(args, name, value)
		}
	}
	log.Log(hclog.LevelFromString(level), message, args...)
}

// pair returns two connected sockets: one for this process, one for the other.
func pair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	own, theirs := os.NewFile(uintptr(fds[0]), "egress"), os.NewFile(uintptr(fds[1]), "egress")
	defer own.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.Join(errors.New("not a Unix socket"), conn.Close(), theirs.Close())
	}
	return c, theirs, nil
}

// call makes a call with a time limit. A process that does not answer in time is killed:
// what it would let out cannot be said.
func (c *child) call(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := do(ctx)
	if ctx.Err() != nil {
		_ = c.cmd.Process.Kill()
	}
	return fault.FromGRPC(err)
}

func (c *child) serveJail(id string, s *served) error {
	number := c.counter.Add(1)
	if err := c.send(number, s.file); err != nil {
		return err
	}
	return c.call(func(ctx context.Context) error {
		_, err := c.proxy.ServeJail(ctx, &nodev1.ServeJailRequest{JailId: id, Egress: s.rules, Listener: number})
		return err
	})
}

func (c *child) cutJail(id, why string) error {
	return c.call(func(ctx context.Context) error {
		_, err := c.proxy.CutJail(ctx, &nodev1.CutJailRequest{JailId: id, Reason: why})
		return err
	})
}

func (c *child) beginUse(u use, of toolUse) error {
	return c.call(func(ctx context.Context) error {
		_, err := c.proxy.BeginUse(ctx, &nodev1.BeginUseRequest{JailId: u.jail, ExecId: u.exec, Tool: of.tool, Secret: of.secret})
		return err
	})
}

// send sends a socket to the process.
func (c *child) send(number uint64, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	text := binary.BigEndian.AppendUint64(nil, number)
	var sent error
	if err := raw.Control(func(fd uintptr) {
		_, _, sent = c.rights.WriteMsgUnix(text, unix.UnixRights(int(fd)), nil)
	}); err != nil {
		return err
	}
	return sent
}

// socketsDir is the folder of sockets that the daemon makes for jails that have none.
func (p *Process) socketsDir() string { return p.cfg.Dir + "-sockets" }
