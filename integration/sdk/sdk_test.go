package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// fleet is a hub with what the examples of the documentation need.
type fleet struct {
	*harness.Fleet
}

// env are the variables that the examples read.
func (f fleet) env(more ...string) []string {
	return append(os.Environ(), append([]string{"DECKHAND_URL=" + f.URL(), "DECKHAND_TOKEN=" + f.Token("admin-token")}, more...)...)
}

// run runs a program and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(3*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaint bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &complaint
	require.NoError(t, cmd.Run(), "%s %s\n%s%s", name, strings.Join(args, " "), &out, &complaint)
	return out.String()
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	f := fleet{harness.NewOn(t, "--notify-allow", "127.0.0.0/8")}
	f.StartNode()
	f.StartWorker()
	f.CLI(0, "agent", "apply", "-f", "../../docs/quickstart")
	f.CLI(0, "agent", "apply", "-f", "../../docs/sdk")
	return f
}

// The examples share one fleet, and each part runs beside the others.
func TestTheExamplesOfTheSDKsWork(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		out := run(t, "../../sdk", f.env(), "go", "test", "-count=1", "-vet=off", "-ldflags=-s -w", "-v", "-run=^Example", ".")
		require.Equal(t, 8, strings.Count(out, "--- PASS: Example"), out)
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		f.typeScript(t)
	})
}

// modules are the console's, which the SDK is built with too.
func modules(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../ui/node_modules")
	require.NoError(t, err)
	return dir
}

