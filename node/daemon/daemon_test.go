package daemon_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

func TestMain(m *testing.M) {
	code := jailtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// authority signs what it is asked to, as a hub's CA does.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{key, cert}
}

func (a *authority) token() string {
	return jointoken.New(jointoken.Fingerprint(a.cert.RawSubjectPublicKeyInfo)).Reveal()
}

// enrolment is a hub's enrolment that answers what the test says.
type enrolment struct {
	deckhandv1connect.UnimplementedEnrollmentServiceHandler

	*authority
	refuse error
	edge   string

	mu    sync.Mutex
	asked []*deckhandv1.EnrollNodeRequest
}

func (e *enrolment) EnrollNode(_ context.Context, req *connect.Request[deckhandv1.EnrollNodeRequest]) (*connect.Response[deckhandv1.EnrollNodeResponse], error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, req.Msg)
	if e.refuse != nil {
		return nil, fault.ToConnect(e.refuse)
	}
	csr, err := x509.ParseCertificateRequest(req.Msg.GetCsr())
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node_1"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}, e.cert, csr.PublicKey, e.key)
	if err != nil {
		return nil, err
	}
	text := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return connect.NewResponse(&deckhandv1.EnrollNodeResponse{
		NodeId: "node_1", CertificatePem: text(der), CaPem: text(e.cert.Raw), EdgeAddress: e.edge,
	}), nil
}

func (e *enrolment) serve(t *testing.T) (url string) {
	t.Helper()
	_, handler := deckhandv1connect.NewEnrollmentServiceHandler(e)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// closedPort returns an address on which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
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
	code = daemon.Main(ctx, args, &stdout, stderr)
	return code, stdout.String(), stderr.String()
}

func TestWhatIsWrongIsSaidInOneLineWithItsExitCode(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("hub_url: http://x\n"), 0o600))
	token := newAuthority(t).token()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown flag":                   {[]string{"--nope"}, 2, "unknown flag: --nope"},
		"an argument":                       {[]string{"start"}, 2, `unexpected argument "start"`},
		"an unknown key in the file":        {[]string{"--config", bad}, 2, `unknown key "hub_url"`},
		"a file that is not there":          {[]string{"--config", bad + "x"}, 2, "no such file"},
		"an unknown log level":              {[]string{"--log-level", "loud"}, 2, `log-level "loud"`},
		"a malformed join token":            {[]string{"--join-token", "hunter2hunter2"}, 2, "join token is malformed"},
		"a hub address without a scheme":    {[]string{"--hub-url", "hub.example"}, 2, "hub-url"},
		"an edge address without a port":    {[]string{"--edge-address", "hub.example"}, 2, "edge-address"},
		"a name that is none":               {[]string{"--name", "a b"}, 2, `name "a b"`},
		"neither token nor identity":        {[]string{"--hub-url", "http://127.0.0.1:1"}, 2, "deckhand node token"},
		"a token without the hub's address": {[]string{"--join-token", token}, 2, "hub-url"},
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
	a := newAuthority(t)
	for name, c := range map[string]struct {
		url  func(t *testing.T) string
		code int
		says string
	}{
		"nobody answers": {
			func(t *testing.T) string { return "http://" + closedPort(t) }, 5, "cannot reach the hub",
		},
		"the token has expired": {
			func(t *testing.T) string {
				return (&enrolment{authority: a, refuse: fault.New(fault.Denied, "the join token expired")}).serve(t)
			}, 4, "the join token expired",
		},
		"the name is taken": {
			func(t *testing.T) string {
				return (&enrolment{authority: a, refuse: fault.New(fault.Exists, "there is a node of that name")}).serve(t)
			}, 1, "node of that name",
		},
		"the hub's CA is another": {
			func(t *testing.T) string { return (&enrolment{authority: newAuthority(t)}).serve(t) }, 4, "CA does not match",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jails := jailtest.Config(t)
			code, _, errs := run(t, "--data-dir", jails.DataDir, "--containerd", jails.Containerd, "--init-path", jails.InitPath,
				"--join-token", a.token(), "--hub-url", c.url(t), "--log-level", "error")
			require.Equal(t, c.code, code, errs)
			require.Contains(t, errs, c.says)
			require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		})
	}
}

