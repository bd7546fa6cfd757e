package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(envDaemon); text != "" {
		daemon(text)
	}
	code := jailtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// node is a daemon's core over real gRPC. stop is what the death of a daemon
// leaves: everything on disk, and nothing in memory.
type node struct {
	tb  testing.TB
	cfg jail.Config
	// runtime is that of the jails whose specs name none.
	runtime string
	boot    string
	egress  *egress.Proxy // nil for none
	change  func(*exec.Config)
	now     func() time.Time // the daemon's clock; nil for the machine's
	jails   *jail.Manager
	ledger  *ledger.Ledger
	svc     *exec.Service
	api     nodev1.ExecServiceClient
	jail    nodev1.JailServiceClient
	undo    []func()
}

func newNode(tb testing.TB, change ...func(*exec.Config)) *node {
	tb.Helper()
	n := prepared(tb)
	if len(change) > 0 {
		n.change = change[0]
	}
	n.start()
	return n
}

// onRuntimes runs a test with runc and with gVisor, where that is installed.
func onRuntimes(t *testing.T, test func(t *testing.T, runtime string)) {
	t.Helper()
	for _, runtime := range []string{"runc", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := osexec.LookPath(runtime); err != nil {
				t.Skip("it is not installed: apt-get install " + runtime)
			}
			test(t, runtime)
		})
	}
}

// on sets the runtime of the jails whose specs name none.
func (n *node) on(runtime string) *node {
	n.runtime = runtime
	return n
}

// prepared returns a node that is not started.
func prepared(tb testing.TB) *node {
	tb.Helper()
	n := &node{tb: tb, cfg: jailtest.Config(tb)}
	tb.Cleanup(func() {
		n.stop()
		n.cfg.Reserve = nil
		jailtest.RemoveAll(tb, n.cfg)
	})
	return n
}

