package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/sdnotify"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/initd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// systemd listens as systemd does and returns what it was told next.
func systemd(t *testing.T, address string) func() string {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func() string {
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
}

// Systemd's watchdog is fed by contact with the hub and by nothing else.
func TestSystemdIsToldHowTheDaemonDoes(t *testing.T) {
	t.Parallel()
	abstract := ident.New("notify")
	for name, address := range map[string]string{"a path": filepath.Join(t.TempDir(), "notify"), "an abstract name": "@" + abstract} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := systemd(t, address)
			n := &notifier{address: address, log: hclog.NewNullLogger()}
			n.ready()
			require.Contains(t, next(), "READY=1")
			n.linked(true)
			require.Equal(t, "STATUS=Linked to the hub", next())
			n.contact()
			n.contact()
			require.Equal(t, "WATCHDOG=1", next())
			n.linked(false)
			require.Contains(t, next(), "No link", "the second contact was within a second of the first")
			n.stopping(0)
			require.Equal(t, sdnotify.StoppingWithin(0), next())
		})
	}
	(&notifier{}).ready() // without systemd nothing is said
}

// A command on the machine has the same ledger, log and end as one in a
// jail, and its whole tree is killed as truthfully.
func TestHostModeHasLedgerLogAndKill(t *testing.T) {
	t.Parallel()
	execs, jails := newExecs(t)
	server := jail.NewServer(jails)
	_, err := server.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{
		Spec: &nodev1.JailSpec{JailId: jail.HostID, Rootfs: nodelink.RootMachine}, HostMode: true,
	})
	require.NoError(t, err)
	start := func(script string) string {
		id := ident.New("step")
		_, err := execs.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
			ExecId: id, JailId: jail.HostID, Argv: []string{"/bin/sh", "-c", script},
			HostLock: &nodev1.HostLock{LockId: "lock_1", Holder: "alice"},
		}})
		require.NoError(t, err)
		return id
	}
	done, err := execs.WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: start("id -u; exit 7")})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, done.GetExec().GetEndReason(), "%v", done)
	require.EqualValues(t, 7, done.GetExec().GetExitCode())
	require.EqualValues(t, 2, done.GetExec().GetLogBytes())

	long := start("setsid sh -c 'sleep 5771 & sleep 5772' & sleep 5773 & wait")
	killed, err := execs.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: long, By: "operator"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, killed.GetExec().GetEndReason(), "%v", killed)
	require.Zero(t, killed.GetExec().GetMembersLeft())
	left, err := jails.Processes(t.Context(), jail.HostID)
	require.NoError(t, err)
	require.NotEmpty(t, left)
	for _, pid := range left {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		require.NoError(t, err)
		require.Contains(t, string(line), initd.HostServe, "init alone, with the stubs that wait in its memory")
	}
}

// The node itself runs nothing on the machine that is under nobody's lock,
// or that its own configuration does not allow, whatever runs there already.
func TestTheMachineIsForThoseWhoHoldItsLock(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	open := jailtest.Manager(t, cfg)
	_, err := open.EnsureHost(t.Context(), &nodev1.JailSpec{JailId: jail.HostID, Rootfs: nodelink.RootMachine})
	require.NoError(t, err)
	inside := jailtest.Spec(ident.New("jail"))
	_, err = open.Ensure(t.Context(), inside)
	require.NoError(t, err)
	execs, book := newExecsOn(t, open)
	start := func(execs *exec.Service, spec *nodev1.ExecSpec) error {
		spec.ExecId, spec.Argv = ident.New("step"), []string{"touch", filepath.Join(cfg.DataDir, "touched")}
		_, err := execs.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
		return fault.FromGRPC(err)
	}
	lock := &nodev1.HostLock{LockId: "lock_1", Holder: "alice"}
	for _, bad := range []*nodev1.HostLock{nil, {}, {LockId: "lock_1"}, {Holder: "alice"}} {
		err = start(execs, &nodev1.ExecSpec{JailId: jail.HostID, HostLock: bad})
		require.True(t, fault.Is(err, fault.Denied), "%v", err)
	}
	err = start(execs, &nodev1.ExecSpec{JailId: inside.GetJailId(), HostLock: lock})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	cfg.NoHostMode = true
	closed, err := jail.NewManager(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closed.Close()) })
	one, err := closed.Get(t.Context(), jail.HostID)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_RUNNING, one.GetState(), "of before")
	shut, _ := newExecsOn(t, closed)
	err = start(shut, &nodev1.ExecSpec{JailId: jail.HostID, HostLock: lock})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	require.ErrorContains(t, err, "--no-host-mode")
	require.NoFileExists(t, filepath.Join(cfg.DataDir, "touched"))

	require.NoError(t, start(execs, &nodev1.ExecSpec{JailId: jail.HostID, HostLock: lock}))
	all, err := book.Execs(t.Context(), jail.HostID, false)
	require.NoError(t, err)
	require.Len(t, all, 1, "nothing that was refused is recorded")
	require.Equal(t, "alice", all[0].GetSpec().GetHostLock().GetHolder())
}

// newExecs is an exec service on real jails and a real ledger.
func newExecs(t *testing.T) (*exec.Service, *jail.Manager) {
	t.Helper()
	jails := jailtest.Manager(t, jailtest.Config(t))
	service, _ := newExecsOn(t, jails)
	return service, jails
}

// newExecsOn is newExecs on jails that there are.
func newExecsOn(t *testing.T, jails *jail.Manager) (*exec.Service, *ledger.Ledger) {
	t.Helper()
	book, err := ledger.Open(ledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	service, err := exec.NewService(exec.Config{Ledger: book, Jails: jails})
	require.NoError(t, err)
	require.NoError(t, service.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(service.Stop)
	return service, book
}

// A drained node makes no new jail, and what works in those that it has
// continues to its end.
func TestADrainedNodeTakesNothingNew(t *testing.T) {
	t.Parallel()
	execs, jails := newExecs(t)
	node := nodeServer{d: &Daemon{cfg: Config{Log: hclog.NewNullLogger()}, jails: jails}}

	spec := jailtest.Spec(ident.New("jail"))
	_, err := jails.Ensure(t.Context(), spec)
	require.NoError(t, err)
	start := func() error {
		_, err := execs.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
			ExecId: ident.New("step"), JailId: spec.GetJailId(), Argv: []string{"true"},
		}})
		return err
	}
	answer, err := node.SetDrain(t.Context(), &nodev1.SetDrainRequest{Draining: true, Reason: "new disks"})
	require.NoError(t, err)
	require.True(t, answer.GetDraining())
	require.NoError(t, start(), "a task in progress goes on")
	other := jailtest.Spec(ident.New("jail"))
	_, err = jails.Ensure(t.Context(), other)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.ErrorContains(t, err, "new disks")
	answer, err = node.SetDrain(t.Context(), &nodev1.SetDrainRequest{})
	require.NoError(t, err)
	require.False(t, answer.GetDraining())
	_, err = jails.Ensure(t.Context(), other)
	require.NoError(t, err)
}
