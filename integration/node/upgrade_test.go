package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/upgrade/upgradetest"
)

// A node upgrades itself when its hub says so, while a command goes on in a jail: the process
// stays, the program on the disk is the new one. It keeps the old one when the release is not
// signed by its key, or when the new program does not work.
func TestANodeUpgradesItself(t *testing.T) {
	t.Parallel()
	const next = "9.1.0-dev"
	require.Len(t, next, len(version.Version), "a release of this build has its version in place of this one")
	old, err := os.ReadFile(harness.Binary(t, "deckhand-node"))
	require.NoError(t, err)
	release := bytes.ReplaceAll(old, []byte(version.Version), []byte(next))
	program := filepath.Join(t.TempDir(), "deckhand-node")
	require.NoError(t, os.WriteFile(program, old, 0o700)) //nolint:gosec // a program
	key, served := upgradetest.NewKey(t), t.TempDir()

	f := harness.NewOn(t, "--node-programs", served)
	f.StartWorker()
	node := harness.Start(t, []string{"DECKHAND_JOIN_TOKEN=" + strings.TrimSpace(f.CLI(0, "node", "token").Out)}, program,
		"--data-dir", f.NodeDir, "--hub-url", f.URL(), "--containerd", f.Containerd, "--containerd-namespace", f.Namespace(), "--release-key", key.PublicFile(t))
	f.Connected(1)
	require.Contains(t, f.CLI(1, "node", "upgrade").Err, "no release for nodes")

	f.Persona("waiter", `turns:
  - calls:
      - {tool: shell_exec, arguments: {command: "echo begun; until [ -e go ]; do sleep 0.1; done; echo ended"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`)
	task := f.Submit("waiter")
	f.Started(task)

	type rollout struct {
		Version, State, Reason string
		Nodes                  []struct{ Name, State, Problem string }
	}
	runs := func() rollout {
		f.CLI(0, "node", "upgrade")
		var all []rollout
		waittest.Until(t, time.Minute, "the rollout to end", func() bool {
			f.JSON(&all, "node", "rollouts")
			return all[0].State != "running"
		})
		return all[0]
	}
	says := func(want string) {
		t.Helper()
		var nodes []struct{ Version string }
		waittest.Until(t, time.Minute, "the node to run "+want, func() bool {
			f.JSON(&nodes, "node", "list")
			return nodes[0].Version == want
		})
	}

	// By another key.
	upgradetest.Release(t, served, upgradetest.NewKey(t), next, release)
	ended := runs()
	require.Equal(t, "stopped", ended.State)
	require.Len(t, ended.Nodes, 1)
	require.Contains(t, ended.Nodes[0].Problem, "not by this machine's release key")

	// One that does not work.
	upgradetest.Release(t, served, key, next, []byte("#!/bin/sh\n[ \"$1\" != --version ] || { echo deckhand-node version "+next+"; exit; }\nexit 1\n"))
	ended = runs()
	require.Equal(t, "stopped", ended.State)
	require.Contains(t, ended.Reason, "1 nodes failed")
	require.Contains(t, ended.Nodes[0].Problem, "ended before it had a session with the hub")
	f.Connected(1)
	says(version.Version)
	require.Contains(t, f.CLI(0, "node", "list").Out, "upgrade to "+next+" failed")
	kept, err := os.ReadFile(program)
	require.NoError(t, err)
	require.True(t, bytes.Equal(old, kept), "the old program is there")

	// One that works.
	upgradetest.Release(t, served, key, next, release)
	ended = runs()
	require.Equal(t, "done", ended.State, "%v", ended)
	require.Equal(t, "installed", ended.Nodes[0].State)
	says(next)
	replaced, err := os.ReadFile(program)
	require.NoError(t, err)
	require.True(t, bytes.Equal(release, replaced), "the program is the new one")
	require.NotContains(t, f.CLI(0, "node", "list").Out, "failed")

	// The command went on, and the process is the same.
	touched := f.CLI(0, "node", "exec", f.NodeName(), "--task", task, "--", "touch", "go")
	require.Empty(t, touched.Err)
	f.Ended(task)
	require.Contains(t, f.CLI(0, "task", "logs", task).Out, "ended")
	node.Stop(t)
}