func (n *node) start() {
	n.tb.Helper()
	if testing.Verbose() {
		n.cfg.Log = hclog.New(&hclog.LoggerOptions{Name: "node", Level: hclog.Info})
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.undo = append(n.undo, cancel)
	var err error
	n.ledger, err = ledger.Open(ledger.Config{Path: filepath.Join(n.cfg.DataDir, "ledger.db"), BootID: n.boot, Now: n.now})
	require.NoError(n.tb, err)
	n.undo = append(n.undo, func() { require.NoError(n.tb, n.ledger.Close()) })
	n.cfg.Reserve, n.cfg.Now = n.ledger, n.now
	n.jails, err = jail.NewManager(ctx, n.cfg)
	require.NoError(n.tb, err)
	n.undo = append(n.undo, func() { _ = n.jails.Close() })
	cfg := exec.Config{Ledger: n.ledger, Jails: n.jails, Log: n.cfg.Log}
	if n.change != nil {
		n.change(&cfg)
	}
	n.svc, err = exec.NewService(cfg)
	require.NoError(n.tb, err)
	require.NoError(n.tb, n.svc.Start(ctx))
	n.undo = append(n.undo, n.svc.Stop)

	listener, err := net.Listen("unix", filepath.Join(n.cfg.DataDir, "api.sock"))
	require.NoError(n.tb, err)
	server := grpc.NewServer()
	nodev1.RegisterExecServiceServer(server, n.svc)
	nodev1.RegisterJailServiceServer(server, jail.NewServer(n.jails))
	go func() { _ = server.Serve(listener) }()
	n.undo = append(n.undo, server.Stop)
	conn, err := grpc.NewClient("unix://"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(n.tb, err)
	n.undo = append(n.undo, func() { _ = conn.Close() })
	n.api, n.jail = nodev1.NewExecServiceClient(conn), nodev1.NewJailServiceClient(conn)
}

func (n *node) stop() {
	for i := len(n.undo) - 1; i >= 0; i-- {
		n.undo[i]()
	}
	n.undo = nil
}

// ensure makes a jail and returns its id.
func (n *node) ensure(change ...func(*nodev1.JailSpec)) string {
	n.tb.Helper()
	spec := jailtest.Spec(ident.New("jail"))
	if n.runtime != "" {
		spec.Runtime = n.runtime
	}
	for _, fn := range change {
		fn(spec)
	}
	_, err := n.jail.EnsureJail(n.tb.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(n.tb, err)
	return spec.GetJailId()
}

func command(jailID string, argv ...string) *nodev1.ExecSpec {
	return &nodev1.ExecSpec{ExecId: ident.New("step"), JailId: jailID, Argv: argv}
}

func shell(jailID, script string) *nodev1.ExecSpec { return command(jailID, "/bin/sh", "-c", script) }

func (n *node) startExec(spec *nodev1.ExecSpec) *nodev1.Exec {
	n.tb.Helper()
	resp, err := n.api.StartExec(n.tb.Context(), &nodev1.StartExecRequest{Spec: spec})
	require.NoError(n.tb, err)
	return resp.GetExec()
}

func (n *node) wait(id string) *nodev1.Exec {
	n.tb.Helper()
	resp, err := n.api.WaitExec(n.tb.Context(), &nodev1.WaitExecRequest{ExecId: id, Timeout: durationpb.New(time.Minute)})
	require.NoError(n.tb, err)
	require.Equal(n.tb, nodev1.ExecState_EXEC_STATE_ENDED, resp.GetExec().GetState(), "it has not ended: %v", resp.GetExec())
	return resp.GetExec()
}

// run runs a command to its end and returns it with its output.
func (n *node) run(spec *nodev1.ExecSpec) (*nodev1.Exec, string) {
	n.tb.Helper()
	n.startExec(spec)
	out := n.wait(spec.GetExecId())
	return out, string(n.log(spec.GetExecId(), false)[0])
}

// sh runs a script to its end and returns its exit code and whole output.
func (n *node) sh(jailID, script string) (int32, string) {
	n.tb.Helper()
	out, text := n.run(shell(jailID, script))
	return out.GetExitCode(), text
}

// log returns an exec's output: all of it, then stdout, then stderr.
func (n *node) log(id string, follow bool) [3][]byte {
	n.tb.Helper()
	stream, err := n.api.ReadLog(n.tb.Context(), &nodev1.ReadLogRequest{ExecId: id, Follow: follow})
	require.NoError(n.tb, err)
	var out [4]bytes.Buffer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(n.tb, err)
		require.EqualValues(n.tb, out[0].Len(), part.GetOffset(), "a byte was left out or came twice")
		out[0].Write(part.GetData())
		if at := int(part.GetStream()); at > 0 {
			out[at].Write(part.GetData())
		}
	}
	return [3][]byte{out[0].Bytes(), out[1].Bytes(), out[2].Bytes()}
}

// oneCommand skips a test in the run with the race detector: one command follows the
// other in it, so that it has no race to find, and each takes several times as long there.
func oneCommand(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("commands run one after the other: there is no race in it")
	}
}

func requireFault(tb testing.TB, err error, kind fault.Kind, says string) {
	tb.Helper()
	require.Error(tb, err)
	e := fault.As(fault.FromGRPC(err))
	require.NotNil(tb, e, "%v", err)
	require.Equal(tb, kind, e.Kind, "%v", e)
	require.Contains(tb, e.Error(), says)
}

// until reads an exec's log until it holds a text.
func (n *node) until(id, text string) {
	n.tb.Helper()
	ctx, cancel := context.WithTimeout(n.tb.Context(), time.Minute)
	defer cancel()
	stream, err := n.api.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: id, Follow: true})
	require.NoError(n.tb, err)
	var all bytes.Buffer
	for !strings.Contains(all.String(), text) {
		part, err := stream.Recv()
		require.NoError(n.tb, err, "the log is %q", all.String())
		all.Write(part.GetData())
	}
}

// eventually waits for something that only the kernel knows.
func (n *node) eventually(is func() bool, what string) {
	n.tb.Helper()
	require.Eventually(n.tb, is, waittest.Limit(time.Minute), 10*time.Millisecond, "there never were %s", what)
}

// processes counts the processes of a jail with a command line: from the host, unless
// the jail has a kernel of its own.
func (n *node) processes(jailID, cmdline string) int {
	n.tb.Helper()
	if jailtest.OwnKernel() {
		_, out := n.sh(jailID, `for p in /proc/[0-9]*; do { tr '\0' ' ' <$p/cmdline; } 2>/dev/null; echo; done | grep -cx '`+cmdline+` *'`)
		count, err := strconv.Atoi(strings.TrimSpace(out))
		require.NoError(n.tb, err)
		return count
	}
	one, err := n.jails.Get(n.tb.Context(), jailID)
	require.NoError(n.tb, err)
	inside, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", one.GetPid()))
	require.NoError(n.tb, err)
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(n.tb, err)
	count := 0
	for _, proc := range all {
		raw, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil || strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " ") != cmdline {
			continue
		}
		if ns, err := os.Readlink(filepath.Join(proc, "ns/pid")); err == nil && ns == inside {
			count++
		}
	}
	return count
}

// touch makes a file in a jail's workspace, from the host.
func (n *node) touch(jailID, name string) {
	n.tb.Helper()
	dir, err := n.jails.Workspace(jailID)
	require.NoError(n.tb, err)
	require.NoError(n.tb, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
}
