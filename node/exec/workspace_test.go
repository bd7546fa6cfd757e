package exec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// recorded makes a node that is not started record workspaces.
func recorded(n *node, change ...func(*snapshot.Config)) *snapshots {
	s := &snapshots{}
	n.change = func(cfg *exec.Config) {
		c := snapshot.Config{Jails: cfg.Jails, Dir: filepath.Join(n.cfg.DataDir, "jails"), Log: n.cfg.Log}
		for _, fn := range change {
			fn(&c)
		}
		var err error
		s.Service, err = snapshot.New(c)
		require.NoError(n.tb, err)
		require.NoError(n.tb, s.Start(context.Background()))
		n.undo = append(n.undo, s.Stop)
		cfg.Workspaces = s.Service
	}
	return s
}

type snapshots struct{ *snapshot.Service }

func recordedShell(jailID, script string) *nodev1.ExecSpec {
	spec := shell(jailID, script)
	spec.Snapshot = true
	return spec
}

func changed(e *nodev1.Exec) []string {
	out := []string{}
	for _, c := range e.GetWorkspace().GetChanges() {
		out = append(out, string(c.GetPath()))
	}
	return out
}

// What a command changed is known with its end, and taken back.
func TestACommandsChangesAreKnownAndTakenBack(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	t.Parallel()
	n := prepared(t)
	s := recorded(n)
	n.start()
	id := n.ensure()
	first, _ := n.run(recordedShell(id, "echo one > a; mkdir -p d/e; echo two > d/e/b; ln -s a l"))
	require.Equal(t, []string{"a", "d", "d/e", "d/e/b", "l"}, changed(first))
	n.sh(id, "echo unrecorded >> a")
	second, _ := n.run(recordedShell(id, "echo more >> a; rm -r d; chmod 750 ."))
	require.Equal(t, []string{".", "a", "d", "d/e", "d/e/b"}, changed(second))
	none, _ := n.run(recordedShell(id, "cat a"))
	require.Zero(t, none.GetWorkspace().GetFiles())
	out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: id, OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{second.GetExecId()}},
	})
	require.NoError(t, err)
	require.True(t, out.GetApplied(), "%v", out)
	_, text := n.sh(id, "cat a d/e/b; stat -c %u a d d/e/b; echo and it is writable > d/e/c && cat d/e/c")
	require.Equal(t, "one\nunrecorded\ntwo\n1000\n1000\n1000\nand it is writable\n", text)
	again, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: id, OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{second.GetExecId()}},
	})
	require.NoError(t, err)
	require.Equal(t, out.GetRestoredDigest(), again.GetRestoredDigest(), "the same undo happens once")
	conflict, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: id, Range: &nodev1.ChangeRange{By: []string{first.GetExecId()}},
	})
	require.NoError(t, err)
	require.False(t, conflict.GetApplied())
	require.NotEmpty(t, conflict.GetConflicts())
	_, text = n.sh(id, "cat a")
	require.Equal(t, "one\nunrecorded\n", text)
}

// A process that continues in the background stands still while the workspace
// is looked at, and whose change it was is not claimed to be known.
func TestAWriterInTheBackground(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := prepared(t)
	s := recorded(n)
	n.start()
	id := n.ensure()
	writer := recordedShell(id, `i=0; echo begun; while [ ! -e stop ]; do i=$((i+1)); echo $i > one; echo $i > two; done`)
	n.startExec(writer)
	n.until(writer.GetExecId(), "begun")
	var states []int64
	for range 10 {
		end, _ := n.run(recordedShell(id, "date +%N >> mine"))
		require.Empty(t, end.GetWorkspace().GetError())
		require.Equal(t, []string{writer.GetExecId()}, end.GetWorkspace().GetSharedWith())
		states = append(states, end.GetWorkspace().GetAfter())
	}
	require.IsIncreasing(t, states)
	n.sh(id, "touch stop")
	end := n.wait(writer.GetExecId())
	require.Contains(t, changed(end), "one")
	out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: id, Range: &nodev1.ChangeRange{From: states[4]}})
	require.NoError(t, err)
	require.True(t, out.GetApplied(), "%v", out.GetConflicts())
	_, text := n.sh(id, `[ $(wc -l < mine) = 5 ] && echo five; a=$(cat one); b=$(cat two); [ "$a" = "$b" ] || [ "$a" = $((b+1)) ] || [ -z "$a$b" ] && echo in step`)
	require.Contains(t, text, "five\n")
}

// The daemon dies while a command runs: the next one still tells what it
// changed.
func TestChangesAreKnownAcrossTheDaemonsDeath(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	s := recorded(n)
	n.start()
	id := n.ensure()
	n.run(recordedShell(id, "echo old > a"))
	long := recordedShell(id, "echo new > a; echo begun; while [ ! -e stop ]; do sleep 0.05; done; echo end > b")
	n.startExec(long)
	n.until(long.GetExecId(), "begun")
	n.stop()
	n.start()
	n.sh(id, "touch stop")
	end := n.wait(long.GetExecId())
	require.Equal(t, []string{"a", "b", "stop"}, changed(end))
	out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: id, Range: &nodev1.ChangeRange{By: []string{long.GetExecId()}}})
	require.NoError(t, err)
	require.True(t, out.GetApplied())
	_, text := n.sh(id, "cat *")
	require.Equal(t, "old\n", text)
}

// While the node's disk has no room for what changes, nothing is run whose
// changes could not be taken back; what was there stays.
func TestWithoutRoomACommandIsRefusedBeforeItRuns(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := prepared(t)
	data := filepath.Join(n.cfg.DataDir, "data")
	require.NoError(t, os.Mkdir(data, 0o711))
	require.NoError(t, unix.Mount("deckhand-test", data, "tmpfs", 0, "mode=0711,size=256m"))
	n.cfg.DataDir = data
	recorded(n, func(c *snapshot.Config) { c.Reserve = 40 << 20 })
	n.start()
	id := n.ensure(func(s *nodev1.JailSpec) { s.WorkspaceBytes = 64 << 20 })
	// Besides what the daemon itself put there (its init and skills, by the
	// megabyte), there is room for one large file and its kept copy, and not for
	// a second.
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(data, &fs))
	used := int64(fs.Blocks-fs.Bfree) * fs.Bsize
	require.NoError(t, unix.Mount("", data, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+115<<20)))
	end, _ := n.run(recordedShell(id, "echo kept > small; head -c 30M /dev/urandom > large"))
	require.Zero(t, end.GetWorkspace().GetUnkept(), "%v", end)
	end, _ = n.run(recordedShell(id, "rm small; head -c 20M /dev/urandom > more"))
	require.EqualValues(t, 1, end.GetWorkspace().GetUnkept(), "what finds no room is said: %v", end)
	refused, _ := n.run(recordedShell(id, "touch ran"))
	require.Equal(t, nodev1.EndReason_END_REASON_START_FAILED, refused.GetEndReason(), "%v", refused)
	require.Contains(t, refused.GetStartError(), "no room")
	dir, err := n.jails.Workspace(id)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "ran"))
	require.NoError(t, unix.Mount("", data, "", unix.MS_REMOUNT, "size=384m")) // somebody makes room
	end, _ = n.run(recordedShell(id, "touch ran"))
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, end.GetEndReason(), "%v", end)
}
