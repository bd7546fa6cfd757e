package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The stories of ui/e2e that show what the console is: login, watching and
// steering an agent, approvals, undo, the death of the hub.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "console", "127.0.0.1")
}

// The stories of ui/e2e about daily work: making agents, answering them, chat,
// terminals and enrolment, and that every page with content on it is accessible.
func TestDailyWorkInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "work", "127.0.0.1")
}

// The stories of ui/e2e of a phone: its layout, an installed console, passkeys, and what
// those get who hear the page. Browsers take localhost for as safe as HTTPS.
func TestAPhoneInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "phone", "localhost")
}

// The stories of ui/e2e about the page of a task: why it failed, what it changed, and
// the end of a long log.
func TestTheTaskPageInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "taskpage", "127.0.0.1")
}

// A log of two gigabytes in the browser.
func TestALogOfTwoGigabytesInABrowser(t *testing.T) {
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("it writes and searches two gigabytes: make soak")
	}
	t.Parallel()
	tell(t, "biglog", "127.0.0.1")
}

// The stories of ui/e2e about the shell: the first steps, the policy, holds, and a hub
// that is away.
func TestTheShellInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "shell", "127.0.0.1")
}

// The stories of ui/e2e about the past of runs: replay, undo back to a step, going on from
// one, comparing two runs, and the graph of agents.
func TestTimeTravelInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "travel", "127.0.0.1")
}

// The stories of ui/e2e about the browser of an agent: who watches it, takes it over and gives it
// back, and the replay of what was recorded.
func TestAnAgentsBrowserInABrowser(t *testing.T) {
	t.Parallel()
	tell(t, "browser", "127.0.0.1")
}

// tell runs one file of stories in a browser on a separate `deckhand up`. The stories
// request actions outside of the browser from this test. host is what the browser finds
// the hub by.
func tell(t *testing.T, file, host string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		browser, err = exec.LookPath("chromium-browser")
	}
	require.NoError(t, err, "scripts/setup installs it")
	s := &stories{
		fleet: &harness.Fleet{T: t, Dir: jailtest.Dir(t)}, t: t, host: host, port: quietPort(t), calls: make(chan func()), registry: imagetest.NewRegistry(t),
		nodeDir: jailtest.Dir(t), containerd: jailtest.Containerd(t),
	}
	t.Cleanup(func() {
		jailtest.RemoveAll(t, jail.Config{DataDir: s.nodeDir, Containerd: s.containerd, Namespace: harness.NamespaceOf(s.nodeDir)})
	})
	s.up()
	token, err := os.ReadFile(filepath.Join(s.fleet.Dir, "admin-token"))
	require.NoError(t, err)
	control := httptest.NewServer(s)
	defer control.Close()
	image, _ := s.registry.Push(t, "team/tools:1", imagetest.Busybox(t))

	// The log is useful if it fails; CI keeps the screenshots.
	artefacts := os.Getenv("DECKHAND_ARTEFACTS")
	if artefacts != "" {
		artefacts = filepath.Join(artefacts, file)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(20*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "node_modules/vitest/vitest.mjs", "run", "--config", "e2e/vitest.config.ts", "e2e/"+file+".e2e.ts")
	cmd.Dir = "../../ui"
	// With all that it started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(),
		"DECKHAND_E2E_URL="+s.public(), "DECKHAND_E2E_TOKEN="+strings.TrimSpace(string(token)),
		"DECKHAND_E2E_CONTROL="+control.URL, "DECKHAND_E2E_IMAGE="+image, "DECKHAND_E2E_CHROMIUM="+browser, "DECKHAND_E2E_ARTEFACTS="+artefacts, "NO_COLOR=1")
	var out harness.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case call := <-s.calls:
			call()
		case err := <-ended:
			require.NoError(t, err, "%s", harness.Tail(out.String(), 20_000))
			t.Log(harness.Tail(out.String(), 4_000))
			return
		}
	}
}

// stories does for the browser's side what happens outside of the browser.
type stories struct {
	fleet *harness.Fleet
	t     *testing.T
	host  string
	port  int
	p     *harness.Process
	// node is the one that a story enrols, with its own folder and containerd.
	node                *harness.Process
	nodeDir, containerd string
	// registry is where the node of `deckhand up` pulls images from.
	registry *imagetest.Registry
	// calls are what stories ask for; the test's own goroutine does it.
	calls chan func()
}

