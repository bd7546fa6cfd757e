package exec_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// write gives an exec input and returns how much it has been given in all.
func (n *node) write(id string, offset int64, text string, eof bool) int64 {
	n.tb.Helper()
	resp, err := n.api.WriteStdin(n.tb.Context(), &nodev1.WriteStdinRequest{ExecId: id, Offset: offset, Data: []byte(text), Eof: eof})
	require.NoError(n.tb, err)
	return resp.GetWritten()
}

// Input after the start, each byte once.
func TestInputIsGivenOnce(t *testing.T) { onRuntimes(t, testInputIsGivenOnce) }

func testInputIsGivenOnce(t *testing.T, runtime string) {
	t.Parallel()
	n := newNode(t).on(runtime)
	id := n.ensure()
	spec := command(id, "cat")
	spec.Stdin, spec.StdinOpen = []byte("first "), true
	n.startExec(spec)
	n.until(spec.GetExecId(), "first ")
	require.EqualValues(t, 12, n.write(spec.GetExecId(), 6, "second", false))
	require.EqualValues(t, 12, n.write(spec.GetExecId(), 6, "second", false), "repeated")
	require.EqualValues(t, 18, n.write(spec.GetExecId(), 9, "ond third", false), "half repeated")
	_, err := n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{ExecId: spec.GetExecId(), Offset: 100, Data: []byte("x")})
	requireFault(t, err, fault.Invalid, "given 18 bytes")
	n.write(spec.GetExecId(), 18, "", true)
	n.write(spec.GetExecId(), 18, "", true)
	out := n.wait(spec.GetExecId())
	require.Equal(t, "first second third", string(n.log(spec.GetExecId(), false)[0]))
	require.EqualValues(t, 18, out.GetStdinBytes())
	require.EqualValues(t, 18, n.write(spec.GetExecId(), 9, "ond third", true), "repeated after the end")
	_, err = n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{ExecId: spec.GetExecId(), Offset: 18, Data: []byte("x")})
	requireFault(t, err, fault.Precondition, "has ended")
}

func TestInputThatIsNotReadIsNotTaken(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "while [ ! -e go ]; do sleep 0.05; done; wc -c")
	spec.StdinOpen = true
	n.startExec(spec)
	big := bytes.Repeat([]byte("x"), 1<<20)
	resp, err := n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{
		ExecId: spec.GetExecId(), Data: big, Timeout: durationpb.New(100 * time.Millisecond),
	})
	require.NoError(t, err)
	require.Less(t, resp.GetWritten(), int64(len(big)))
	n.touch(id, "go")
	for written := resp.GetWritten(); written < int64(len(big)); {
		written = n.write(spec.GetExecId(), written, string(big[written:]), true)
	}
	n.wait(spec.GetExecId())
	require.Equal(t, "1048576\n", string(n.log(spec.GetExecId(), false)[0]))

	deaf := command(id, "sleep", "100")
	n.startExec(deaf)
	_, err = n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{ExecId: deaf.GetExecId(), Data: []byte("x")})
	requireFault(t, err, fault.Precondition, "without input")
	closed := shell(id, "exec <&-; echo closed; sleep 100")
	closed.StdinOpen = true
	n.startExec(closed)
	n.until(closed.GetExecId(), "closed\n")
	_, err = n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{ExecId: closed.GetExecId(), Data: []byte("x")})
	requireFault(t, err, fault.Precondition, "reads no more input")
}

