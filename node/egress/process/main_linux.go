package process

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/egress/hublink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The files that the proxy is started with.
const (
	controlFD = 3
	rightsFD  = 4
)

// journalFile has the records that the hub does not have yet.
const journalFile = "requests.jsonl"

// spoolFolder has the packs of pushes while they are judged. Their files have no names, so
// that what a process before has left there is of the moment between two calls.
const spoolFolder = "spool"

// emptyFolder makes a folder and removes what is in it.
func emptyFolder(path string) (string, error) {
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("empty the folder of packs: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of packs: %w", err)
	}
	return path, nil
}

// Main is the proxy. It ends with the daemon, and returns the status to exit with. text is
// its argument, from the daemon.
func Main(text string) int {
	log := hclog.New(&hclog.LoggerOptions{Name: "egress", JSONFormat: true, Output: os.Stderr, Level: hclog.Debug, DisableTime: true})
	if err := run(text, log); err != nil {
		log.Error("the egress proxy cannot go on", "error", err)
		return 1
	}
	return 0
}

func run(text string, log hclog.Logger) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("this is a part of the node daemon, which starts it: %w", err)
	}
	control, err := socket(controlFD)
	if err != nil {
		return err
	}
	rights, err := socket(rightsFD)
	if err != nil {
		return err
	}
	if err := confine(s.UID); err != nil {
		return fmt.Errorf("give up the rights of root: %w", err)
	}
	link := hublink.New()
	journal, err := hublink.OpenJournal(filepath.Join(s.Dir, journalFile), link.Store, log.Named("records"))
	if err != nil {
		return err
	}
	defer journal.Close()
	spool, err := emptyFolder(filepath.Join(s.Dir, spoolFolder))
	if err != nil {
		return err
	}
	proxy := egress.New(egress.Config{Special: s.Special, Hub: link, Recorder: journal, SpoolDir: spool, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := proxy.Start(ctx); err != nil {
		return err
	}
	defer proxy.Stop()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	parts.Go(func() { journal.Send(ctx) })
	face := &face{proxy: proxy, link: link, sockets: map[uint64]*os.File{}, arrived: make(chan struct{})}
	go face.receive(rights)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(nodelink.MaxMessageBytes), grpc.MaxSendMsgSize(nodelink.MaxMessageBytes))
	nodev1.RegisterEgressProxyServiceServer(server, face)
	nodev1.RegisterEgressServiceServer(server, egressFace{face: face})
	ended := make(chan struct{})
	go func() {
		<-ended
		server.Stop()
	}()
	return server.Serve(&oneListener{conn: &endingConn{Conn: control, ended: ended}, ended: ended})
}

// socket returns a socket that the process was started with.
func socket(fd uintptr) (*net.UnixConn, error) {
	file := os.NewFile(fd, "socket")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("this is a part of the node daemon, which starts it: %w", err)
	}
	out, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	return out, nil
}

// endingConn is the connection to the daemon, with which everything ends.
type endingConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// Close implements net.Conn.
func (e *endingConn) Close() error {
	e.once.Do(func() { close(e.ended) })
	return e.Conn.Close()
}

// oneListener returns one connection, and ends with it.
type oneListener struct {
	conn  net.Conn
	taken bool
	ended <-chan struct{}
}

// Accept implements net.Listener.
func (o *oneListener) Accept() (net.Conn, error) {
	if !o.taken {
		o.taken = true
		return o.conn, nil
	}
	<-o.ended
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (o *oneListener) Close() error { return nil }

// Addr implements net.Listener.
func (o *oneListener) Addr() net.Addr { return o.conn.LocalAddr() }

// face is what the daemon calls.
type face struct {
	nodev1.UnimplementedEgressProxyServiceServer

	proxy *egress.Proxy
	link  *hublink.Link

	mu      sync.Mutex
	sockets map[uint64]*os.File // that have arrived and are not used yet; guarded by mu
	arrived chan struct{}       // closed when one arrives; guarded by mu
}

// receive takes the sockets that the daemon sends.
func (f *face) receive(from *net.UnixConn) {
	text, rights := make([]byte, 8), make([]byte, unix.CmsgSpace(4))
	for {
		n, m, _, _, err := from.ReadMsgUnix(text, rights)
		if err != nil || n == 0 {
			return
		}
		messages, err := unix.ParseSocketControlMessage(rights[:m])
		if err != nil || len(messages) != 1 || n != len(text) {
			continue
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			continue
		}
		unix.CloseOnExec(fds[0])
		f.mu.Lock()
		f.sockets[binary.BigEndian.Uint64(text)] = os.NewFile(uintptr(fds[0]), "jail")
		close(f.arrived)
		f.arrived = make(chan struct{})
		f.mu.Unlock()
	}
}

// listener returns the listener of a socket that was sent.
func (f *face) listener(ctx context.Context, number uint64) (net.Listener, error) {
	file, err := f.socket(ctx, number)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// connection returns the connection of a socket that was sent.
func (f *face) connection(ctx context.Context, number uint64) (net.Conn, error) {
	file, err := f.socket(ctx, number)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileConn(file)
}

// socket returns a socket that was sent, which may arrive after what is said of it.
func (f *face) socket(ctx context.Context, number uint64) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		f.mu.Lock()
		file, arrived := f.sockets[number], f.arrived
		delete(f.sockets, number)
		f.mu.Unlock()
		if file != nil {
			return file, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, fault.New(fault.Invalid, "the socket %d was not sent", number)
		}
	}
}

