// Package integration runs Deckhand's real binaries as processes of their own
// on real PostgreSQL, NATS and containerd, kills them, and looks at what is
// left. It needs root.
package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) { os.Exit(jailtest.Run(m)) }

// binaries builds deckhand and deckhand-node once for the test run.
var binaries = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("make", "-s", "-C", root, "build").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(root, "bin"), nil
})

func bin(t testing.TB, name string) string {
	t.Helper()
	dir, err := binaries()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// process is a running binary. Its output is shown when the test fails.
type process struct {
	cmd    *exec.Cmd
	output *lockedBuffer
	done   chan struct{}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs a binary until the test ends.
func start(t testing.TB, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), output: &lockedBuffer{}, done: make(chan struct{})}
	// Tests load the machine themselves: that is no reason to start nothing.
	p.cmd.Env = append(append(os.Environ(), "DECKHAND_PRESSURE_MAX_LOAD=off"), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // its exit is looked at where it matters
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("--- %s %s\n%s", filepath.Base(path), strings.Join(args, " "), tail(p.output.String(), 20_000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "[...]" + s[len(s)-n:]
	}
	return s
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process in order; one that does not within 30 s is killed.
func (p *process) stop(t testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Errorf("%s did not stop within 30 s of SIGTERM", p.cmd.Path)
		p.kill()
	}
}

// eventually waits for a condition on a process of its own, which gives no
// other signal.
func eventually(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, within, 50*time.Millisecond, what)
}

// fleet is a hub, and what else a test starts beside it.
type fleet struct {
	t        testing.TB
	dir      string // of the hub
	nodeDir  string
	database string
	hub      *process
	address  string   // of containerd
	env      []string // of hub and workers, besides
}

const leaseTTL = 3 * time.Second

// newFleet starts a hub on a database of its own.
func newFleet(t testing.TB) *fleet { return newFleetOn(t) }

// newFleetOn is newFleet with flags of the hub's besides.
func newFleetOn(t testing.TB, args ...string) *fleet {
	t.Helper()
	return newFleetWith(t, nil, args...)
}

// newFleetWith is newFleetOn with variables for hub and workers.
func newFleetWith(t testing.TB, env []string, args ...string) *fleet {
	t.Helper()
	f := &fleet{
		env: env, t: t, dir: t.TempDir(), nodeDir: jailtest.Dir(t), database: storetest.Database(t), address: jailtest.Containerd(t),
	}
	f.startHub(args...)
	t.Cleanup(func() {
		jailtest.RemoveAll(t, jail.Config{DataDir: f.nodeDir, Containerd: f.address, Namespace: f.namespace()})
	})
	return f
}

func (f *fleet) startHub(args ...string) {
	f.t.Helper()
	f.hub = start(f.t, append([]string{"DECKHAND_DATABASE_URL=" + f.database}, f.env...), bin(f.t, "deckhand"), append([]string{
		"hub", "--data-dir", f.dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--provider-allow", "127.0.0.0/8",
		"--lease-ttl", leaseTTL.String(),
	}, args...)...)
	eventually(f.t, 30*time.Second, "the hub to be ready", func() bool {
		return strings.Contains(f.hub.output.String(), "hub is ready")
	})
}

func (f *fleet) url() string {
	data, err := os.ReadFile(filepath.Join(f.dir, "hub-url"))
	require.NoError(f.t, err)
	return strings.TrimSpace(string(data))
}

func (f *fleet) startWorker(args ...string) *process {
	f.t.Helper()
	token, err := os.ReadFile(filepath.Join(f.dir, "worker-token"))
	require.NoError(f.t, err)
	return start(f.t, append([]string{"DECKHAND_TOKEN=" + strings.TrimSpace(string(token))}, f.env...), bin(f.t, "deckhand"),
		append([]string{"worker", "--hub-url", f.url()}, args...)...)
}

// startNode starts the node daemon, enrolling it on the first call.
func (f *fleet) startNode() *process {
	f.t.Helper()
	return f.startNodeIn(f.nodeDir)
}

// addNode starts a node beside the fleet's own.
func (f *fleet) addNode(name string) *process {
	f.t.Helper()
	dir := jailtest.Dir(f.t)
	f.t.Cleanup(func() {
		jailtest.RemoveAll(f.t, jail.Config{DataDir: dir, Containerd: f.address, Namespace: namespaceOf(dir)})
	})
	return f.startNodeIn(dir, "--name", name)
}

func (f *fleet) startNodeIn(dir string, args ...string) *process {
	f.t.Helper()
	args = append([]string{"--data-dir", dir, "--hub-url", f.url(), "--containerd", f.address, "--containerd-namespace", namespaceOf(dir), "--show-paths", "/var/log,/opt", "--special-addresses", "127.0.0.0/8"}, args...)
	var nodes []struct{ Status string }
	f.json(&nodes, "node", "list")
	wanted := len(nodes)
	var env []string
	if _, err := os.Stat(filepath.Join(dir, "identity")); err != nil {
		env = []string{"DECKHAND_JOIN_TOKEN=" + strings.TrimSpace(f.cli(0, "node", "token").out)}
		wanted++
	}
	p := start(f.t, env, bin(f.t, "deckhand-node"), args...)
	eventually(f.t, 30*time.Second, "the node to be connected", func() bool {
		f.json(&nodes, "node", "list")
		for _, n := range nodes {
			if n.Status != "connected" {
				return false
			}
		}
		return len(nodes) == wanted
	})
	return p
}

// namespace keeps this fleet's containers apart from other tests'.
func (f *fleet) namespace() string { return namespaceOf(f.nodeDir) }

func namespaceOf(dir string) string { return "it-" + strings.ToLower(filepath.Base(dir)) }

// result is what one run of the command line answered.
type result struct {
	code     int
	out, err string
}

// cli runs the command line against the fleet's hub and checks its exit code.
func (f *fleet) cli(code int, args ...string) result {
	f.t.Helper()
	r := run(f.t, []string{"DECKHAND_DATA_DIR=" + f.dir}, args...)
	require.Equal(f.t, code, r.code, "deckhand %s\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.out, r.err)
	return r
}

// run runs the command line.
func run(t testing.TB, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin(t, "deckhand"), args...)
	cmd.Env = append(os.Environ(), append([]string{"HOME=" + t.TempDir()}, env...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// json runs the command line with -o json and reads what it answers.
func (f *fleet) json(into any, args ...string) {
	f.t.Helper()
	r := f.cli(0, append(args, "-o", "json")...)
	require.NoError(f.t, json.Unmarshal([]byte(r.out), into), r.out)
}

// task is what the tests read of a task.
type task struct {
	ID, State, Reason, Summary string
	Attempt                    int
}

func (f *fleet) task(id string) (t task) {
	f.t.Helper()
	f.json(&t, "task", "show", id)
	return t
}

// persona applies a scripted agent, with lines of front matter besides.
func (f *fleet) persona(name, script string, keys ...string) {
	f.t.Helper()
	dir := f.t.TempDir()
	require.NoError(f.t, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
limits: {iterations: 30}
tools: [shell_exec, file_read, file_write, file_edit, file_list, update_plan, manage_scratchpad, log_digest, semantic_grep, file_outline, json_query, csv_profile, tree_digest, tail_stats, workspace_sync, file_append, create_subtask, http_get, http_post, http_put, http_download, web_search, complete_task]
%[2]s
---
Do what the script says.
`, name, strings.Join(keys, "\n")), 0o600))
	require.NoError(f.t, os.WriteFile(filepath.Join(dir, name+".script.yaml"), []byte(script), 0o600))
	f.cli(0, "agent", "apply", "-f", dir)
}

// submit submits a task and answers its id.
func (f *fleet) submit(agent string) string {
	f.t.Helper()
	return strings.TrimSpace(f.cli(0, "run", agent, "go on", "-o", "name").out)
}

// edgeListener returns where the hub's edge itself listens.
func (f *fleet) edgeListener() string {
	f.t.Helper()
	_, after, found := strings.Cut(f.hub.output.String(), `"edge_listen":"`)
	require.True(f.t, found)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// addresses returns where a hub listens, so that another can take its place.
func (p *process) addresses(t testing.TB) (api, edge, bus string) {
	t.Helper()
	for line := range strings.Lines(p.output.String()) {
		var ready struct {
			Message        string `json:"@message"`
			API, Edge, Bus string
		}
		if json.Unmarshal([]byte(line), &ready) == nil && ready.Message == "hub is ready" {
			bare := func(url string) string { _, address, _ := strings.Cut(url, "://"); return address }
			return bare(ready.API), ready.Edge, bare(ready.Bus)
		}
	}
	t.Fatal("the hub never said where it listens")
	return "", "", ""
}
