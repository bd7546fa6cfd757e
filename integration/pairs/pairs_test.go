// Package pairs runs the programs of an earlier release beside today's: what an installation
// is while it is upgraded.
package pairs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// previous is the commit that stands for the release before: the first whose nodes enrol by
// deckhand.enrollment.v1 and whose errors are deckhand.error.v1, so that programs of before do
// not work with those of today. Nothing was released before it. Move it to the tag of a release
// once there is one.
const previous = "e64a57ee"

// earlier returns the folder of its programs: the one that DECKHAND_PREVIOUS names, or a new
// build.
func earlier(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("DECKHAND_PREVIOUS"); dir != "" {
		return dir
	}
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("it builds an earlier release: set DECKHAND_SOAK=1, or DECKHAND_PREVIOUS to the folder of its programs")
	}
	root, err := filepath.Abs(harness.Root)
	require.NoError(t, err)
	tree := filepath.Join(t.TempDir(), "tree")
	run := func(dir, name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v\n%s", name, args, out)
	}
	run(root, "git", "worktree", "add", "--detach", tree, previous)
	t.Cleanup(func() {
		_ = exec.Command("git", "-C", root, "worktree", "remove", "--force", tree).Run() // it is in a temporary folder
	})
	run(tree, "scripts/build-init")
	run(tree, "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", "bin/", "./cmd/deckhand", "./cmd/deckhand-node")
	return filepath.Join(tree, "bin")
}

// fleet is an installation of which each part is of one of the releases.
type fleet struct {
	*harness.Fleet

	old string // folder of the earlier programs
}

func (f fleet) program(name string, old bool) string {
	if old {
		return filepath.Join(f.old, name)
	}
	return harness.Binary(f.T, name)
}

func newFleet(t *testing.T, old string) fleet {
	t.Helper()
	f := fleet{&harness.Fleet{
		T: t, Dir: t.TempDir(), NodeDir: jailtest.Dir(t), Database: postgrestest.Database(t), Containerd: jailtest.Containerd(t),
	}, old}
	t.Cleanup(func() {
		jailtest.RemoveAll(t, jail.Config{DataDir: f.NodeDir, Containerd: f.Containerd, Namespace: f.Namespace()})
	})
	return f
}

// hub starts a hub, and returns it with its data folder, whose keyset is that of the first.
func (f fleet) hub(old bool, dir string) *harness.Process {
	f.T.Helper()
	p := harness.Start(f.T, []string{"DECKHAND_DATABASE_URL=" + f.Database}, f.program("deckhand", old),
		"hub", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0",
		"--provider-allow", "127.0.0.0/8", "--lease-ttl", harness.LeaseTTL.String())
	waittest.Until(f.T, time.Minute, "the hub to be ready", func() bool { return strings.Contains(p.Output.String(), "hub is ready") })
	return p
}

func (f fleet) worker(old bool) {
	f.T.Helper()
	harness.Start(f.T, []string{"DECKHAND_TOKEN=" + f.Token("worker-token")}, f.program("deckhand", old), "worker", "--hub-url", f.URL())
}

func (f fleet) node(old bool) {
	f.T.Helper()
	token := strings.TrimSpace(f.CLI(0, "node", "token").Out)
	harness.Start(f.T, []string{"DECKHAND_JOIN_TOKEN=" + token}, f.program("deckhand-node", old),
		"--data-dir", f.NodeDir, "--hub-url", f.URL(), "--containerd", f.Containerd, "--containerd-namespace", f.Namespace())
	f.Connected(1)
}

// cli runs the command line of one of the releases.
func (f fleet) cli(old bool, args ...string) string {
	f.T.Helper()
	cmd := exec.CommandContext(f.T.Context(), f.program("deckhand", old), args...)
	cmd.Env = append(os.Environ(), "DECKHAND_DATA_DIR="+f.Dir, "HOME="+f.T.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(f.T, err, "%v\n%s", args, out)
	return string(out)
}

const script = `turns:
  - calls:
      - {tool: file_write, arguments: {path: note.txt, content: "kept\n"}}
  - calls:
      - {tool: shell_exec, arguments: {command: "cat note.txt; echo done > done.txt"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`

// works runs a task through all parts.
func (f fleet) works(oldCLI bool) {
	f.T.Helper()
	f.cli(oldCLI, "run", "keeper", "begin", "--wait", "--timeout", "1m")
	require.Contains(f.T, f.cli(oldCLI, "task", "list"), "succeeded")
	require.Contains(f.T, f.cli(oldCLI, "node", "list"), "connected")
	require.Contains(f.T, f.cli(oldCLI, "agent", "list"), "keeper")
}

func (f fleet) persona(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keeper.md"), []byte("---\nname: keeper\ndescription: For tests.\nprovider: script\nscript: keeper.script.yaml\ntools: [shell_exec, file_write, complete_task]\n---\nDo what the script says.\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keeper.script.yaml"), []byte(script), 0o600))
	f.cli(false, "agent", "apply", "-f", dir)
}

// Each part of the earlier release works with the others of today's, and the other way round.
func TestReleasesWorkTogether(t *testing.T) {
	old := earlier(t)
	for name, part := range map[string]struct{ hub, worker, node, cli bool }{
		"an earlier hub":                    {hub: true},
		"an earlier worker":                 {worker: true},
		"an earlier node":                   {node: true},
		"an earlier command line":           {cli: true},
		"all but the hub of the earlier":    {worker: true, node: true, cli: true},
		"all but the worker of the earlier": {hub: true, node: true, cli: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, old)
			f.Hub = f.hub(part.hub, f.Dir)
			f.worker(part.worker)
			f.node(part.node)
			f.persona(t)
			f.works(part.cli)
		})
	}
}

// Hubs are upgraded one after another on one database: the earlier one goes on serving, with
// its worker and node, when today's has changed the schema, and today's takes over.
func TestAnEarlierHubServesBesideTodays(t *testing.T) {
	old := earlier(t)
	f := newFleet(t, old)
	f.Hub = f.hub(true, f.Dir)
	f.worker(true)
	f.node(true)
	f.persona(t)
	f.works(true)

	dir := t.TempDir()
	keyset, err := os.ReadFile(filepath.Join(f.Dir, "keyset.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keyset.json"), keyset, 0o600))
	f.hub(false, dir)
	f.works(true) // at the earlier hub

	// At today's, whose worker reaches the node through the earlier hub.
	today := f
	today.Fleet = &harness.Fleet{T: t, Dir: dir, NodeDir: f.NodeDir, Database: f.Database, Containerd: f.Containerd}
	token, err := os.ReadFile(filepath.Join(f.Dir, "admin-token"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "admin-token"), token, 0o600))
	token, err = os.ReadFile(filepath.Join(f.Dir, "worker-token"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker-token"), token, 0o600))
	today.worker(false)
	today.works(false)
}