// Signals, to the command or to its tree.
func TestASignalGoesWhereItIsSent(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	script := `trap 'echo caught; exit 3' USR1; (trap 'echo below; exit' USR1; echo ready; while :; do sleep 0.02; done) & while :; do sleep 0.02; done`
	spec := shell(id, script)
	n.startExec(spec)
	n.until(spec.GetExecId(), "ready\n")
	resp, err := n.api.SignalExec(t.Context(), &nodev1.SignalExecRequest{ExecId: spec.GetExecId(), Signal: 10})
	require.NoError(t, err)
	require.EqualValues(t, 1, resp.GetSent())
	n.until(spec.GetExecId(), "caught\n")
	n.eventually(func() bool {
		resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: spec.GetExecId()})
		return err == nil && resp.GetExec().GetLeaderExited()
	}, "the command itself to exit")
	resp, err = n.api.SignalExec(t.Context(), &nodev1.SignalExecRequest{ExecId: spec.GetExecId(), Signal: 10})
	require.NoError(t, err)
	require.Zero(t, resp.GetSent(), "the command itself is gone")
	require.NotContains(t, string(n.log(spec.GetExecId(), false)[0]), "below")
	resp, err = n.api.SignalExec(t.Context(), &nodev1.SignalExecRequest{ExecId: spec.GetExecId(), Signal: 10, Tree: true})
	require.NoError(t, err)
	require.NotZero(t, resp.GetSent())
	out := n.wait(spec.GetExecId())
	require.EqualValues(t, 3, out.GetExitCode())
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason())
	require.Contains(t, string(n.log(spec.GetExecId(), false)[1]), "ready\ncaught\nbelow\n")
	_, err = n.api.SignalExec(t.Context(), &nodev1.SignalExecRequest{ExecId: spec.GetExecId(), Signal: 10})
	requireFault(t, err, fault.Precondition, "has ended")
}

// A terminal in a jail, its sizes in its log.
func TestATerminalIsRecorded(t *testing.T) {
	jailtest.Differs(t, jail.DifferTerminal)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, `tty; stty size; test -w "$(tty)" && echo mine; echo $TERM; while read line; do echo "got $line"; stty size; done; echo over`)
	spec.Pty = &nodev1.Pty{Rows: 24, Cols: 80}
	n.startExec(spec)
	n.until(spec.GetExecId(), "xterm-256color\r\n")
	_, err := n.api.ResizeExec(t.Context(), &nodev1.ResizeExecRequest{ExecId: spec.GetExecId(), Pty: &nodev1.Pty{Rows: 50, Cols: 132}})
	require.NoError(t, err)
	written := n.write(spec.GetExecId(), 0, "hello\n", false)
	n.until(spec.GetExecId(), "got hello")
	n.write(spec.GetExecId(), written, "", true)
	out := n.wait(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason(), "%v", out)

	stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	var text strings.Builder
	var sizes []*nodev1.Pty
	for {
		part, err := stream.Recv()
		if err != nil {
			break
		}
		if part.GetResize() != nil {
			sizes = append(sizes, part.GetResize())
			continue
		}
		require.Equal(t, nodev1.LogStream_LOG_STREAM_PTY, part.GetStream())
		text.Write(part.GetData())
	}
	require.Contains(t, text.String(), "/dev/pts/")
	require.Contains(t, text.String(), "24 80\r\nmine\r\n")
	require.Contains(t, text.String(), "50 132\r\n")
	require.Contains(t, text.String(), "over\r\n")
	require.Len(t, sizes, 2)
	require.EqualValues(t, 24, sizes[0].GetRows())
	require.EqualValues(t, 132, sizes[1].GetCols())

	plain := command(id, "sleep", "100")
	n.startExec(plain)
	_, err = n.api.ResizeExec(t.Context(), &nodev1.ResizeExecRequest{ExecId: plain.GetExecId(), Pty: &nodev1.Pty{Rows: 1, Cols: 1}})
	requireFault(t, err, fault.Precondition, "no terminal")
	_, err = n.api.ResizeExec(t.Context(), &nodev1.ResizeExecRequest{ExecId: plain.GetExecId(), Pty: &nodev1.Pty{}})
	requireFault(t, err, fault.Invalid, "rows")
}

// Control characters of a terminal reach what runs in front.
func TestControlCInATerminalInterrupts(t *testing.T) {
	jailtest.Differs(t, jail.DifferTerminal)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo ready; exec sleep 1000")
	spec.Pty = &nodev1.Pty{Rows: 24, Cols: 80}
	n.startExec(spec)
	n.until(spec.GetExecId(), "ready\r\n")
	n.write(spec.GetExecId(), 0, "\x03", false)
	out := n.wait(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_SIGNALLED, out.GetEndReason())
	require.EqualValues(t, 2, out.GetSignal())
}

