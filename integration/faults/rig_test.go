package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// rig is a whole Deckhand.
type rig struct {
	t      testing.TB
	dir    string
	number int32 // among those of this process
	id     string

	units      []*unit
	pg         *unit
	nats       *unit
	containerd *unit
	hubs       []*unit
	workers    []*unit
	nodes      []*unit

	points   *points
	database string
	db       *pgxpool.Pool
	socket   string // containerd's
	natsEnv  []string
	// hubArgs and workerArgs are more flags of hubs and workers.
	hubArgs, workerArgs []string
	leaseTTL            time.Duration
	api                 string // where the balancer, or the only hub, is
	client              *sdk.Client
	// operator is where the test's own calls come from.
	operator *host

	settled map[string]task // the state of tasks when they settled
	notesMu sync.Mutex
	notes   []string // of what was done to it; guarded by notesMu
}

// serial numbers the rigs and rounds of this process.
var serial atomic.Int32

// newRig makes the folder and starts what all roles need.
func newRig(t testing.TB, leaseTTL time.Duration) *rig {
	t.Helper()
	r := newBareRig(t, leaseTTL)
	r.startContainerd()
	return r
}

// newBareRig is newRig without containerd, for nodes that have no jails.
func newBareRig(t testing.TB, leaseTTL time.Duration) *rig {
	t.Helper()
	needRoot(t)
	r := &rig{t: t, number: serial.Add(1), leaseTTL: waittest.Limit(leaseTTL), settled: map[string]task{}}
	r.id = fmt.Sprintf("%x-%d", os.Getpid(), r.number)
	var err error
	r.dir, err = os.MkdirTemp("", "deckhand-faults-")
	require.NoError(t, err)
	// For the user postgres, and for jails' user namespaces.
	require.NoError(t, os.Chmod(r.dir, 0o711))
	t.Cleanup(func() {
		r.unmount()
		require.NoError(t, os.RemoveAll(r.dir))
		r.gone()
		if t.Failed() && len(r.notes) > 0 {
			t.Logf("--- faults\n%s", strings.Join(r.notes, "\n"))
		}
	})
	r.points = newPoints(t, r.dir, filepath.Join(r.dir, "node-*", "jails", "*", "state"))
	r.startPostgres()
	r.db, err = pgxpool.New(t.Context(), r.database)
	require.NoError(t, err)
	t.Cleanup(func() { r.db.Close() })
	return r
}

// unmount lets go of everything below the rig's folder, the innermost first.
func (r *rig) unmount() {
	raw, err := os.ReadFile("/proc/self/mounts")
	require.NoError(r.t, err)
	lines := strings.Split(string(raw), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1], r.dir+"/") {
			require.NoError(r.t, unix.Unmount(fields[1], unix.MNT_DETACH))
		}
	}
}

// eventually waits for processes of their own, which give no other signal.
func (r *rig) eventually(within time.Duration, what string, condition func() bool) {
	r.t.Helper()
	limit := waittest.Limit(within)
	for end := time.Now().Add(limit); !condition(); <-time.After(30 * time.Millisecond) {
		if time.Now().After(end) {
			require.Failf(r.t, "waited "+limit.String(), "for %s\ntasks that are open: %+v", what, r.open())
		}
	}
}

// env returns a process's environment.
func (r *rig) env(more ...string) []string {
	return append(append(os.Environ(), "DECKHAND_PRESSURE_MAX_LOAD=off", crashpoint.Env+"="+r.points.socket, "HOME="+r.dir), more...)
}

// startHub starts a hub; edgeTold is the address of its edge that nodes get.
func (r *rig) startHub(on *host, api, edge, edgeTold string) {
	r.t.Helper()
	n := len(r.hubs) + 1
	dir := filepath.Join(r.dir, fmt.Sprintf("hub-%d", n))
	require.NoError(r.t, os.Mkdir(dir, 0o711))
	if n > 1 {
		keyset, err := os.ReadFile(filepath.Join(r.dir, "hub-1", "keyset.json"))
		require.NoError(r.t, err)
		require.NoError(r.t, os.WriteFile(filepath.Join(dir, "keyset.json"), keyset, 0o600))
	}
	r.hubs = append(r.hubs, r.unit(fmt.Sprintf("hub-%d", n), syscall.SIGTERM, func() *exec.Cmd {
		cmd := on.command(bin(r.t, "deckhand"), append([]string{
			"hub", "--data-dir", dir, "--listen", api, "--edge-listen", edge,
			"--edge-address", edgeTold, "--insecure-http", "--lease-ttl", r.leaseTTL.String(), "--max-active-per-user", "1000", "--notify-allow", "127.0.0.0/8",
			"--provider-allow", "127.0.0.0/8",
		}, r.hubArgs...)...)
		cmd.Env = r.env(append(r.natsEnv, "DECKHAND_DATABASE_URL="+r.database)...)
		return cmd
	}))
	r.eventually(time.Minute, "the hub to be ready", func() bool {
		return strings.Contains(tail(r.hubs[n-1].log.Name(), 1<<20), "hub is ready")
	})
}

