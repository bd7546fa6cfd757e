package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Administrators read the log of a node's daemon and the files of the machine that its operator
// shows, and nothing else; each look is in the audit log.
func TestAdministratorsLookAtAMachine(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	shown, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(shown, "app.conf"), []byte("listen 80\n"), 0o600))
	f.StartNodeIn(f.NodeDir, "--browse-paths", shown+","+f.NodeDir)
	c, name := f.Client(), f.NodeName()

	m, err := c.Machines.GetMachine(t.Context(), &deckhandv1.GetMachineRequest{NodeId: name})
	require.NoError(t, err)
	require.NotEmpty(t, m.GetKernel())
	require.Equal(t, []string{shown, f.NodeDir}, m.GetFolders())

	log, err := c.Machines.ReadJournal(t.Context(), &deckhandv1.ReadJournalRequest{NodeId: name, Grep: "node is ready", PageSize: 1})
	require.NoError(t, err)
	require.Len(t, log.GetEntries(), 1)
	require.Equal(t, "deckhand-node", log.GetEntries()[0].GetFields()["component"])
	_, err = c.Machines.ReadJournal(t.Context(), &deckhandv1.ReadJournalRequest{NodeId: name, Unit: "ssh.service"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)

	list, err := c.Machines.ListMachineFiles(t.Context(), &deckhandv1.ListMachineFilesRequest{NodeId: name, Path: shown})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(shown, "app.conf"), list.GetFiles()[0].GetPath())
	file, err := c.Machines.ReadMachineFile(t.Context(), &deckhandv1.ReadMachineFileRequest{NodeId: name, Path: filepath.Join(shown, "app.conf"), Offset: 7})
	require.NoError(t, err)
	require.Equal(t, "80\n", string(file.GetContent()))
	_, err = c.Machines.ReadMachineFile(t.Context(), &deckhandv1.ReadMachineFileRequest{NodeId: name, Path: "/etc/passwd"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	_, err = c.Machines.ListMachineFiles(t.Context(), &deckhandv1.ListMachineFilesRequest{NodeId: name, Path: f.NodeDir})
	require.ErrorContains(t, err, "the node's own data", "not even if the operator names it")

	audited := f.CLI(0, "audit", "list", "-o", "json").Out
	for _, action := range []string{"node.journal_read", "node.folder_listed", "node.file_read"} {
		require.Equal(t, 1, strings.Count(audited, `"`+action+`"`), "%s in %s", action, audited)
	}
}
