package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/ledger"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// nodeRig is a node's core behind real gRPC, and a containerd that it shares
// with the peer.
type nodeRig struct {
	dir        string
	containerd *containerd.Daemon
	egress     *egress.Proxy
	jails      *jail.Manager
	snapshots  *snapshot.Service
	ledger     *ledger.Ledger
	namespace  string // containerd's, for our jails
	change     func(*jail.Config)
	exec       nodev1.ExecServiceClient
	undo       []func() error
	// letGo closes the ledger and the records of workspaces, so that another
	// process may open them.
	letGo func() error
}

func newMachine(ctx context.Context) (*nodeRig, error) {
	return newMachineWith(ctx, func(*jail.Config) {})
}

// newMachineWith is newMachine with another configuration of its jails.
func newMachineWith(ctx context.Context, change func(*jail.Config)) (_ *nodeRig, err error) {
	m := &nodeRig{change: change, namespace: strings.ReplaceAll(ident.New("bench"), "_", "-")}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.dir, err = os.MkdirTemp("", "deckhand-bench-"); err != nil {
		return nil, err
	}
	m.later(func() error { return os.RemoveAll(m.dir) })
	if err := os.Chmod(m.dir, 0o711); err != nil { //nolint:gosec // jails pass through it
		return nil, err
	}
	if m.containerd, err = (containerd.Config{DataDir: filepath.Join(m.dir, "containerd")}).Complete(ctx); err != nil {
		return nil, err
	}
	if err := m.containerd.Start(ctx); err != nil {
		return nil, err
	}
	m.later(func() error { m.containerd.Stop(); return nil })
	m.egress = egress.New(egress.Config{Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err := m.egress.Start(ctx); err != nil {
		return nil, err
	}
	m.later(func() error { m.egress.Stop(); return nil })
	if m.jails, err = jail.NewManager(ctx, m.jailConfig()); err != nil {
		return nil, err
	}
	m.later(m.jails.Close)
	m.later(func() error { return m.removeJails(context.WithoutCancel(ctx)) })
	l, err := ledger.Open(ledger.Config{Path: filepath.Join(m.dir, "node", "ledger.db")})
	if err != nil {
		return nil, err
	}
	m.ledger = l
	if m.snapshots, err = snapshot.New(snapshot.Config{Jails: m.jails, Dir: filepath.Join(m.dir, "node", "jails")}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := m.snapshots.Start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	service, err := exec.NewService(exec.Config{Ledger: l, Jails: m.jails, Workspaces: m.snapshots, Egress: m.egress})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	m.letGo = sync.OnceValue(func() error {
		service.Stop()
		m.snapshots.Stop()
		return l.Close()
	})
	m.later(m.letGo)
	if err := service.Start(ctx); err != nil {
		return nil, err
	}
	return m, m.serve(ctx, service)
}

func (m *nodeRig) jailConfig() jail.Config {
	cfg := jail.Config{DataDir: filepath.Join(m.dir, "node"), Containerd: m.containerd.Address(), Namespace: m.namespace, Egress: m.egress}
	m.change(&cfg)
	return cfg
}

// serve puts the service behind gRPC on a Unix socket.
func (m *nodeRig) serve(ctx context.Context, service nodev1.ExecServiceServer) error {
	var lc net.ListenConfig
	socket := filepath.Join(m.dir, "api.sock")
	listener, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	nodev1.RegisterExecServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	m.later(func() error { server.Stop(); return nil })
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	m.later(conn.Close)
	m.exec = nodev1.NewExecServiceClient(conn)
	return nil
}

func (m *nodeRig) later(fn func() error) { m.undo = append(m.undo, fn) }

// close undoes everything in reverse order.
func (m *nodeRig) close() error {
	var errs []error
	for _, fn := range slices.Backward(m.undo) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

func (m *nodeRig) removeJails(ctx context.Context) error {
	all, err := m.jails.List(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := m.jails.Remove(ctx, one.GetJailId()); err != nil {
			return err
		}
	}
	return nil
}

// jail makes a jail with the defaults but a small workspace.
func (m *nodeRig) jail(ctx context.Context) (string, error) {
	id := ident.New("jail")
	_, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: "host", WorkspaceBytes: 1 << 30})
	return id, err
}

// run runs a command in a jail to its end.
func (m *nodeRig) run(ctx context.Context, jailID string, argv ...string) (*nodev1.Exec, error) {
	return m.runSpec(ctx, &nodev1.ExecSpec{
		ExecId: ident.New("step"), JailId: jailID, Argv: argv, Timeout: durationpb.New(10 * time.Minute),
	})
}

func (m *nodeRig) runSpec(ctx context.Context, spec *nodev1.ExecSpec) (*nodev1.Exec, error) {
	id, argv := spec.GetExecId(), spec.GetArgv()
	if _, err := m.exec.StartExec(ctx, &nodev1.StartExecRequest{Spec: spec}); err != nil {
		return nil, err
	}
	for {
		res, err := m.exec.WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: id, Timeout: durationpb.New(time.Minute)})
		if err != nil {
			return nil, err
		}
		if e := res.GetExec(); e.GetState() == nodev1.ExecState_EXEC_STATE_ENDED {
			if e.GetEndReason() != nodev1.EndReason_END_REASON_EXITED || e.GetExitCode() != 0 {
				return nil, fmt.Errorf("%v ended with %s %d", argv, e.GetEndReason(), e.GetExitCode())
			}
			return e, nil
		}
	}
}

