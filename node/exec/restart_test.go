package exec_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The daemon goes away while a command prints, and comes back: the command
// never noticed, and its log and exit code are whole.
func TestACommandOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, `i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.05; done; while [ ! -e go ]; do sleep 0.01; done; exit 7`)
	n.startExec(spec)
	n.until(spec.GetExecId(), "line 10\n")
	n.stop()
	n.start()
	resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, resp.GetExec().GetState())
	workspace, err := n.jails.Workspace(id)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644))
	log := n.log(spec.GetExecId(), true)
	out := n.wait(spec.GetExecId())
	require.EqualValues(t, 7, out.GetExitCode())
	var want strings.Builder
	for i := range 3000 {
		want.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	require.Equal(t, sha256.Sum256([]byte(want.String())), sha256.Sum256(log[0]))
}

func TestACommandThatEndsWithoutADaemonIsFoundEnded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done; exit 9")
	n.startExec(spec)
	n.until(spec.GetExecId(), "begun\n")
	workspace, err := n.jails.Workspace(id)
	require.NoError(t, err)
	exit := filepath.Join(n.cfg.DataDir, "jails", id, "state", "execs", spec.GetExecId(), "exit")
	n.stop()
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644))
	n.eventually(func() bool { _, err := os.Stat(exit); return err == nil }, "the command's end")
	n.start()
	resp, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
	require.NoError(t, err)
	require.True(t, resp.GetExisted())
	out := resp.GetExec()
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, out.GetEndReason())
	require.EqualValues(t, 9, out.GetExitCode())
	require.Equal(t, "begun\ndone\n", string(n.log(spec.GetExecId(), false)[0]))
}

// What the ledger has and the same init never started is started once the
// daemon is back: it died between the two.
func TestARecordedCommandIsStartedAfterACrash(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	conn, err := n.jails.Init(t.Context(), id)
	require.NoError(t, err)
	spec := shell(id, "echo ran >> counter")
	_, existed, err := n.ledger.Exec(t.Context(), spec, conn.Instance)
	require.NoError(t, err)
	require.False(t, existed)
	old := shell(id, "echo never >> counter")
	_, _, err = n.ledger.Exec(t.Context(), old, "an init before this one")
	require.NoError(t, err)
	n.stop()
	n.start()
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, n.wait(spec.GetExecId()).GetEndReason())
	require.Equal(t, nodev1.EndReason_END_REASON_NOT_STARTED, n.wait(old.GetExecId()).GetEndReason())
	_, text := n.sh(id, "cat counter")
	require.Equal(t, "ran\n", text)
}

func TestAfterARebootNobodyKnows(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	done := shell(id, "echo kept; exit 3")
	n.run(done)
	spec := shell(id, "echo begun; sleep 1000")
	n.startExec(spec)
	n.until(spec.GetExecId(), "begun\n")
	n.stop()
	n.boot = "another-boot"
	n.start()
	require.Equal(t, nodev1.EndReason_END_REASON_UNKNOWN, n.wait(spec.GetExecId()).GetEndReason())
	require.EqualValues(t, 3, n.wait(done.GetExecId()).GetExitCode())
}

// The jail's init dies: the jail is lost, the log whole, and the next Ensure
// makes the jail again around the same workspace.
func TestTheDeathOfInitLosesTheJailAndNoLog(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo before > kept; echo output; sleep 5555")
	n.startExec(spec)
	n.until(spec.GetExecId(), "output\n")
	one, err := n.jails.Get(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(int(one.GetPid()), unix.SIGKILL))
	out := n.wait(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_JAIL_LOST, out.GetEndReason())
	require.EqualValues(t, len("output\n"), out.GetLogBytes())
	require.Equal(t, "output\n", string(n.log(spec.GetExecId(), true)[0]))
	one, err = n.jails.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_LOST, one.GetState())
	_, err = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: shell(id, "true")})
	requireFault(t, err, fault.Precondition, "lost")

	again, err := n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: jailtest.Spec(id)})
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_RUNNING, again.GetJail().GetState())
	_, text := n.sh(id, "cat kept")
	require.Equal(t, "before\n", text)
	require.Equal(t, "output\n", string(n.log(spec.GetExecId(), false)[0]))
	resp, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: spec})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_JAIL_LOST, resp.GetExec().GetEndReason(), "it ran again")
}

func TestStoppingAJailEndsItsCommandsTruthfully(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo begun; sleep 4444")
	n.startExec(spec)
	n.until(spec.GetExecId(), "begun\n")
	resp, err := n.jail.StopJail(t.Context(), &nodev1.StopJailRequest{JailId: id})
	require.NoError(t, err)
	require.Equal(t, nodev1.JailState_JAIL_STATE_STOPPED, resp.GetJail().GetState())
	out := n.wait(spec.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetEndReason(), "%v", out)
	require.Equal(t, "the jail was stopped", out.GetKilledBy())
	require.Equal(t, "begun\n", string(n.log(spec.GetExecId(), false)[0]))

	_, err = n.jail.RemoveJail(t.Context(), &nodev1.RemoveJailRequest{JailId: id})
	require.NoError(t, err)
	got, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, got.GetExec().GetEndReason())
	stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	_, err = stream.Recv()
	requireFault(t, err, fault.NotFound, "deleted with its jail")
}