func (r *rig) token(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "hub-1", name))
	require.NoError(r.t, err)
	return strings.TrimSpace(string(data))
}

// connect makes the test's own client of the API.
func (r *rig) connect(api string) {
	r.t.Helper()
	r.api = "http://" + api
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return r.operator.dial(ctx, network, address)
		},
		// Each call may come to another hub than the one before, which may be
		// dead or cut off.
		DisableKeepAlives: true,
	}
	var err error
	r.client, err = sdk.New(sdk.Config{URL: r.api, Token: r.token("admin-token"), HTTPClient: &http.Client{Transport: transport}})
	require.NoError(r.t, err)
}

func (r *rig) startWorker(on *host, slots int) {
	name := fmt.Sprintf("worker-%d", len(r.workers)+1)
	r.workers = append(r.workers, r.unit(name, syscall.SIGTERM, func() *exec.Cmd {
		cmd := on.command(bin(r.t, "deckhand"), "worker", "--hub-url", r.api, "--name", name, "--slots", fmt.Sprint(slots))
		cmd.Args = append(cmd.Args, r.workerArgs...)
		cmd.Env = r.env("DECKHAND_TOKEN=" + r.token("worker-token"))
		return cmd
	}))
}

func (r *rig) nodeDir(n int) string { return filepath.Join(r.dir, fmt.Sprintf("node-%d", n)) }

// namespace keeps the containers of a node apart from those of others.
func (r *rig) namespace(n int) string { return fmt.Sprintf("faults-%s-%d", r.id, n) }

// startNode starts a node, numbered from 1, and has it enrolled.
func (r *rig) startNode(on *host, args ...string) {
	r.t.Helper()
	n := len(r.nodes) + 1
	name := fmt.Sprintf("node-%d", n)
	require.NoError(r.t, os.Mkdir(r.nodeDir(n), 0o711))
	r.t.Cleanup(func() {
		jailtest.RemoveAll(r.t, jail.Config{
			DataDir: r.nodeDir(n), Containerd: r.socket, Namespace: r.namespace(n), InitPath: bin(r.t, "deckhand-init"),
		})
	})
	res, err := r.client.Nodes.CreateJoinToken(r.t.Context(), &deckhandv1.CreateJoinTokenRequest{})
	require.NoError(r.t, err)
	r.nodes = append(r.nodes, r.unit(name, syscall.SIGTERM, func() *exec.Cmd {
		cmd := on.command(bin(r.t, "deckhand-node"), append([]string{
			"--data-dir", r.nodeDir(n), "--hub-url", r.api, "--name", name, "--containerd", r.socket,
			"--containerd-namespace", r.namespace(n), "--init-path", bin(r.t, "deckhand-init"),
		}, args...)...)
		cmd.Env = r.env("DECKHAND_JOIN_TOKEN=" + res.GetToken())
		return cmd
	}))
	r.eventually(time.Minute, "the node to be connected", func() bool {
		res, err := r.client.Nodes.ListNodes(r.t.Context(), &deckhandv1.ListNodesRequest{})
		if err != nil {
			return false
		}
		for _, node := range res.GetNodes() {
			if node.GetName() == name {
				return node.GetStatus() == "connected"
			}
		}
		return false
	})
}

// agent applies a scripted agent.
func (r *rig) agent(name, front, script string) {
	r.t.Helper()
	r.retry("apply "+name, func(ctx context.Context) error {
		_, err := r.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Script: script, Markdown: fmt.Sprintf(`---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
limits: {iterations: 30}
tools: [shell_exec, complete_task]
%[2]s
---
Do what the script says.
`, name, front),
		})
		return err
	})
}

// submit submits a task and returns its id.
func (r *rig) submit(agent, key string) (id string) {
	r.t.Helper()
	r.retry("submit to "+agent, func(ctx context.Context) error {
		res, err := r.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
			AgentId: agent, Goal: "Go on.", IdempotencyKey: key,
		})
		if err == nil {
			id = res.GetTask().GetId()
		}
		return err
	})
	return id
}

// callTimeout bounds one call, and one look into the database.
const callTimeout = 5 * time.Second

// retry calls the hub until it responds: it may have just died.
func (r *rig) retry(what string, call func(ctx context.Context) error) {
	r.t.Helper()
	var err error
	for end := time.Now().Add(waittest.Limit(time.Minute)); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(r.t.Context(), callTimeout)
		err = call(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	require.NoError(r.t, err, what)
}