func TestADaemonRunsUntilItIsToldToStopAndKeepsOthersOut(t *testing.T) {
	t.Parallel()
	jails := jailtest.Config(t)
	hub := &enrolment{authority: newAuthority(t), edge: closedPort(t)}
	url := hub.serve(t)
	args := []string{
		"--data-dir", jails.DataDir, "--containerd", jails.Containerd, "--containerd-namespace", jails.Namespace,
		"--init-path", jails.InitPath, "--hub-url", url, "--name", "web-1", "--labels", "zone=a",
	}
	token := hub.token()
	for start := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		stderr := &log{want: "no link to the hub", seen: make(chan struct{})}
		ended := make(chan int, 1)
		go func() {
			// The token is spent by the first start; the second does not look at it.
			ended <- daemon.Main(ctx, append([]string{"--join-token", token}, args...), &bytes.Buffer{}, stderr)
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
		require.Len(t, hub.asked, 1, "start %d", start)
	}
	require.Equal(t, "web-1", hub.asked[0].GetName())
	require.Equal(t, map[string]string{"zone": "a"}, hub.asked[0].GetLabels())

	other := newAuthority(t)
	code, _, errs := run(t, append([]string{"--join-token", other.token(), "--log-level", "error"}, args...)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "enrolled with another hub")
}

func TestAHubInTheSameProcessIsAskedForATokenOnce(t *testing.T) {
	t.Parallel()
	jails := jailtest.Config(t)
	hub := &enrolment{authority: newAuthority(t), edge: closedPort(t)}
	url := hub.serve(t)
	made := 0
	for range 2 {
		d, err := daemon.Config{
			DataDir: jails.DataDir, Containerd: jails.Containerd, Namespace: jails.Namespace, InitPath: jails.InitPath,
			HubURL: url,
			MakeJoinToken: func(context.Context) (string, error) {
				made++
				return hub.token(), nil
			},
		}.Complete(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Start(t.Context()))
		require.Equal(t, "node_1", d.NodeID())
		d.Stop()
		require.NoError(t, d.Err())
	}
	require.Equal(t, 1, made)
}

func TestTheEnvironmentFillsLabelsAndPaths(t *testing.T) {
	t.Setenv("DECKHAND_LABELS", "zone=a, disk=ssd")
	t.Setenv("DECKHAND_ROOT_PATHS", "/opt,/srv/tools")
	t.Setenv("DECKHAND_JOIN_TOKEN", "secret-token")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	daemon.Flags(flags)
	var cfg daemon.Config
	require.NoError(t, config.Load(flags, "", &cfg))
	require.Equal(t, daemon.Labels{"zone": "a", "disk": "ssd"}, cfg.Labels)
	require.Equal(t, daemon.Paths{"/opt", "/srv/tools"}, cfg.RootPaths)
	require.Equal(t, "secret-token", cfg.JoinToken.Reveal())
	require.Equal(t, uint32(1_000_000_000), cfg.UIDBase)

	t.Setenv("DECKHAND_LABELS", "zone")
	require.ErrorContains(t, config.Load(flags, "", &cfg), "zone=a,disk=ssd")
}

func TestAnOperatorMayShowNothing(t *testing.T) {
	for text, want := range map[string]daemon.Paths{
		"show-paths: []\n":        {},
		"show-paths: [/srv/a]\n":  {"/srv/a"},
		"name: without-the-key\n": jail.DefaultShowPaths,
	} {
		path := filepath.Join(t.TempDir(), "node.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		daemon.Flags(flags)
		var cfg daemon.Config
		require.NoError(t, config.Load(flags, path, &cfg))
		require.Equal(t, want, cfg.ShowPaths, text)
	}
	for says, bad := range map[string]daemon.Config{
		"special-addresses": {SpecialAddresses: daemon.Paths{"127.1"}},
		"labels":            {Labels: daemon.Labels{"zone": "\x1b[2J"}},
	} {
		bad.DataDir = t.TempDir()
		_, err := bad.Complete(t.Context())
		require.ErrorContains(t, err, says)
	}
}