// quietPort returns a port that no process listens on, and that the kernel does not
// assign by itself while the hub is down.
func quietPort(t *testing.T) int {
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// public returns where the browser finds the hub.
func (s *stories) public() string { return fmt.Sprintf("http://%s:%d", s.host, s.port) }

func (s *stories) up() {
	s.p = harness.Start(s.t, nil, harness.Binary(s.t, "deckhand"), "up", "--data-dir", s.fleet.Dir, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port),
		"--public-url", s.public(), "--edge-listen", "127.0.0.1:0", "--lease-ttl", harness.LeaseTTL.String(), "--show-paths", "/opt,/var/log", "--registry-addresses", "127.0.0.0/8", "--registry-config", s.registry.CertsDir)
	waittest.Until(s.t, 2*time.Minute, "everything to be up", func() bool {
		select {
		case <-s.p.Done:
			s.t.Fatalf("it ended: %s", s.p.Output.String())
		default:
		}
		return strings.Contains(s.p.Output.String(), "Deckhand is up")
	})
}

// ServeHTTP has done what a story asks for.
func (s *stories) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done := make(chan struct{})
	call := func() {
		defer close(done)
		out, err := s.do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		_, _ = io.WriteString(w, out)
	}
	select {
	case s.calls <- call:
		<-done
	case <-r.Context().Done():
	}
}

// task returns a task, the newest for "". Stories ask for it again and again, and each
// time the command line would take a process.
func (s *stories) task(ctx context.Context, id string) (proto.Message, error) {
	if id != "" {
		res, err := s.fleet.Client().Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: id})
		if err != nil {
			return nil, err
		}
		return res.GetTask(), nil
	}
	res, err := s.fleet.Client().Tasks.ListTasks(ctx, &deckhandv1.ListTasksRequest{PageSize: 1})
	if err != nil {
		return nil, err
	}
	if len(res.GetTasks()) == 0 {
		return nil, errors.New("there is no task")
	}
	return res.GetTasks()[0], nil
}

// steps returns the steps of a task.
func (s *stories) steps(ctx context.Context, id string) (proto.Message, error) {
	res, err := s.fleet.Client().Tasks.ListSteps(ctx, &deckhandv1.ListStepsRequest{TaskId: id})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (s *stories) do(r *http.Request) (string, error) {
	switch r.URL.Path {
	case "/kill":
		s.p.Kill()
		return "", nil
	case "/start":
		s.up()
		return "", nil
	case "/join":
		var j struct{ Command, Name string }
		if err := json.NewDecoder(r.Body).Decode(&j); err != nil {
			return "", err
		}
		// Without what the script installs: the daemon alone, with the command's settings.
		env := slices.DeleteFunc(strings.Fields(j.Command), func(word string) bool { return !strings.HasPrefix(word, "DECKHAND_") })
		if len(env) != 2 || !strings.Contains(j.Command, "/install/node |") {
			return "", fmt.Errorf("this enrols nothing: %s", j.Command)
		}
		s.node = harness.Start(s.t, env, harness.Binary(s.t, "deckhand-node"),
			"--name", j.Name, "--data-dir", s.nodeDir, "--containerd", s.containerd, "--containerd-namespace", harness.NamespaceOf(s.nodeDir))
		return "", nil
	case "/leave":
		s.node.Kill()
		return "", nil
	case "/persona":
		var p struct {
			Name, Script string
			Keys         []string
		}
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			return "", err
		}
		s.fleet.Persona(p.Name, p.Script, p.Keys...)
		return "", nil
	case "/site":
		keys, program := harness.Site(s.t)
		out, err := json.Marshal(map[string]string{"keys": keys, "program": program})
		return string(out), err
	case "/task", "/steps":
		var id string
		if err := json.NewDecoder(r.Body).Decode(&id); err != nil {
			return "", err
		}
		get := s.task
		if r.URL.Path == "/steps" {
			get = s.steps
		}
		m, err := get(r.Context(), id)
		if err != nil {
			return "", err
		}
		out, err := protojson.Marshal(m)
		return string(out), err
	case "/cli":
		var args []string
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			return "", err
		}
		res := harness.Run(s.t, []string{"DECKHAND_DATA_DIR=" + s.fleet.Dir}, args...)
		if res.Code != 0 {
			return "", fmt.Errorf("deckhand %s: exit %d: %s", strings.Join(args, " "), res.Code, res.Err)
		}
		return res.Out, nil
	}
	return "", errors.New("there is no " + r.URL.Path)
}
