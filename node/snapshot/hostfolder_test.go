package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/snapshot/restore"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The daemon is killed in the middle of an undo in a folder of the machine. The next daemon
// leaves nothing of the node's own in that folder, without being asked, and the folder is
// exactly as before the undo or after it. A name like that of the node's own belongs to whoever
// made it: it is recorded, and is not deleted.
func TestAnUndoOnTheMachineThatIsCutOff(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("folders of the machine are root's: run the tests as root")
	}
	for _, c := range []struct {
		moment string
		undone bool
	}{
		{"undo: made ready", false}, {"undo: written down", true}, {"undo: put in place", true},
	} {
		t.Run(c.moment, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			s := m.service(t, m.config())
			theirs := restore.StagePrefix + "theirs"
			m.stepIn(t, s, m.hostID(), "step_0", "mkdir d; echo old > d/file; echo old > other; mkdir "+theirs)
			before := picture(t, m.dir())
			changed := m.stepIn(t, s, m.hostID(), "step_1", "echo new > d/file; rm other; echo new > added; echo hidden > "+theirs+"/file")
			require.Equal(t, []string{"added " + theirs + "/file", "added added", "modified d/file", "deleted other"}, paths(changed.GetChanges()))
			after := picture(t, m.dir())
			s.Stop()
			m.kill(t, "undo on the machine", c.moment, 0)
			if c.moment == "undo: made ready" {
				require.Len(t, stages(t, m.dir()), 2, "it was killed with contents in the folder")
			}
			s = m.service(t, m.config())
			require.Equal(t, []string{theirs}, stages(t, m.dir()))
			want := after
			if c.undone {
				want = before
			}
			require.Equal(t, want, picture(t, m.dir()))
			out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{
				JailId: m.hostID(), OperationId: "undo_1", Range: &nodev1.ChangeRange{By: []string{"step_1"}},
			})
			require.NoError(t, err)
			require.True(t, out.GetApplied(), "%v", out.GetConflicts())
			require.Equal(t, before, picture(t, m.dir()))
			require.Zero(t, m.stepIn(t, s, m.hostID(), "step_2", "true").GetFiles())
		})
	}
}

// stages returns the names in a folder that begin like the node's own.
func stages(t testing.TB, dir string) (out []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, restore.StagePrefix+"*"))
	require.NoError(t, err)
	for _, name := range all {
		out = append(out, filepath.Base(name))
	}
	return out
}

// netRaw is the value of security.capability that gives a program cap_net_raw (capabilities(7)):
// revision 2 with the effective bit, and bit 13 permitted.
var netRaw = []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// File capabilities and security labels of a folder of the machine are changes like others, and
// are restored: of files that were written, replaced or deleted, of folders, and of links.
func TestCapabilitiesAndLabelsOfTheMachineAreRestored(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("root sets them: run the tests as root")
	}
	m := newMachine(t)
	in := func(name string) string { return filepath.Join(m.dir(), name) }
	probe := in("probe")
	require.NoError(t, os.WriteFile(probe, nil, 0o600))
	if err := unix.Setxattr(probe, "security.deckhand", []byte("x"), 0); err != nil {
		t.Skipf("this file system has no security attributes: %v", err)
	}
	require.NoError(t, os.Remove(probe))
	s := m.service(t, m.config())
	attribute := func(name, attr string, value []byte) func() {
		return func() { require.NoError(t, unix.Lsetxattr(in(name), attr, value, 0)) }
	}
	m.stepIn(t, s, m.hostID(), "step_0", "echo a > written; echo a > taken; echo a > deleted; echo a > plain; mkdir folder gone; ln -s plain link",
		attribute("written", "security.capability", netRaw), attribute("taken", "security.capability", netRaw),
		attribute("deleted", "security.capability", netRaw), attribute("deleted", "trusted.note", []byte("kept")),
		attribute("folder", "security.deckhand", []byte("label")), attribute("gone", "security.deckhand", []byte("label")),
		attribute("link", "trusted.note", []byte("of the link")))
	before := picture(t, m.dir())
	require.Contains(t, strings.Join(before, "\n"), "security.capability=")
	linked := make([]byte, 64)
	n, err := unix.Lgetxattr(in("link"), "trusted.note", linked)
	require.NoError(t, err)
	require.Equal(t, "of the link", string(linked[:n]))

	// A write takes the capability of a file; nobody needs to know.
	changed := m.stepIn(t, s, m.hostID(), "step_1", "echo b > written; rm deleted; rmdir gone; rm link",
		func() { require.NoError(t, unix.Removexattr(in("taken"), "security.capability")) },
		attribute("plain", "security.capability", netRaw), attribute("folder", "security.deckhand", []byte("another")))
	require.Equal(t, []string{
		"deleted deleted", "metadata folder", "deleted gone", "deleted link", "metadata plain", "metadata taken", "modified written",
	}, paths(changed.GetChanges()))
	out, err := s.UndoChanges(t.Context(), &nodev1.UndoChangesRequest{JailId: m.hostID(), Range: &nodev1.ChangeRange{By: []string{"step_1"}}})
	require.NoError(t, err)
	require.True(t, out.GetApplied(), "%v", out.GetConflicts())
	require.Equal(t, before, picture(t, m.dir()))
	n, err = unix.Lgetxattr(in("link"), "trusted.note", linked)
	require.NoError(t, err)
	require.Equal(t, "of the link", string(linked[:n]))
	require.Zero(t, m.stepIn(t, s, m.hostID(), "step_2", "true").GetFiles())
}
