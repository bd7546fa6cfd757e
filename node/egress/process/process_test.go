// The proxy confines itself to what a binary without C needs, and the race detector
// brings C: it could not start a thread.

//go:build !race

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) {
	process.RunIfAsked()
	os.Exit(m.Run())
}

const proxyUID = 1_000_065_536

// rig is a proxy with one jail.
type rig struct {
	t      *testing.T
	proxy  *process.Process
	socket string
	dir    string // of the proxy's files
	host   string // a server that the jail may reach
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the proxy changes its user, for which it needs root")
	}
	dir := t.TempDir()
	// The folders above are the test's, and not searchable by others.
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	r := &rig{t: t, socket: filepath.Join(dir, "egress.sock")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(server.Close)
	r.host = server.URL
	var err error
	r.dir = filepath.Join(dir, "egress")
	r.proxy, err = process.New(process.Config{
		Dir: r.dir, UID: proxyUID, Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Log: hclog.New(&hclog.LoggerOptions{Output: testWriter{t}}),
	})
	require.NoError(t, err)
	require.NoError(t, r.proxy.Start(context.Background()))
	t.Cleanup(r.proxy.Stop)
	l, err := net.Listen("unix", r.socket)
	require.NoError(t, err)
	require.NoError(t, r.proxy.Serve("jail_test", l, r.rules("127.0.0.1")))
	return r
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

func (r *rig) rules(host string) *nodev1.Egress {
	at, err := url.Parse(r.host)
	require.NoError(r.t, err)
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	require.NoError(r.t, err)
	return &nodev1.Egress{Rules: []*nodev1.Egress_Rule{{Host: host, Ports: []uint32{uint32(port)}}}}
}

// get returns what a command of the jail gets from the server.
func (r *rig) get() (int, string, error) {
	client := &http.Client{Timeout: waittest.Limit(20 * time.Second), Transport: &http.Transport{
		DisableKeepAlives: true,
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128", User: url.UserPassword("exec_1", "x")}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
		},
	}}
	res, err := client.Get(r.host)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func (r *rig) wants(status int, text string) {
	r.t.Helper()
	got, body, err := r.get()
	require.NoError(r.t, err)
	require.Equal(r.t, status, got, body)
	require.Contains(r.t, body, text)
}

// pid returns the proxy's.
func (r *rig) pid() int {
	r.t.Helper()
	own := strconv.Itoa(os.Getpid())
	all, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(r.t, err)
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err == nil && bytes.Contains(text, []byte("\nPPid:\t"+own+"\n")) && bytes.Contains(line, []byte("\x00"+process.Argument+"\x00")) &&
			!bytes.Contains(text, []byte("State:\tZ")) && bytes.Contains(line, []byte(filepath.Dir(r.socket))) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(r.t, err)
			return pid
		}
	}
	return 0
}