func TestACommandRunsAsWhomItIsTold(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	for user, says := range map[string]string{"": "1000 1000\n", "1234": "1234 1234\n", "1234:77": "1234 77\n"} {
		spec := shell(id, "echo $(id -u) $(id -g)")
		spec.User, spec.Dir = user, "/"
		_, text := n.run(spec)
		require.Equal(t, says, text)
	}
	for _, user := range []string{"0", "0:5", "5:0", "root", "70000", "-1", "65535"} {
		spec := command(id, "true")
		spec.User = user
		_, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
		requireFault(t, err, fault.Invalid, "user")
	}
}

// At its limit of output a command is stopped with all that it started, and
// nothing that it wrote is dropped.
func TestACommandThatWritesTooMuchIsStopped(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	t.Parallel()
	n := newNode(t, func(c *exec.Config) { c.OutputBytes = 100_000 })
	id := n.ensure()
	ends := func(spec *nodev1.ExecSpec) *nodev1.Exec {
		n.startExec(spec)
		return n.wait(spec.GetExecId())
	}
	within := shell(id, "head -c 100000 /dev/zero | tr '\\0' x; exit 4")
	out := ends(within)
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason())
	require.EqualValues(t, 4, out.GetExitCode())

	lower := shell(id, "yes 'some words' & yes 'other words' >&2; echo not here > after")
	lower.OutputLimitBytes = 1000
	higher := shell(id, "exec yes 'some words'")
	higher.OutputLimitBytes = 1 << 40
	terminal := shell(id, "exec yes 'some words'")
	terminal.Pty = &nodev1.Pty{Rows: 24, Cols: 80}
	for spec, limit := range map[*nodev1.ExecSpec]int64{lower: 1000, higher: 100_000, terminal: 100_000} {
		out := ends(spec)
		require.Equal(t, nodev1.EndReason_END_REASON_OUTPUT_LIMIT, out.GetEndReason())
		require.Greater(t, out.GetLogBytes(), limit)
		// What was read at once, and what the pipes held.
		require.Less(t, out.GetLogBytes(), limit+4<<20)
		require.Zero(t, out.GetLogDroppedBytes())
		require.Zero(t, out.GetMembersLeft())
		text, err := n.read(&nodev1.ReadLogRequest{ExecId: spec.GetExecId()})
		require.NoError(t, err)
		require.Len(t, text, int(out.GetLogBytes()))
	}
	_, text := n.sh(id, "ls; pgrep -x yes")
	require.NotContains(t, text, "after")
	require.Equal(t, "", strings.TrimSpace(text), "nothing runs on")
}

// Cut off for longer than its grace, a command is stopped, daemon or no daemon;
// one with contact continues.
func TestTheOfflineGraceIsCountedFromTheLastContact(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo begun; (setsid sleep 3333 &); sleep 3333")
	spec.OfflineGrace = durationpb.New(4 * time.Second)
	n.svc.Contact()
	began := time.Now()
	n.startExec(spec)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{})
	go func() {
		defer close(told)
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				n.svc.Contact()
			}
		}
	}()
	resp, err := n.api.WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: spec.GetExecId(), Timeout: durationpb.New(6 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, resp.GetExec().GetState(), "it had contact all the time: %v", resp.GetExec())
	cancel()
	<-told
	n.stop() // the daemon is not needed for it
	n.start()
	out := n.wait(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetEndReason())
	require.Equal(t, "offline grace", out.GetKilledBy())
	require.Zero(t, n.processes(id, "sleep 3333"))
	require.Greater(t, out.GetEndedAt().AsTime().Sub(began), 8*time.Second)
	require.Less(t, out.GetEndedAt().AsTime().Sub(began), waittest.Limit(20*time.Second))
}