// peer is a container of containerd's own, without user namespace, workspace or
// init of ours.
type peer struct {
	client    *client.Client
	task      client.Task
	namespace string
	patience  time.Duration // how long one command may take
}

func (m *nodeRig) peer(ctx context.Context) (_ *peer, err error) {
	// runc keeps its containers by namespace, over all containerds.
	p := &peer{namespace: strings.ReplaceAll(ident.New("peer"), "_", "-"), patience: time.Minute}
	ctx = namespaces.WithNamespace(ctx, p.namespace)
	if p.client, err = client.New(m.containerd.Address()); err != nil {
		return nil, err
	}
	m.later(p.client.Close)
	root, err := m.peerRoot()
	if err != nil {
		return nil, err
	}
	container, err := p.client.NewContainer(ctx, "peer", client.WithNewSpec(
		oci.WithDefaultSpecForPlatform("linux/amd64"), oci.WithRootFSPath(root), oci.WithRootFSReadonly(),
		oci.WithProcessArgs("/usr/bin/sleep", "1000000"), oci.WithMounts(peerMounts()),
	))
	if err != nil {
		return nil, err
	}
	m.later(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
		defer cancel()
		return container.Delete(ctx)
	})
	if p.task, err = container.NewTask(ctx, cio.NullIO); err != nil {
		return nil, err
	}
	m.later(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
		defer cancel()
		_, err := p.task.Delete(ctx, client.WithProcessKill)
		return err
	})
	return p, p.task.Start(ctx)
}

// peerRoot makes a root whose programs are the machine's.
func (m *nodeRig) peerRoot() (string, error) {
	root := filepath.Join(m.dir, "peer")
	for _, dir := range []string{"usr", "proc", "dev", "sys", "run", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // a root file system
			return "", err
		}
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return root, nil
}

func peerMounts() []specs.Mount {
	return []specs.Mount{{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"rbind", "ro"}}}
}

// run runs a command by containerd's task.Exec to its end.
func (p *peer) run(ctx context.Context, argv ...string) error {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, p.namespace), p.patience)
	defer cancel()
	process, err := p.task.Exec(ctx, ident.New("exec"), &specs.Process{Args: argv, Cwd: "/", Env: []string{"PATH=/usr/bin"}}, cio.NullIO)
	if err != nil {
		return err
	}
	exited, err := process.Wait(ctx)
	if err != nil {
		return err
	}
	if err := process.Start(ctx); err != nil {
		return err
	}
	var status client.ExitStatus
	select {
	case status = <-exited:
	case <-ctx.Done():
		return fmt.Errorf("%v did not end within %s", argv, p.patience)
	}
	if status.ExitCode() != 0 || status.Error() != nil {
		return fmt.Errorf("%v ended with %d: %w", argv, status.ExitCode(), status.Error())
	}
	_, err = process.Delete(ctx)
	return err
}
