package exec_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Exit codes and truthful reasons.
func TestACommandEndsAsItDid(t *testing.T) { onRuntimes(t, testACommandEndsAsItDid) }

func testACommandEndsAsItDid(t *testing.T, runtime string) {
	t.Parallel()
	n := newNode(t).on(runtime)
	id := n.ensure()
	for name, tc := range map[string]struct {
		spec   *nodev1.ExecSpec
		reason nodev1.EndReason
		code   int32
		signal int32
		error  string
	}{
		"it exits with 0":                       {command(id, "true"), nodev1.EndReason_END_REASON_EXITED, 0, 0, ""},
		"it exits with a code":                  {shell(id, "exit 42"), nodev1.EndReason_END_REASON_EXITED, 42, 0, ""},
		"a signal of its own ends it":           {shell(id, "kill -TERM $$"), nodev1.EndReason_END_REASON_SIGNALLED, 0, 15, ""},
		"kill -9 of its own is no want of room": {shell(id, "kill -9 $$"), nodev1.EndReason_END_REASON_SIGNALLED, 0, 9, ""},
		"it does not exist":                     {command(id, "no-such-program"), nodev1.EndReason_END_REASON_START_FAILED, 0, 0, "no-such-program: command not found"},
		"its path does not exist":               {command(id, "/no/such/program"), nodev1.EndReason_END_REASON_START_FAILED, 0, 0, "/no/such/program: no such file"},
		"it may not be executed":                {command(id, "/etc/passwd"), nodev1.EndReason_END_REASON_START_FAILED, 0, 0, "/etc/passwd: permission denied"},
		"its folder does not exist":             {&nodev1.ExecSpec{ExecId: "no-folder", JailId: id, Argv: []string{"true"}, Dir: "/nowhere"}, nodev1.EndReason_END_REASON_START_FAILED, 0, 0, "the folder /nowhere"},
		"its time is up": {&nodev1.ExecSpec{ExecId: "slow", JailId: id, Argv: []string{"sleep", "100"}, Timeout: durationpb.New(100 * time.Millisecond)},
			nodev1.EndReason_END_REASON_TIMED_OUT, 0, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{tb: t, api: n.api}
			out, _ := n.run(tc.spec)
			require.Equal(t, tc.reason, out.GetEndReason(), "%v", out)
			require.Equal(t, tc.code, out.GetExitCode())
			require.Equal(t, tc.signal, out.GetSignal())
			require.Contains(t, out.GetStartError(), tc.error)
			require.Zero(t, out.GetMembersLeft())
		})
	}
}

// Binary-safe, no limit on a line's length, streams told apart.
func TestOutputIsKeptAsItWasWritten(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()

	t.Run("every byte value", func(t *testing.T) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		spec := command(id, "cat")
		spec.Stdin = bytes.Repeat(all, 2000)
		_, text := n.run(spec)
		require.Equal(t, sha256.Sum256(spec.Stdin), sha256.Sum256([]byte(text)))
	})
	t.Run("one line of 64 MB", func(t *testing.T) {
		out, text := n.run(shell(id, "head -c 67108864 /dev/zero | tr '\\0' x"))
		require.EqualValues(t, 64<<20, out.GetLogBytes())
		require.Equal(t, strings.Repeat("x", 64<<20), text)
	})
	t.Run("stdout and stderr told apart, in the order they came", func(t *testing.T) {
		spec := shell(id, "for i in 1 2 3; do echo out $i; sleep 0.05; echo err $i >&2; sleep 0.05; done")
		_, text := n.run(spec)
		require.Equal(t, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n", text)
		log := n.log(spec.GetExecId(), false)
		require.Equal(t, "out 1\nout 2\nout 3\n", string(log[1]))
		require.Equal(t, "err 1\nerr 2\nerr 3\n", string(log[2]))
	})
	t.Run("folder, environment and input", func(t *testing.T) {
		spec := shell(id, `pwd; echo "$GREETING $HOME $USER"; cat; echo "$PATH"`)
		spec.Dir, spec.Env, spec.Stdin = "/tmp", []string{"GREETING=ahoy", "PATH=/usr/bin"}, []byte("from stdin\n")
		_, text := n.run(spec)
		require.Equal(t, "/tmp\nahoy /workspace agent\nfrom stdin\n/usr/bin\n", text)
	})
	t.Run("from an offset, at most so much", func(t *testing.T) {
		spec := shell(id, "printf 0123456789")
		n.run(spec)
		stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Offset: 3, Limit: 4})
		require.NoError(t, err)
		part, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, "3456", string(part.GetData()))
		require.NotNil(t, part.GetTime())
	})
	t.Run("input that the command does not read", func(t *testing.T) {
		spec := command(id, "true")
		spec.Stdin = make([]byte, 1<<20)
		out, _ := n.run(spec)
		require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason())
	})
}

