package initd_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/initd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }

// start makes a jail and returns the connection to its init.
func start(t *testing.T) (*jail.Manager, *jail.Init, string) {
	t.Helper()
	m := jailtest.Manager(t, jailtest.Config(t))
	spec := jailtest.Spec(ident.New("jail"))
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	init, err := m.Init(t.Context(), spec.GetJailId())
	require.NoError(t, err)
	return m, init, spec.GetJailId()
}

func request(script string) *initv1.StartRequest {
	return &initv1.StartRequest{ExecId: ident.New("step"), Argv: []string{"/bin/sh", "-c", script}, Uid: 1000, Gid: 1000}
}

func TestAnIdThatWasStartedIsNeverSpawnedAgain(t *testing.T) {
	t.Parallel()
	m, init, id := start(t)
	req := request("echo ran >> counter; sleep 1000")
	first, err := init.Start(t.Context(), req)
	require.NoError(t, err)
	require.False(t, first.GetExisted())
	again, err := init.Start(t.Context(), req)
	require.NoError(t, err)
	require.True(t, again.GetExisted())
	require.Equal(t, first.GetStatus().GetPid(), again.GetStatus().GetPid())

	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(int(one.GetPid()), unix.SIGKILL))
	<-init.Closed
	_, err = m.Ensure(t.Context(), jailtest.Spec(id))
	require.NoError(t, err)
	next, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	require.NotEqual(t, init.Instance, next.Instance)
	_, err = next.Start(t.Context(), req)
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	_, err = next.Wait(t.Context(), &initv1.WaitRequest{ExecId: req.GetExecId()})
	require.Equal(t, codes.NotFound, status.Code(err), "%v", err)
}

func TestRequestsThatInitRefuses(t *testing.T) {
	t.Parallel()
	_, init, _ := start(t)
	for name, change := range map[string]func(*initv1.StartRequest){
		"an id that leaves its folder": func(r *initv1.StartRequest) { r.ExecId = "../x" },
		"no program":                   func(r *initv1.StartRequest) { r.Argv = nil },
		"root":                         func(r *initv1.StartRequest) { r.Uid = 0 },
		"root's group":                 func(r *initv1.StartRequest) { r.Gid = 0 },
	} {
		req := request("true")
		change(req)
		_, err := init.Start(t.Context(), req)
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%s: %v", name, err)
	}
	info, err := init.Info(t.Context(), &initv1.InfoRequest{})
	require.NoError(t, err)
	require.EqualValues(t, initd.Protocol, info.GetProtocol())
}

// The kernel may choose a stub when memory is short. What it kept together is
// ended then: nothing of an exec that is over continues unseen.
func TestTheDeathOfAStubEndsItsTree(t *testing.T) {
	t.Parallel()
	m, init, id := start(t)
	bystander := request("sleep 1111")
	_, err := init.Start(t.Context(), bystander)
	require.NoError(t, err)
	req := request("(setsid sleep 2222 &) ; sleep 2222")
	_, err = init.Start(t.Context(), req)
	require.NoError(t, err)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	stub := stubOf(t, int(one.GetPid()), "sleep\x002222\x00")
	require.NoError(t, unix.Kill(stub, unix.SIGKILL))
	resp, err := init.Wait(t.Context(), &initv1.WaitRequest{ExecId: req.GetExecId(), TimeoutMs: 20_000})
	require.NoError(t, err)
	require.True(t, resp.GetStatus().GetEnded())
	require.Zero(t, resp.GetStatus().GetMembersLeft())
	require.EqualValues(t, unix.SIGKILL, resp.GetStatus().GetSignal())
	resp, err = init.Wait(t.Context(), &initv1.WaitRequest{ExecId: bystander.GetExecId(), TimeoutMs: -1})
	require.NoError(t, err)
	require.False(t, resp.GetStatus().GetEnded())
}

// Stubs wait for commands, and one that was killed in the meantime is given
// none.
func TestAStubThatDiedWhileItWaitedIsGivenNoCommand(t *testing.T) {
	t.Parallel()
	m, init, id := start(t)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	var waiting []int
	require.Eventually(t, func() bool {
		waiting = childrenOf(int(one.GetPid()))
		return len(waiting) > 1
	}, waittest.Limit(30*time.Second), 5*time.Millisecond)
	for _, stub := range waiting {
		require.NoError(t, unix.Kill(stub, unix.SIGKILL))
	}
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(childrenOf(int(one.GetPid())), func(pid int) bool {
			return slices.Contains(waiting, pid)
		})
	}, waittest.Limit(30*time.Second), 5*time.Millisecond)
	for range 2 * len(waiting) {
		req := request("exit 3")
		_, err = init.Start(t.Context(), req)
		require.NoError(t, err)
		resp, err := init.Wait(t.Context(), &initv1.WaitRequest{ExecId: req.GetExecId(), TimeoutMs: 30_000})
		require.NoError(t, err)
		require.Empty(t, resp.GetStatus().GetStartError())
		require.EqualValues(t, 3, resp.GetStatus().GetExitCode())
	}
}

// stubOf answers, from the host, the child of a jail's init that has a process
// with a command line below it.
func stubOf(t *testing.T, init int, cmdline string) int {
	t.Helper()
	var found int
	require.Eventually(t, func() bool {
		for _, stub := range childrenOf(init) {
			for todo := childrenOf(stub); len(todo) > 0; todo = append(todo[1:], childrenOf(todo[0])...) {
				raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(todo[0]), "cmdline"))
				if string(raw) == cmdline {
					found = stub
				}
			}
		}
		return found != 0
	}, waittest.Limit(10*time.Second), 5*time.Millisecond)
	return found
}

func childrenOf(pid int) []int {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	var out []int
	for _, file := range threads {
		raw, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(raw)) {
			if n, err := strconv.Atoi(field); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// A tiny binary that costs next to nothing while it waits.
func TestAnIdleInitIsSmall(t *testing.T) {
	t.Parallel()
	m, _, id := start(t)
	one, err := m.Get(t.Context(), id)
	require.NoError(t, err)
	resident := func() int {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(one.GetPid())), "status"))
		require.NoError(t, err)
		_, after, ok := strings.Cut(string(raw), "VmRSS:")
		require.True(t, ok)
		kib, err := strconv.Atoi(strings.Fields(after)[0])
		require.NoError(t, err)
		return kib
	}
	// It lets go of what it does not need once it has rested for a while.
	require.Eventually(t, func() bool { return resident() < 6<<10 }, waittest.Limit(20*time.Second), 100*time.Millisecond)
	t.Logf("%d KiB", resident())
}