// packed installs the SDK's package as npm packs it, below a new folder.
func packed(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var made []struct {
		Filename string
		Files    []struct{ Path string }
	}
	out := run(t, "../../sdk/ts", os.Environ(), "npm", "pack", "--json", "--silent", "--pack-destination", dir)
	require.NoError(t, json.Unmarshal([]byte(out[strings.Index(out, "["):]), &made), out)
	require.Len(t, made, 1)
	files := map[string]bool{}
	for _, file := range made[0].Files {
		files[file.Path] = true
		top, _, _ := strings.Cut(file.Path, "/")
		require.Contains(t, []string{"dist", "package.json", "README.md", "LICENSE"}, top, "nothing else is published")
		require.NotContains(t, file.Path, ".test.")
	}
	for _, path := range []string{"dist/index.js", "dist/index.d.ts", "dist/gen/deckhand/v1/task_pb.js", "dist/gen/deckhand/v1/task_pb.d.ts", "README.md", "LICENSE"} {
		require.True(t, files[path], "%s is not in the package", path)
	}
	scope := filepath.Join(dir, "node_modules", "@deckhand")
	require.NoError(t, os.MkdirAll(scope, 0o755))
	run(t, dir, nil, "tar", "-xzf", made[0].Filename, "-C", scope)
	require.NoError(t, os.Rename(filepath.Join(scope, "package"), filepath.Join(scope, "sdk")))
	for _, name := range []string{"@bufbuild", "@connectrpc", "@types", "undici-types"} {
		require.NoError(t, os.Symlink(filepath.Join(modules(t), name), filepath.Join(dir, "node_modules", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	return dir
}

// typeScript compiles the examples against the package that is published, and runs them with
// plain Node.
func (f fleet) typeScript(t *testing.T) {
	dir := packed(t)
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../sdk/ts/examples")))
	for _, name := range []string{"watch.ts", "session.ts"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.ts"))
	require.NoError(t, err)
	run(t, dir, os.Environ(), "node", append([]string{
		filepath.Join(modules(t), "typescript/bin/tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node",
		"--skipLibCheck", "false", "--outDir", dir,
	}, sources...)...)
	for name, want := range map[string]string{
		"submit-and-wait":  "SUCCEEDED The report has 3 lines.\n",
		"live-events":      "execution_started \ntool_completed shell_exec\ntool_completed complete_task\nexecution_completed \n",
		"answer-approval":  "shell_exec date >> greeting.txt\nSUCCEEDED\n",
		"files":            "10000\n",
		"lists-and-errors": "first-agent, line-counter\n1 true\nthe persona is not valid\nnot_found there is no task \"task_none\"\ntrue\n",
		"session":          "admin\ntrue\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, run(t, dir, f.env(), "node", name+".js"))
		})
	}
	t.Run("a watch over connections that break", func(t *testing.T) {
		t.Parallel()
		f.watchOverBrokenConnections(t, dir)
	})
	t.Run("webhook-receiver", func(t *testing.T) {
		t.Parallel()
		f.webhookReceiver(t, dir)
	})
}

// webhookReceiver sends a notification to the example, and something that is not signed.
func (f fleet) webhookReceiver(t *testing.T, dir string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	made, err := f.Client().Destinations.CreateDestination(t.Context(), &deckhandv1.CreateDestinationRequest{
		Name: "node-receiver",
		Spec: &deckhandv1.DestinationSpec{
			Events: []string{"failures"},
			To:     &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: "http://127.0.0.1:" + port + "/deckhand"}},
		},
	})
	require.NoError(t, err)
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	receiver := harness.Start(t, f.env("PORT="+port, "DECKHAND_WEBHOOK_SECRET="+made.GetSecret()), node, filepath.Join(dir, "webhook-receiver.js"))
	waittest.Until(t, 30*time.Second, "the receiver to listen", func() bool { return strings.Contains(receiver.Output.String(), "listening") })
	require.Equal(t, "400", run(t, dir, os.Environ(), "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", "{}", "http://127.0.0.1:"+port+"/deckhand"))
	f.CLI(0, "destination", "test", "node-receiver")
	waittest.Until(t, 30*time.Second, "the notification", func() bool { return strings.Contains(receiver.Output.String(), "deckhand.test") })
}

// watchOverBrokenConnections has both SDKs read a task's events, each connection breaking after
// a few: they get each event once.
func (f fleet) watchOverBrokenConnections(t *testing.T, dir string) {
	client := f.Client()
	submitted, err := client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{
		AgentId: "line-counter", Inputs: []*deckhandv1.InputFile{{Path: "input/report.txt", Content: []byte("one\n")}},
	})
	require.NoError(t, err)
	id := submitted.GetTask().GetId()
	_, err = client.WaitForTask(t.Context(), id)
	require.NoError(t, err)
	var want []string
	for e, err := range client.TaskEvents(t.Context(), id, 0) {
		require.NoError(t, err)
		want = append(want, strconv.FormatInt(e.GetSeq(), 10))
	}
	require.Greater(t, len(want), 10)

	_, hub, _ := strings.Cut(f.URL(), "://")
	c := cut(t, hub, 2500)
	through, err := sdk.New(sdk.Config{URL: "http://" + c.Addr().String(), Token: f.Token("admin-token"), HTTPClient: &http.Client{Transport: &http.Transport{}}})
	require.NoError(t, err)
	var got []string
	for res, err := range through.Watch(t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{id}}) {
		require.NoError(t, err)
		got = append(got, strconv.FormatInt(res.GetEvent().GetSeq(), 10))
	}
	require.Equal(t, want, got)
	require.Greater(t, c.count(), 2, "connections that broke")

	out := run(t, dir, f.env("DECKHAND_URL=http://"+c.Addr().String(), "TASK="+id), "node", "watch.js")
	require.Equal(t, want, strings.Fields(out))
}

// cutter is a way to a hub on which each connection breaks after a number of bytes.
type cutter struct {
	net.Listener

	mu   sync.Mutex
	cuts int
}

// cut begins a cutter whose connections break after limit bytes from the hub.
func cut(t *testing.T, hub string, limit int64) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{Listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go c.pass(conn.(*net.TCPConn), hub, limit)
		}
	}()
	return c
}

func (c *cutter) pass(conn *net.TCPConn, hub string, limit int64) {
	defer conn.Close()
	to, err := net.Dial("tcp", hub)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, conn) }()
	if n, _ := io.CopyN(conn, to, limit); n == limit {
		c.mu.Lock()
		c.cuts++
		c.mu.Unlock()
		_ = conn.SetLinger(0) // a reset, and no end of the stream
	}
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}
