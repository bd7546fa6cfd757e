package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Fleet is a hub, and what a test starts beside it. A test that starts the hub in
// another way, such as by `deckhand up`, sets T and Dir and uses the rest.
type Fleet struct {
	T          testing.TB
	Dir        string // data folder of the hub
	NodeDir    string // data folder of the first node
	Database   string // URL
	Hub        *Process
	Containerd string   // address
	Env        []string // variables of hub and workers
	NodeEnv    []string // variables of nodes
}

// LeaseTTL is short, so that a worker that died is missed soon, but longer where the
// machine is slow, so that a live worker renews in time.
var LeaseTTL = waittest.Limit(3 * time.Second)

// New starts a hub on a database of its own.
func New(t testing.TB) *Fleet { return NewOn(t) }

// NewOn is New with flags for the hub.
func NewOn(t testing.TB, args ...string) *Fleet {
	t.Helper()
	return NewWith(t, nil, args...)
}

// NewWith is NewOn with variables for hub and workers.
func NewWith(t testing.TB, env []string, args ...string) *Fleet {
	t.Helper()
	f := &Fleet{
		Env: env, T: t, Dir: t.TempDir(), NodeDir: jailtest.Dir(t), Database: storetest.Database(t), Containerd: jailtest.Containerd(t),
	}
	f.StartHub(args...)
	t.Cleanup(func() {
		jailtest.RemoveAll(t, jail.Config{DataDir: f.NodeDir, Containerd: f.Containerd, Namespace: f.Namespace()})
	})
	return f
}

// StartHub starts the hub, also again after its end, and waits until it is ready.
func (f *Fleet) StartHub(args ...string) {
	f.T.Helper()
	f.Hub = Start(f.T, append([]string{"DECKHAND_DATABASE_URL=" + f.Database}, f.Env...), Binary(f.T, "deckhand"), append([]string{
		"hub", "--data-dir", f.Dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--provider-allow", "127.0.0.0/8",
		"--lease-ttl", LeaseTTL.String(),
	}, args...)...)
	waittest.Until(f.T, 30*time.Second, "the hub to be ready", func() bool {
		return strings.Contains(f.Hub.Output.String(), "hub is ready")
	})
}

// URL returns the address of the hub's API.
func (f *Fleet) URL() string {
	f.T.Helper()
	return strings.TrimSpace(ReadFile(f.T, filepath.Join(f.Dir, "hub-url")))
}

// Token returns a token that the hub wrote into its folder: "admin-token" or
// "worker-token".
func (f *Fleet) Token(name string) string {
	f.T.Helper()
	return strings.TrimSpace(ReadFile(f.T, filepath.Join(f.Dir, name)))
}

// Client returns a client of the hub's API with the administrator's token. It tries no call
// again.
func (f *Fleet) Client() *sdk.Client {
	f.T.Helper()
	// The hub may be killed between two calls and listen elsewhere after: no
	// connection is kept.
	transport := &http.Transport{DisableKeepAlives: true}
	client, err := sdk.New(sdk.Config{URL: f.URL(), Token: f.Token("admin-token"), HTTPClient: &http.Client{Transport: transport}, Retries: -1})
	require.NoError(f.T, err)
	return client
}

// call bounds one call of the API.
func (f *Fleet) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), waittest.Limit(time.Minute))
}

// StartWorker starts a worker.
func (f *Fleet) StartWorker(args ...string) *Process {
	f.T.Helper()
	return Start(f.T, append([]string{"DECKHAND_TOKEN=" + f.Token("worker-token")}, f.Env...), Binary(f.T, "deckhand"),
		append([]string{"worker", "--hub-url", f.URL()}, args...)...)
}

// StartNode starts the first node and waits until it is connected. The first call
// enrols it.
func (f *Fleet) StartNode() *Process {
	f.T.Helper()
	return f.StartNodeIn(f.NodeDir)
}

// AddNode starts a node beside the first one.
func (f *Fleet) AddNode(name string) *Process {
	f.T.Helper()
	p, _ := AddNodeIn(f, name)
	return p
}

// AddNodeIn is AddNode, and returns the node's data folder, in which RestartNode starts it again.
func AddNodeIn(f *Fleet, name string) (p *Process, dir string) {
	f.T.Helper()
	dir = jailtest.Dir(f.T)
	f.T.Cleanup(func() {
		jailtest.RemoveAll(f.T, jail.Config{DataDir: dir, Containerd: f.Containerd, Namespace: NamespaceOf(dir)})
	})
	return f.StartNodeIn(dir, "--name", name), dir
}

// StartNodeIn starts a node with a data folder and waits until all nodes are
// connected.
func (f *Fleet) StartNodeIn(dir string, args ...string) *Process {
	f.T.Helper()
	wanted := len(f.nodes())
	env := slices.Clone(f.NodeEnv)
	if _, err := os.Stat(filepath.Join(dir, "identity")); err != nil {
		env = append(env, "DECKHAND_JOIN_TOKEN="+strings.TrimSpace(f.CLI(0, "node", "token").Out))
		wanted++
	}
	p := startNode(f, env, dir, args)
	f.Connected(wanted)
	return p
}

// RestartNode starts a node that was enrolled before, and does not wait until it is connected:
// others may be away.
func RestartNode(f *Fleet, dir string, args ...string) *Process {
	f.T.Helper()
	return startNode(f, f.NodeEnv, dir, args)
}