// Get-or-create by id.
func TestAnIdSpawnsOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo once >> counter; sleep 0.2")
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			resp, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !resp.GetExisted() {
				made++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, made)
	n.wait(spec.GetExecId())
	resp, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
	require.NoError(t, err)
	require.True(t, resp.GetExisted())
	require.Equal(t, nodev1.ExecState_EXEC_STATE_ENDED, resp.GetExec().GetState())
	_, text := n.sh(id, "cat counter")
	require.Equal(t, "once\n", text)

	other := shell(id, "echo another")
	other.ExecId = spec.GetExecId()
	_, err = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: other})
	requireFault(t, err, fault.Exists, "with another request")
}

func TestBadRequestsAreRefused(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	for name, tc := range map[string]struct {
		change func(*nodev1.ExecSpec)
		kind   fault.Kind
		says   string
	}{
		"no program":                    {func(s *nodev1.ExecSpec) { s.Argv = nil }, fault.Invalid, "argv"},
		"NUL in an argument":            {func(s *nodev1.ExecSpec) { s.Argv = []string{"echo", "a\x00b"} }, fault.Invalid, "NUL"},
		"NUL in the environment":        {func(s *nodev1.ExecSpec) { s.Env = []string{"A=\x00"} }, fault.Invalid, "NUL"},
		"environment without a name":    {func(s *nodev1.ExecSpec) { s.Env = []string{"=x"} }, fault.Invalid, "NAME=value"},
		"an id that leaves its folder":  {func(s *nodev1.ExecSpec) { s.ExecId = "../../etc" }, fault.Invalid, "exec_id"},
		"a folder that is not absolute": {func(s *nodev1.ExecSpec) { s.Dir = "../x" }, fault.Invalid, "dir"},
		"a time-out of nothing":         {func(s *nodev1.ExecSpec) { s.Timeout = durationpb.New(0) }, fault.Invalid, "timeout"},
		"more words than 2 MiB":         {func(s *nodev1.ExecSpec) { s.Argv = append(s.Argv, strings.Repeat("x", 2<<20)) }, fault.Invalid, "2 MiB"},
		"a jail that is not there":      {func(s *nodev1.ExecSpec) { s.JailId = "nowhere" }, fault.NotFound, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := command(id, "true")
			tc.change(spec)
			_, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
			requireFault(t, err, tc.kind, tc.says)
		})
	}
	_, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: "never-was"})
	requireFault(t, err, fault.NotFound, "never-was")

	out, _ := n.run(command(id, "echo", strings.Repeat("x", 1<<20)))
	require.Equal(t, nodev1.EndReason_END_REASON_START_FAILED, out.GetEndReason())
	require.Contains(t, out.GetStartError(), "longer than the kernel takes")

	many := command(id, "sh", "-c", `echo $# ${#1}`, "sh")
	for range 20 {
		many.Argv = append(many.Argv, strings.Repeat("x", 90_000))
	}
	out, text := n.run(many)
	require.Equal(t, "20 90000\n", text, "%v", out)
	for _, dir := range []string{n.cfg.DataDir, "/root", "/workspace/../root", "/proc/1/cwd", "/run/deckhand"} {
		spec := command(id, "pwd")
		spec.Dir = dir
		out, text := n.run(spec)
		require.Equal(t, nodev1.EndReason_END_REASON_START_FAILED, out.GetEndReason(), "%s: %s", dir, text)
		require.Contains(t, out.GetStartError(), "the folder "+dir)
	}
}