// ServeJail implements the service.
func (f *face) ServeJail(ctx context.Context, req *nodev1.ServeJailRequest) (*nodev1.ServeJailResponse, error) {
	l, err := f.listener(ctx, req.GetListener())
	if err == nil {
		err = f.proxy.Serve(req.GetJailId(), l, req.GetEgress())
	}
	return &nodev1.ServeJailResponse{}, fault.ToGRPC(err)
}

// ChangeJail implements the service.
func (f *face) ChangeJail(_ context.Context, req *nodev1.ChangeJailRequest) (*nodev1.ChangeJailResponse, error) {
	return &nodev1.ChangeJailResponse{}, fault.ToGRPC(f.proxy.Change(req.GetJailId(), req.GetEgress()))
}

// CutJail implements the service.
func (f *face) CutJail(_ context.Context, req *nodev1.CutJailRequest) (*nodev1.CutJailResponse, error) {
	f.proxy.Cut(req.GetJailId(), req.GetReason())
	return &nodev1.CutJailResponse{}, nil
}

// ResumeJail implements the service.
func (f *face) ResumeJail(_ context.Context, req *nodev1.ResumeJailRequest) (*nodev1.ResumeJailResponse, error) {
	f.proxy.Resume(req.GetJailId())
	return &nodev1.ResumeJailResponse{}, nil
}

// LeaveJail implements the service.
func (f *face) LeaveJail(_ context.Context, req *nodev1.LeaveJailRequest) (*nodev1.LeaveJailResponse, error) {
	f.proxy.Leave(req.GetJailId())
	return &nodev1.LeaveJailResponse{}, nil
}

// BeginUse implements the service.
func (f *face) BeginUse(_ context.Context, req *nodev1.BeginUseRequest) (*nodev1.BeginUseResponse, error) {
	f.proxy.BeginTool(req.GetJailId(), req.GetExecId(), req.GetTool(), req.GetSecret())
	return &nodev1.BeginUseResponse{}, nil
}

// EndUse implements the service.
func (f *face) EndUse(_ context.Context, req *nodev1.EndUseRequest) (*nodev1.EndUseResponse, error) {
	return &nodev1.EndUseResponse{Use: f.proxy.End(req.GetJailId(), req.GetExecId())}, nil
}

// OpenTunnel implements the service.
func (f *face) OpenTunnel(ctx context.Context, req *nodev1.OpenTunnelRequest) (*nodev1.OpenTunnelResponse, error) {
	hub, err := f.connection(ctx, req.GetSocket())
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	up, err := f.proxy.Tunnel(ctx, req.GetOpen())
	if err != nil {
		_ = hub.Close()
		return nil, fault.ToGRPC(err)
	}
	go egress.Join(up, hub)
	return &nodev1.OpenTunnelResponse{}, nil
}

// OpenChannel implements the service.
func (f *face) OpenChannel(ctx context.Context, req *nodev1.OpenChannelRequest) (*nodev1.OpenChannelResponse, error) {
	hub, err := f.connection(ctx, req.GetSocket())
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	// What the hub has ended meanwhile is not known here: requests ask again.
	f.proxy.ForgetTokens()
	go func() { _ = f.link.Serve(context.WithoutCancel(ctx), hub) }() // until the daemon or the next one ends it
	return &nodev1.OpenChannelResponse{}, nil
}

// egressFace is what the hub calls of the proxy.
type egressFace struct {
	nodev1.UnimplementedEgressServiceServer
	face *face
}

// EndCredential implements the service.
func (e egressFace) EndCredential(_ context.Context, req *nodev1.EndCredentialRequest) (*nodev1.EndCredentialResponse, error) {
	e.face.proxy.EndCredential(req.GetJailId(), req.GetCredential())
	return &nodev1.EndCredentialResponse{}, nil
}
