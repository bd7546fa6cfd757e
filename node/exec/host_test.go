package exec_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// What a command on the machine changes in named folders is known with its end, although the
// daemon is another one by then, and taken back: what was there before is there again, and is
// never deleted. What it changed elsewhere is no part of it.
func TestChangesOfTheMachineAreTakenBack(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	t.Parallel()
	one, two, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	for _, file := range []string{in(one, "before"), in(one, "changed"), in(one, "-first"), in(one, "#sorted before a dot"), in(two, "deleted"), in(elsewhere, "changed")} {
		require.NoError(t, os.WriteFile(file, []byte("old\n"), 0o640))
		require.NoError(t, os.Chown(file, 1234, 1234))
	}
	n := prepared(t)
	s := recorded(n)
	n.start()
	host := &nodev1.JailSpec{JailId: jail.HostID, Rootfs: nodelink.RootMachine}
	_, err := n.jails.EnsureHost(context.Background(), host)
	require.NoError(t, err)
	spec := func(script string, folders ...string) *nodev1.ExecSpec {
		return &nodev1.ExecSpec{
			ExecId: ident.New("step"), JailId: jail.HostID, Argv: []string{"/bin/sh", "-c", script}, Snapshot: len(folders) > 0, HostPaths: folders,
			HostLock: &nodev1.HostLock{LockId: "lock_1", Holder: "agent ops"},
		}
	}
	first, _ := n.run(spec("echo new > "+in(one, "changed")+"; mkdir "+in(one, "made")+"; echo x > "+in(one, "made/x")+"; rm "+in(two, "deleted")+"; echo new > "+in(elsewhere, "changed"), one, two))
	require.Equal(t, []string{in(one, "changed"), in(one, "made"), in(one, "made/x"), in(two, "deleted")}, changed(first))

	// Somebody else changes a file between two commands, and another one before the undo.
	require.NoError(t, os.WriteFile(in(two, "by hand"), []byte("theirs\n"), 0o600))
	between, _ := n.run(spec("echo ours > '"+in(two, "by hand")+"'; echo ours > "+in(two, "later"), two))
	require.Equal(t, []string{in(two, "by hand"), in(two, "later")}, changed(between))
	require.NoError(t, os.WriteFile(in(two, "later"), []byte("theirs\n"), 0o600))
	refused, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: nodelink.HostFolder + two, OperationId: ident.New("undo"), Range: &nodev1.ChangeRange{By: []string{between.GetExecId()}},
	})
	require.NoError(t, err)
	require.False(t, refused.GetApplied())
	require.Len(t, refused.GetConflicts(), 1)
	require.Equal(t, "later", string(refused.GetConflicts()[0].GetPath()))
	require.NoError(t, os.Remove(in(two, "later")))
	skipped, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
		JailId: nodelink.HostFolder + two, OperationId: ident.New("undo"), Range: &nodev1.ChangeRange{By: []string{between.GetExecId()}},
		OnConflict: nodev1.OnConflict_ON_CONFLICT_SKIP,
	})
	require.NoError(t, err)
	require.True(t, skipped.GetApplied())
	theirs, err := os.ReadFile(in(two, "by hand"))
	require.NoError(t, err)
	require.Equal(t, "theirs\n", string(theirs), "what was there before the command is there again")

	long := spec("echo begun; echo newer > "+in(one, "changed")+"; while [ ! -e "+in(elsewhere, "go")+" ]; do sleep 0.05; done; echo y > "+in(one, "y"), one, two)
	n.startExec(long)
	n.until(long.GetExecId(), "begun")
	n.stop()
	n.start()
	require.NoError(t, os.WriteFile(in(elsewhere, "go"), nil, 0o600))
	second := n.wait(long.GetExecId())
	require.Equal(t, []string{in(one, "changed"), in(one, "y")}, changed(second))

	undo := func(id, dir string) {
		_, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
			JailId: nodelink.HostFolder + dir, OperationId: ident.New("undo"), Range: &nodev1.ChangeRange{By: []string{id}},
		})
		require.NoError(t, err)
	}
	undo(second.GetExecId(), one)
	text, err := os.ReadFile(in(one, "changed"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(text))
	undo(first.GetExecId(), one)
	undo(first.GetExecId(), two)
	for _, file := range []string{in(one, "before"), in(one, "changed"), in(one, "-first"), in(one, "#sorted before a dot"), in(two, "deleted")} {
		text, err := os.ReadFile(file)
		require.NoError(t, err, "it was there before")
		require.Equal(t, "old\n", string(text), file)
	}
	require.NoDirExists(t, in(one, "made"))
	require.NoFileExists(t, in(one, "y"))
	left, err := os.ReadDir(one)
	require.NoError(t, err)
	require.Len(t, left, 4, "nothing of the node's own is left")
	text, err = os.ReadFile(in(elsewhere, "changed"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(text))

	// A folder that may not be recorded has the command refused.
	link := filepath.Join(elsewhere, "link")
	require.NoError(t, os.Symlink(one, link))
	for dir, says := range map[string]string{
		link: "symbolic link", filepath.Join(elsewhere, "none"): "there is no folder", in(elsewhere, "changed"): "is not a folder", n.cfg.DataDir: "the node's own data",
	} {
		unrecorded, _ := n.run(spec("echo ran > "+in(elsewhere, "ran"), one, dir))
		require.Equal(t, nodev1.EndReason_END_REASON_START_FAILED, unrecorded.GetEndReason(), dir)
		require.Contains(t, unrecorded.GetStartError(), says)
	}
	require.NoFileExists(t, in(elsewhere, "ran"))
	_, err = n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{ExecId: ident.New("step"), JailId: n.ensure(), Argv: []string{"true"}, HostPaths: []string{one}}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Invalid), "%v", err)
}