// The proxy has no rights, and may neither run programs nor be looked into.
func TestTheProxyHasNoRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wants(http.StatusOK, "hello")
	pid := r.pid()
	require.NotZero(t, pid)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	has := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+):[ \t]*(.*)$`).FindAllStringSubmatch(string(text), -1) {
		has[m[1]] = strings.Join(strings.Fields(m[2]), " ")
	}
	id := strconv.Itoa(proxyUID)
	four := strings.Join([]string{id, id, id, id}, " ")
	assert.Equal(t, four, has["Uid"])
	assert.Equal(t, four, has["Gid"])
	assert.Empty(t, has["Groups"])
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		assert.Equal(t, "0000000000000000", has[set], set)
	}
	assert.Equal(t, "1", has["NoNewPrivs"])
	assert.Equal(t, "2", has["Seccomp"], "a filter")
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	require.NoError(t, err)
	assert.Regexp(t, `Max core file size +0 +0 `, string(limits))
	assert.Regexp(t, `Max data size +1073741824 +1073741824 `, string(limits))
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(t, err)
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), "Seccomp:\t2", path)
		assert.Contains(t, string(text), "CapEff:\t0000000000000000", path)
	}
}

// Rules, cutting off, and what an exec used are the same as in one process.
func TestTheProxyDoesWhatTheDaemonSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Begin("jail_test", "exec_1")
	r.wants(http.StatusOK, "hello")
	require.NoError(t, r.proxy.Change("jail_test", r.rules("10.0.0.1")))
	r.wants(http.StatusForbidden, "no rule allows")
	require.NoError(t, r.proxy.Change("jail_test", r.rules("127.0.0.1")))
	r.proxy.Cut("jail_test", "this jail is frozen")
	r.wants(http.StatusServiceUnavailable, "this jail is frozen")
	r.proxy.Resume("jail_test")
	r.wants(http.StatusOK, "hello")
	use := r.proxy.End("jail_test", "exec_1")
	require.Len(t, use.GetHosts(), 1)
	assert.EqualValues(t, 2, use.GetHosts()[0].GetRequests())
	assert.Len(t, use.GetRefusals(), 1)
	assert.Nil(t, r.proxy.End("jail_test", "exec_1"))
	require.Error(t, r.proxy.Change("jail_test", r.rules("not a host")))
	r.proxy.Leave("jail_test")
	_, _, err := r.get()
	require.Error(t, err)
}

// A proxy that dies is started again and knows everything again. Until then nothing passes.
func TestAProxyThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Begin("jail_test", "exec_1")
	r.wants(http.StatusOK, "hello")
	first := r.pid()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	r.wants(http.StatusOK, "hello") // it waits in the jail's socket
	require.NotEqual(t, first, r.pid())
	r.proxy.Cut("jail_test", "everything is being killed")
	require.NoError(t, syscall.Kill(r.pid(), syscall.SIGKILL))
	r.wants(http.StatusServiceUnavailable, "everything is being killed")
	r.proxy.Resume("jail_test")
	r.wants(http.StatusOK, "hello")
	use := r.proxy.End("jail_test", "exec_1")
	require.Len(t, use.GetHosts(), 1, "what was counted since it died")
}

// stop stops a process, and waits until it stands still.
func stop(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	waittest.Until(t, 10*time.Second, "the process stands still", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err == nil && bytes.Contains(text, []byte("State:\tT"))
	})
}

// A proxy that hangs does not keep a jail from being cut off.
func TestAProxyThatHangsIsKilledWhereItIsInTheWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, err := net.Dial("unix", r.socket)
	require.NoError(t, err)
	defer c.Close()
	target := strings.TrimPrefix(r.host, "http://")
	_, err = io.WriteString(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	require.NoError(t, err)
	from := bufio.NewReader(c)
	res, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	stop(t, r.pid())
	began := time.Now()
	r.proxy.Cut("jail_test", "everything is being killed")
	_ = c.SetReadDeadline(time.Now().Add(waittest.Limit(5 * time.Second)))
	_, err = from.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	assert.Less(t, time.Since(began), waittest.Limit(2*time.Second))
	r.wants(http.StatusServiceUnavailable, "everything is being killed")
}

// It ends with the daemon, however that ends.
func TestTheProxyEndsWithItsDaemon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pid := r.pid()
	r.proxy.Stop()
	waittest.Until(t, 10*time.Second, "the proxy ends", func() bool { return syscall.Kill(pid, 0) != nil })
}

// A proxy that does not end with its daemon keeps the records' file: that of the next daemon
// waits for it, and takes its place.
func TestTheNextDaemonTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(filepath.Dir(r.dir), "left")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, proxyUID, proxyUID))
	left := exec.Command("/proc/self/exe", process.Argument, fmt.Sprintf(`{"dir":%q,"uid":%d}`, dir, proxyUID))
	for range 2 { // its sockets to a daemon that it does not see the end of
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		own, theirs := os.NewFile(uintptr(fds[0]), "own"), os.NewFile(uintptr(fds[1]), "theirs")
		defer own.Close()
		defer theirs.Close()
		left.ExtraFiles = append(left.ExtraFiles, theirs)
	}
	require.NoError(t, left.Start())
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	waittest.Until(t, 10*time.Second, "it has the file", func() bool {
		file, err := os.Open(filepath.Join(dir, "requests.jsonl.lock"))
		if err != nil {
			return false
		}
		defer file.Close()
		return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
	})
	next, err := process.New(process.Config{Dir: dir, UID: proxyUID, Log: hclog.New(&hclog.LoggerOptions{Output: testWriter{t}})})
	require.NoError(t, err)
	require.NoError(t, next.Start(context.Background()))
	require.ErrorContains(t, <-ended, "killed")
	next.Stop()
}
