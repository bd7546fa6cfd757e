package jail_test

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/initd"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ensure makes a small jail and returns its id.
func ensure(t *testing.T, m *jail.Manager, change ...func(*nodev1.JailSpec)) string {
	t.Helper()
	spec := jailtest.Spec(ident.New("jail"))
	for _, fn := range change {
		fn(spec)
	}
	_, err := m.Ensure(t.Context(), spec)
	require.NoError(t, err)
	return spec.GetJailId()
}

// begin starts a script in a jail by its init, without ledger, and returns the
// exec's id.
func begin(t *testing.T, m *jail.Manager, id, script string) string {
	t.Helper()
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	uid, gid := conn.User()
	execID := ident.New("step")
	resp, err := conn.Start(t.Context(), &initv1.StartRequest{
		ExecId: execID, Argv: []string{"/bin/sh", "-c", script}, Uid: uid, Gid: gid,
	})
	require.NoError(t, err)
	require.Empty(t, resp.GetStatus().GetStartError())
	return execID
}

// sh runs a script in a jail to its end and returns that and its output.
func sh(t *testing.T, m *jail.Manager, id, script string) (*initv1.Status, string) {
	t.Helper()
	execID := begin(t, m, id, script)
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	resp, err := conn.Wait(t.Context(), &initv1.WaitRequest{ExecId: execID, TimeoutMs: (5 * time.Minute).Milliseconds()}) // a search of all files, on a busy machine
	require.NoError(t, err)
	require.True(t, resp.GetStatus().GetEnded(), "it goes on and on: %s", script)
	return resp.GetStatus(), output(t, m, id, execID)
}

// output returns what an exec has written so far.
func output(t *testing.T, m *jail.Manager, id, execID string) string {
	t.Helper()
	dir, err := m.OpenExec(id, execID)
	require.NoError(t, err)
	defer dir.Close()
	f, err := dir.Open("data")
	require.NoError(t, err)
	defer f.Close()
	raw, err := io.ReadAll(f)
	require.NoError(t, err)
	return string(raw)
}

// until waits for a command's output to hold a text.
func until(t *testing.T, m *jail.Manager, id, execID, text string) {
	t.Helper()
	eventually(t, func() bool { return contains(output(t, m, id, execID), text) }, "output %q", text)
}

// stateOf returns the state folder of a jail.
func stateOf(cfg jail.Config, id string) string {
	return filepath.Join(cfg.DataDir, "jails", id, "state")
}

// execDir returns the folder of an exec.
func execDir(cfg jail.Config, id, execID string) string {
	return filepath.Join(stateOf(cfg, id), initd.ExecsDir, execID)
}