func startNode(f *Fleet, env []string, dir string, args []string) *Process {
	f.T.Helper()
	return Start(f.T, env, Binary(f.T, "deckhand-node"), append([]string{
		"--data-dir", dir, "--hub-url", f.URL(), "--containerd", f.Containerd, "--containerd-namespace", NamespaceOf(dir),
		"--show-paths", "/var/log,/opt", "--special-addresses", "127.0.0.0/8",
	}, args...)...)
}

func (f *Fleet) nodes() []*deckhandv1.Node {
	f.T.Helper()
	ctx, cancel := f.call()
	defer cancel()
	res, err := f.Client().Nodes.ListNodes(ctx, &deckhandv1.ListNodesRequest{})
	require.NoError(f.T, err)
	return res.GetNodes()
}

// NodeName returns the name of the only node.
func (f *Fleet) NodeName() string {
	f.T.Helper()
	nodes := f.nodes()
	require.Len(f.T, nodes, 1)
	return nodes[0].GetName()
}

// NodeID returns the id of the only node.
func (f *Fleet) NodeID() string {
	f.T.Helper()
	nodes := f.nodes()
	require.Len(f.T, nodes, 1)
	return nodes[0].GetId()
}

// Connected waits until the hub has n nodes and all are connected.
func (f *Fleet) Connected(n int) {
	f.T.Helper()
	waittest.Until(f.T, time.Minute, "the nodes to be connected", func() bool {
		nodes := f.nodes()
		for _, node := range nodes {
			if node.GetStatus() != "connected" {
				return false
			}
		}
		return len(nodes) == n
	})
}

// Namespace keeps the containers of the first node apart from those of other
// tests.
func (f *Fleet) Namespace() string { return NamespaceOf(f.NodeDir) }

// NamespaceOf returns containerd's namespace for the node with a data folder.
func NamespaceOf(dir string) string { return "it-" + strings.ToLower(filepath.Base(dir)) }

// CLI runs the command line against the fleet's hub and checks its exit code.
func (f *Fleet) CLI(code int, args ...string) Result {
	f.T.Helper()
	r := Run(f.T, []string{"DECKHAND_DATA_DIR=" + f.Dir}, args...)
	require.Equal(f.T, code, r.Code, "deckhand %s\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.Out, r.Err)
	return r
}

// JSON runs the command line with -o json and decodes what it prints.
func (f *Fleet) JSON(into any, args ...string) {
	f.T.Helper()
	r := f.CLI(0, append(args, "-o", "json")...)
	require.NoError(f.T, json.Unmarshal([]byte(r.Out), into), r.Out)
}

// Person returns the command line as a person with a terminal runs it.
func (f *Fleet) Person(ctx context.Context, args ...string) *exec.Cmd {
	f.T.Helper()
	cmd := exec.CommandContext(ctx, Binary(f.T, "deckhand"), args...)
	cmd.Env = append(os.Environ(), "HOME="+f.T.TempDir(), "DECKHAND_DATA_DIR="+f.Dir, "TERM=xterm")
	return cmd
}

// EdgeListener returns the address at which the hub's edge itself listens.
func (f *Fleet) EdgeListener() string {
	f.T.Helper()
	_, after, found := strings.Cut(f.Hub.Output.String(), `"edge_listen":"`)
	require.True(f.T, found)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// Addresses returns where a hub listens, so that another can take its place.
func (p *Process) Addresses(t testing.TB) (api, edge, bus string) {
	t.Helper()
	for line := range strings.Lines(p.Output.String()) {
		var ready struct {
			Message        string `json:"@message"`
			API, Edge, Bus string
		}
		if json.Unmarshal([]byte(line), &ready) == nil && ready.Message == "hub is ready" {
			bare := func(url string) string { _, address, _ := strings.Cut(url, "://"); return address }
			return bare(ready.API), ready.Edge, bare(ready.Bus)
		}
	}
	t.Fatal("the hub never logged where it listens")
	return "", "", ""
}

// Persona applies a scripted agent, with more lines of front matter in keys.
func (f *Fleet) Persona(name, script string, keys ...string) {
	f.T.Helper()
	dir := f.T.TempDir()
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".md"), fmt.Appendf(nil, `---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
limits: {iterations: 30}
tools: [shell_exec, checkpoint, terminal_open, file_read, file_write, file_edit, apply_patch, file_move, file_list, update_plan, manage_scratchpad, log_digest, semantic_grep, file_outline, json_query, csv_profile, tree_digest, tail_stats, workspace_sync, file_append, file_search, glob, create_subtask, context_search, memory_store, memory_retrieve, memory_forget, rag_query, rag_index, pattern_match, http_get, http_post, http_put, http_download, browser_navigate, browser_click, browser_type, browser_select, browser_press, browser_scroll, browser_extract, browser_screenshot, browser_execute_js, browser_upload, browser_hover, browser_console, browser_network, web_search, pull_request_open, pull_request_comment, git_push, send_notification, send_email, webhook_trigger, node_list, service_status, journal_read, complete_task]
%[2]s
---
Do what the script says.
`, name, strings.Join(keys, "\n")), 0o600))
	require.NoError(f.T, os.WriteFile(filepath.Join(dir, name+".script.yaml"), []byte(script), 0o600))
	f.CLI(0, "agent", "apply", "-f", dir)
}