// Killing means that the whole tree is gone.
func TestAKillEndsTheWholeTree(t *testing.T) {
	jailtest.Differs(t, jail.DifferHostView)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	other := shell(id, "sleep 1000")
	n.startExec(other)
	// 50 processes: children, and grandchildren that left session and parent.
	spec := shell(id, `for i in $(seq 25); do sleep 7777 & (setsid sh -c 'setsid sleep 7777 & exit' &) ; done; echo ready; wait`)
	n.startExec(spec)
	n.until(spec.GetExecId(), "ready\n")
	n.eventually(func() bool { return n.processes(id, "sleep 7777") == 50 }, "50 processes")

	began := time.Now()
	resp, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "operator"})
	took := time.Since(began)
	require.NoError(t, err)
	out := resp.GetExec()
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetEndReason())
	require.Equal(t, "operator", out.GetKilledBy())
	require.Zero(t, out.GetMembersLeft())
	require.Zero(t, n.processes(id, "sleep 7777"), "seen from the host")
	require.Equal(t, 1, n.processes(id, "sleep 1000"), "another exec's process went with it")
	t.Logf("a tree of 50 was gone after %s", took)

	again, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: spec.GetExecId(), By: "somebody else"})
	require.NoError(t, err)
	require.Equal(t, "operator", again.GetExec().GetKilledBy())
}

// What a command leaves in the background is its own until it ends.
func TestAnExecLastsAsLongAsItsTree(t *testing.T) { onRuntimes(t, testAnExecLastsAsLongAsItsTree) }

func testAnExecLastsAsLongAsItsTree(t *testing.T, runtime string) {
	t.Parallel()
	n := newNode(t).on(runtime)
	id := n.ensure()
	spec := shell(id, "(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo early; exit 5")
	n.startExec(spec)
	n.until(spec.GetExecId(), "early\n")
	n.eventually(func() bool {
		resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: spec.GetExecId()})
		return err == nil && resp.GetExec().GetLeaderExited()
	}, "the command itself to exit")
	resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, resp.GetExec().GetState())
	require.EqualValues(t, 5, resp.GetExec().GetExitCode())
	n.sh(id, "touch go")
	out := n.wait(spec.GetExecId())
	require.EqualValues(t, 5, out.GetExitCode())
	require.Equal(t, "early\nlate\n", string(n.log(spec.GetExecId(), false)[0]))
}

func TestATimeOutEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "(setsid sleep 6666 &); echo before; sleep 6666")
	spec.Timeout = durationpb.New(3 * time.Second) // enough for the shell to say something
	out, text := n.run(spec)
	require.Equal(t, nodev1.EndReason_END_REASON_TIMED_OUT, out.GetEndReason())
	require.Equal(t, "before\n", text)
	require.Zero(t, out.GetMembersLeft())
	require.Zero(t, n.processes(id, "sleep 6666"))
}

func TestFiveHundredExecsAtOnce(t *testing.T) {
	jailtest.Differs(t, jail.DifferPIDs)
	t.Parallel()
	n := newNode(t)
	// Each is a shell, what it sleeps in, and a stub.
	id := n.ensure(func(s *nodev1.JailSpec) { s.Pids, s.MemoryBytes = 2048, 2<<30 })
	const many = 500
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			spec := shell(id, fmt.Sprintf("while [ ! -e go ]; do sleep 1; done; echo %d", i))
			spec.ExecId = "many-" + strconv.Itoa(i)
			if _, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := n.api.ListExecs(t.Context(), &nodev1.ListExecsRequest{JailId: id, LiveOnly: true})
	require.NoError(t, err)
	require.Len(t, list.GetExecs(), many)
	for _, one := range list.GetExecs() {
		require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, one.GetState(), "%v", one)
	}
	n.touch(id, "go")
	for i := range many {
		out := n.wait("many-" + strconv.Itoa(i))
		require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason(), "%v", out)
		require.Equal(t, strconv.Itoa(i)+"\n", string(n.log(out.GetExecId(), false)[0]))
	}
}
