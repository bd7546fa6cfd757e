package exec_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
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

// A whole node on a file system of its own that is full to the last block: what
// runs can be seen, held, killed and stopped, nothing new is begun, and when
// there is room again all continues.
func TestAFullFileSystemTakesControlFromNobody(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := prepared(t)
	data := filepath.Join(n.cfg.DataDir, "data")
	require.NoError(t, os.Mkdir(data, 0o711))
	image := filepath.Join(n.cfg.DataDir, "disk.ext4")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 96<<20))
	made, err := osexec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", "-m", "0", image).CombinedOutput()
	require.NoError(t, err, "%s", made)
	disk := mount.Mount{Type: "ext4", Source: image, Options: []string{"loop"}}
	require.NoError(t, disk.Mount(data))
	require.NoError(t, os.Chmod(data, 0o711))
	n.cfg.DataDir = data
	n.start()
	id := n.ensure(func(s *nodev1.JailSpec) { s.WorkspaceBytes = 8 << 20 })
	other := n.ensure(func(s *nodev1.JailSpec) { s.WorkspaceBytes = 8 << 20 })
	// Quiet both: one that prints may be ended by the full disk before the kill.
	quiet, held := shell(id, "echo begun; sleep 2222"), shell(other, "echo begun; sleep 3333")
	for _, spec := range []*nodev1.ExecSpec{quiet, held} {
		n.startExec(spec)
		n.until(spec.GetExecId(), "begun\n")
	}
	loud := shell(id, "yes 0123456789abcdef")
	n.startExec(loud)
	end := n.wait(loud.GetExecId())
	require.Equal(t, nodev1.EndReason_END_REASON_DISK_FULL, end.GetEndReason(), "%v", end)
	ballast := filepath.Join(data, "ballast")
	t.Cleanup(func() { _ = os.Remove(ballast) })
	n.fill(ballast)

	// Log reading, and refusals of what is new.
	require.Equal(t, "begun\n", string(n.log(quiet.GetExecId(), false)[0]))
	fresh := shell(id, "echo fresh")
	_, err = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: fresh})
	requireFault(t, err, fault.Exhausted, "disk is full")
	_, err = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: jailtest.Spec(ident.New("jail"))})
	requireFault(t, err, fault.Exhausted, "disk is full")

	// Control, from what was kept for it.
	n.freeze(other, "step_a")
	out, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: quiet.GetExecId(), By: "operator"})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_KILLED, out.GetExec().GetEndReason())
	buried, err := n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: ident.New("step"), By: "operator"})
	require.NoError(t, err)
	require.Equal(t, "killed before it started", buried.GetExec().GetStartError())
	killed, err := n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: other, By: "operator"})
	require.NoError(t, err)
	require.Zero(t, killed.GetMembersLeft())
	require.NoError(t, n.jails.SetDrain(jail.Drain{Draining: true, Reason: "the disk is full"}))
	_, err = n.jail.StopJail(t.Context(), &nodev1.StopJailRequest{JailId: other})
	require.NoError(t, err)

	// The next daemon finds it all, on the same full disk.
	n.stop()
	n.start()
	require.Equal(t, "operator", n.get(quiet.GetExecId()).GetKilledBy())
	require.Equal(t, "operator", n.get(held.GetExecId()).GetKilledBy())
	require.Equal(t, nodev1.EndReason_END_REASON_DISK_FULL, n.get(loud.GetExecId()).GetEndReason())
	require.True(t, n.jails.Drain().Draining)
	stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: loud.GetExecId(), Limit: 17})
	require.NoError(t, err)
	part, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "0123456789abcdef\n", string(part.GetData()))

	require.NoError(t, os.Remove(ballast))
	_, err = n.jail.RemoveJail(t.Context(), &nodev1.RemoveJailRequest{JailId: other})
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(data, "jails", id, "state", "execs", loud.GetExecId(), "data"), 0))
	require.NoError(t, n.jails.SetDrain(jail.Drain{}))
	n.startExec(fresh)
	require.Zero(t, n.wait(fresh.GetExecId()).GetExitCode(), "the refused id was not spent")
	code, _ := n.sh(n.ensure(func(s *nodev1.JailSpec) { s.WorkspaceBytes = 8 << 20 }), "echo new > file && sync")
	require.Zero(t, code)
	code, text := n.sh(id, "echo mine > file && sync && cat file")
	require.Zero(t, code, text)
}

// fill takes every block that is free into a file.
func (n *node) fill(path string) {
	n.tb.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(n.tb, err)
	defer f.Close()
	for size := 1 << 20; size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(n.tb, err, unix.ENOSPC)
	}
	_ = f.Sync()
}
