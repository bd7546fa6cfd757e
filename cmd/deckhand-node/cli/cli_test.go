package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/cmd/deckhand-node/cli"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	"github.com/deckhand-sh/deckhand/node/identity/identitytest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) {
	process.RunIfAsked()
	code := jailtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// log is standard error: it tells of a line that the test waits for.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := strings.Contains(l.text.String(), l.want)
	l.text.Write(p)
	if l.want != "" && !before && strings.Contains(l.text.String(), l.want) {
		close(l.seen)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// run runs deckhand-node with flags, and returns its exit code and what it
// said.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout bytes.Buffer
	stderr := &log{}
	code = cli.Main(ctx, args, &stdout, stderr)
	return code, stdout.String(), stderr.String()
}

func TestWhatIsWrongIsSaidInOneLineWithItsExitCode(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("hub_url: http://x\n"), 0o600))
	token := identitytest.New(t).Token()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown flag":                   {[]string{"--nope"}, 2, "unknown flag: --nope"},
		"an argument":                       {[]string{"start"}, 2, `unexpected argument "start"`},
		"an unknown key in the file":        {[]string{"--config", bad}, 78, `unknown key "hub_url"`},
		"a file that is not there":          {[]string{"--config", bad + "x"}, 78, "no such file"},
		"an unknown log level":              {[]string{"--log-level", "loud"}, 78, `log-level "loud"`},
		"a malformed join token":            {[]string{"--join-token", "hunter2hunter2"}, 78, "join token is malformed"},
		"a hub address without a scheme":    {[]string{"--hub-url", "hub.example"}, 78, "hub-url"},
		"an edge address without a port":    {[]string{"--edge-address", "hub.example"}, 78, "edge-address"},
		"a name that is none":               {[]string{"--name", "a b"}, 78, `name "a b"`},
		"neither token nor identity":        {[]string{"--hub-url", "http://127.0.0.1:1"}, 78, "deckhand node token"},
		"a token without the hub's address": {[]string{"--join-token", token}, 78, "hub-url"},
		"a data folder that cannot be made": {[]string{"--data-dir", filepath.Join(bad, "x")}, 1, "data folder"},
		"a containerd that is not there":    {[]string{"--join-token", token, "--hub-url", "http://127.0.0.1:1", "--containerd", "/nowhere.sock"}, 1, "containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := run(t, append([]string{"--data-dir", jailtest.Dir(t)}, c.args...)...)
			require.Equal(t, c.code, code, errs)
			require.Contains(t, errs, c.says)
			require.Equal(t, 1, strings.Count(errs, "\n"), errs)
			require.True(t, strings.HasPrefix(errs, "error: "), errs)
			require.Empty(t, out)
			require.NotContains(t, errs, "hunter2hunter2")
			require.NotContains(t, errs, token)
		})
	}
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	t.Parallel()
	code, out, errs := run(t, "--help")
	require.Zero(t, code)
	require.Contains(t, out, "--join-token")
	require.Contains(t, out, "Exit codes")
	require.Empty(t, errs)
	code, out, _ = run(t, "--version")
	require.Zero(t, code)
	require.Contains(t, out, "deckhand-node")
}

// Enrolment's failures, each with a line and an exit code of its own.
func TestAHubThatDoesNotEnrolThisMachineEndsTheStart(t *testing.T) {
	t.Parallel()
	refusing := func(err error) func(*testing.T) (string, string) {
		return func(t *testing.T) (string, string) {
			h := identitytest.New(t)
			h.Refuse = err
			return h.URL, h.Token()
		}
	}
	for name, c := range map[string]struct {
		hub  func(t *testing.T) (url, token string)
		code int
		says string
	}{
		"nobody answers": {
			func(t *testing.T) (string, string) { h := identitytest.New(t); return "http://" + h.Edge, h.Token() }, 5, "cannot reach the hub",
		},
		"the token has expired": {
			refusing(fault.New(fault.Denied, "the join token expired")), 4, "the join token expired",
		},
		"the name is taken": {
			refusing(fault.New(fault.Exists, "there is a node of that name")), 1, "node of that name",
		},
		"the hub's CA is another": {
			func(t *testing.T) (string, string) { return identitytest.New(t).URL, identitytest.New(t).Token() }, 4, "CA does not match",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jails := jailtest.Config(t)
			url, token := c.hub(t)
			code, _, errs := run(t, "--data-dir", jails.DataDir, "--containerd", jails.Containerd, "--init-path", jails.InitPath,
				"--join-token", token, "--hub-url", url, "--log-level", "error")
			require.Equal(t, c.code, code, errs)
			require.Contains(t, errs, c.says)
			require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		})
	}
}

func TestADaemonRunsUntilItIsToldToStopAndKeepsOthersOut(t *testing.T) {
	t.Parallel()
	jails := jailtest.Config(t)
	hub := identitytest.New(t)
	args := []string{
		"--data-dir", jails.DataDir, "--containerd", jails.Containerd, "--containerd-namespace", jails.Namespace,
		"--init-path", jails.InitPath, "--hub-url", hub.URL, "--name", "web-1", "--labels", "zone=a",
	}
	token := hub.Token()
	for start := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		stderr := &log{want: "no link to the hub", seen: make(chan struct{})}
		ended := make(chan int, 1)
		go func() {
			// The token is spent by the first start; the second does not look at it.
			ended <- cli.Main(ctx, append([]string{"--join-token", token}, args...), &bytes.Buffer{}, stderr)
		}()
		select {
		case <-stderr.seen:
		case code := <-ended:
			require.FailNow(t, "it ended by itself", "%d: %s", code, stderr)
		}
		code, _, errs := run(t, args...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, fmt.Sprintf("another deckhand-node (process %d) uses the data folder", os.Getpid()))

		stop()
		require.Zero(t, <-ended, stderr)
		require.Contains(t, stderr.String(), "commands in jails continue")
		require.NotContains(t, stderr.String(), token)
		require.Len(t, hub.Asked(), 1, "start %d", start)
	}
	require.Equal(t, "web-1", hub.Asked()[0].GetName())
	require.Equal(t, map[string]string{"zone": "a"}, hub.Asked()[0].GetLabels())

	other := identitytest.New(t)
	code, _, errs := run(t, append([]string{"--join-token", other.Token(), "--log-level", "error"}, args...)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "enrolled with another hub")
}
