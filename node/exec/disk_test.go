package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A disk that is full to the last byte ends the command that filled it, and
// keeps nobody from ending the others.
func TestAFullDiskLeavesRoomForControl(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	data := filepath.Join(n.cfg.DataDir, "data")
	require.NoError(t, os.Mkdir(data, 0o711))
	require.NoError(t, unix.Mount("deckhand-test", data, "tmpfs", 0, "mode=0711,size=64m"))
	n.cfg.DataDir = data
	n.start()
	id := n.ensure(func(s *nodev1.JailSpec) { s.WorkspaceBytes = 8 << 20 })
	quiet := shell(id, "echo begun; sleep 2222")
	n.startExec(quiet)
	n.until(quiet.GetExecId(), "begun\n")
	loud := shell(id, "yes 0123456789abcdef")
	n.startExec(loud)
	out := n.wait(loud.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_DISK_FULL, out.GetEndReason(), "%v", out)
	require.Zero(t, out.GetMembersLeft())
	require.Greater(t, out.GetLogBytes(), out.GetLogDroppedBytes())

	// The last byte as well.
	ballast, err := os.Create(filepath.Join(data, "ballast"))
	require.NoError(t, err)
	for err == nil {
		_, err = ballast.Write(make([]byte, 512))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, ballast.Close())

	resp, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: quiet.GetExecId(), By: "operator"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, resp.GetExec().GetEndReason())
	n.eventually(func() bool {
		rec, err := n.ledger.GetExec(t.Context(), quiet.GetExecId())
		return err == nil && rec.GetResult() != nil
	}, "a recorded end")
	require.Equal(t, "begun\n", string(n.log(quiet.GetExecId(), false)[0]))
	require.Equal(t, nodev1.EndReason_END_REASON_DISK_FULL, n.wait(loud.GetExecId()).GetEndReason())

	require.NoError(t, os.Remove(filepath.Join(data, "ballast")))
	require.NoError(t, os.Truncate(filepath.Join(data, "jails", id, "state", "execs", loud.GetExecId(), "data"), 0))
	code, _ := n.sh(id, "true")
	require.Zero(t, code)
}
