package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
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

	var m *deckhandv1.GetMachineResponse
	waittest.Until(t, time.Minute, "the node to say what it can", func() bool {
		m, err = c.Machines.GetMachine(t.Context(), &deckhandv1.GetMachineRequest{NodeId: name})
		return err == nil
	})
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

	// There is no other way to them, which would not be audited.
	for _, jail := range []string{"browsed", nodelink.BrowsedFiles} {
		_, err = c.Files.ReadFile(t.Context(), &deckhandv1.ReadFileRequest{
			Workspace: &deckhandv1.ReadFileRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: name, JailId: jail}}, Path: filepath.Join(shown, "app.conf"),
		})
		require.Error(t, err, jail)
		_, err = c.Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
			Workspace: &deckhandv1.ListFilesRequest_Jail{Jail: &deckhandv1.JailRef{NodeId: name, JailId: jail}}, Path: shown,
		})
		require.Error(t, err, jail)
	}

	audited := f.CLI(0, "audit", "list", "-o", "json").Out
	for _, action := range []string{"node.journal_read", "node.folder_listed", "node.file_read"} {
		require.Equal(t, 1, strings.Count(audited, `"`+action+`"`), "%s in %s", action, audited)
	}
	require.Equal(t, 2, strings.Count(audited, `"node.look_refused"`), audited)
	require.Contains(t, audited, "/etc/passwd")
	require.NotContains(t, f.CLI(0, "audit", "list", "--severity", "high", "-o", "json").Out, `"node.journal_read"`)
}
