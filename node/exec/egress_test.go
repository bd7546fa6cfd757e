package exec_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// names is a resolver that the test controls; it notes what it is asked.
type names struct {
	mu    sync.Mutex
	addrs map[string]string
	asked []string
}

func (n *names) set(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name] = addr
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	n.asked = append(n.asked, host)
	addr, err := netip.ParseAddr(n.addrs[host])
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{addr}, nil
}

// withEgress returns a node whose jails have a way out, by names of the test's.
func withEgress(t *testing.T) (*node, *names) {
	t.Helper()
	n, known := prepared(t), &names{addrs: map[string]string{}}
	proxy := egress.New(egress.Config{Resolver: known, Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	n.cfg.Egress, n.egress = proxy, proxy
	n.change = func(cfg *exec.Config) { cfg.Egress = n.egress }
	n.startEgress()
	return n, known
}

func (n *node) startEgress() {
	n.tb.Helper()
	require.NoError(n.tb, n.egress.Start(context.Background()))
	n.undo = append(n.undo, n.egress.Stop)
	n.start()
}

// allow returns a change of a jail's spec: hosts as host:port, all of which may
// be of this machine.
func allow(hosts ...string) func(*nodev1.JailSpec) {
	return func(s *nodev1.JailSpec) {
		s.Egress = &nodev1.Egress{}
		for _, host := range hosts {
			name, text, err := net.SplitHostPort(host)
			if err != nil {
				panic(err)
			}
			port, err := strconv.Atoi(text)
			if err != nil {
				panic(err)
			}
			s.Egress.Rules = append(s.Egress.Rules, &nodev1.Egress_Rule{Host: name, Ports: []uint32{uint32(port)}},
				&nodev1.Egress_Rule{Host: "127.0.0.1", Ports: []uint32{uint32(port)}})
		}
	}
}

// outside is a server outside of the jails.
func outside(t *testing.T, h http.Handler) (port string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections() // of commands that outlive the test
		s.Close()
	})
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return port
}

// fetch is what most programs are made of.
const fetch = `import sys, urllib.request, urllib.error
try:
    r = urllib.request.urlopen(sys.argv[1], timeout=60)
    print(r.status, r.read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
`

func (n *node) fetch(jailID, url string) (*nodev1.Exec, string) {
	n.tb.Helper()
	return n.run(command(jailID, "/usr/bin/python3", "-c", fetch, url))
}

// What a persona allows is reached by the environment alone, and what it does
// not is refused with the reason, the exec and the rule that would allow it.
func TestACommandReachesWhatIsAllowed(t *testing.T) { onRuntimes(t, testACommandReachesWhatIsAllowed) }

func testACommandReachesWhatIsAllowed(t *testing.T, runtime string) {
	oneCommand(t)
	t.Parallel()
	n, known := withEgress(t)
	n.on(runtime)
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello from "+r.Host) }))
	known.set("api.test", "127.0.0.1")
	known.set("turns.test", "169.254.169.254")
	id := n.ensure(allow("api.test:"+port, "turns.test:"+port))
	out, text := n.fetch(id, "http://api.test:"+port+"/")
	assert.Equal(t, "200 hello from api.test:"+port+"\n", text)
	require.Len(t, out.GetEgress().GetHosts(), 1, "%v", out.GetEgress())
	assert.Equal(t, "api.test:"+port, out.GetEgress().GetHosts()[0].GetHost())
	assert.NotZero(t, out.GetEgress().GetHosts()[0].GetReceivedBytes())

	for url, says := range map[string]string{
		"http://other.test/":                       `no rule allows other.test:80; a persona allows it with egress: {allow: ["other.test"]}`,
		"http://api.test:1/":                       "do not allow port 1",
		"http://169.254.169.254/latest/meta-data/": "no rule allows 169.254.169.254:80",
		"http://[::1]:" + port + "/":               "no rule allows [::1]:" + port,
		"http://turns.test:" + port + "/":          "is 169.254.169.254, a link-local address",
	} {
		out, text := n.fetch(id, url)
		assert.Contains(t, text, "403 deckhand: egress refused: ", url)
		assert.Contains(t, text, says)
		refusals := out.GetEgress().GetRefusals()
		require.Len(t, refusals, 1, url)
		assert.Equal(t, "GET", refusals[0].GetMethod())
		assert.Contains(t, text, refusals[0].GetReason())
	}
	_, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: out.GetExecId()})
	require.NoError(t, err)

	// A jail that is allowed nothing says so.
	none := n.ensure()
	_, text = n.fetch(none, "http://api.test:"+port+"/")
	assert.Contains(t, text, "no rule allows api.test:"+port)
	assert.Equal(t, []string{"api.test", "turns.test"}, known.asked, "what is not allowed is not looked up")
}

// There is no way round the proxy.
func TestThereIsNoOtherWayOut(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n, known := withEgress(t)
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "reached") }))
	known.set("api.test", "127.0.0.1")
	id := n.ensure(allow("api.test:" + port))
	host, err := net.Listen("unix", "@deckhand-escape-"+id)
	require.NoError(t, err)
	defer host.Close()
	for name, script := range map[string]string{
		"to the machine by its loopback": "socket.create_connection(('127.0.0.1', " + port + "), 5)",
		"to an address":                  "socket.create_connection(('93.184.216.34', 80), 5)",
		"to an address of IPv6":          "socket.create_connection(('2606:4700::1', 80), 5)",
		"by UDP":                         "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('9.9.9.9', 53))",
		"by UDP over IPv6":               "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2620:fe::fe', 53))",
		"by a raw socket":                "socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)",
		"by a packet socket":             "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
		"by looking a name up":           "socket.getaddrinfo('secret.attacker.test', 80)",
		"by a socket of the machine":     "socket.socket(socket.AF_UNIX).connect('\\0deckhand-escape-" + id + "')",
		"by the proxy's own socket":      "socket.socket(socket.AF_UNIX).connect('/run/deckhand/egress.sock')",
		"by the hypervisor":              "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 1))",
	} {
		out, text := n.run(command(id, "/usr/bin/python3", "-c", "import socket; "+script+"; print('out')"))
		assert.NotZero(t, out.GetExitCode(), name)
		assert.NotContains(t, text, "out\n", name)
		assert.Contains(t, text, "rror", name)
	}
	_, text := n.fetch(id, "http://api.test:"+port+"/")
	assert.Contains(t, text, "200 reached")
	assert.NotContains(t, known.asked, "secret.attacker.test")
	code, text := n.sh(id, "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' \\n'")
	assert.Zero(t, code)
	assert.Equal(t, "lo", text, "no interface but loopback")
}

// certificate returns a certificate for a name, signed by itself.
func certificate(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Git over https.
func TestGitClonesOverHTTPS(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n, known := withEgress(t)
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "work"},
		{"-C", "work", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "the first"},
		{"clone", "-q", "--bare", "work", "repo.git"},
		{"-C", "repo.git", "update-server-info"},
	} {
		cmd := osexec.Command("git", args...)
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
	cert, ca := certificate(t, "git.test")
	server := httptest.NewUnstartedServer(http.FileServer(http.Dir(dir)))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	known.set("git.test", "127.0.0.1")
	id := n.ensure(allow("git.test:" + port))
	workspace, err := n.jails.Workspace(id)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "ca.pem"), ca, 0o644))
	clone := "GIT_SSL_CAINFO=/workspace/ca.pem git clone -q https://%s:" + port + "/repo.git %s && git -C %[2]s log --format=%%s"
	out, text := n.run(shell(id, fmt.Sprintf(clone, "git.test", "got")))
	assert.Equal(t, "the first\n", text)
	require.Len(t, out.GetEgress().GetHosts(), 1)
	assert.NotZero(t, out.GetEgress().GetHosts()[0].GetReceivedBytes())
	out, text = n.run(shell(id, fmt.Sprintf(clone, "evil.test", "not")))
	assert.NotZero(t, out.GetExitCode())
	assert.Contains(t, text, "403")
	require.Len(t, out.GetEgress().GetRefusals(), 1)
	assert.Equal(t, "CONNECT", out.GetEgress().GetRefusals()[0].GetMethod())
	assert.Contains(t, out.GetEgress().GetRefusals()[0].GetAllow(), "evil.test")
}

// A package manager, which finds the proxy by itself.
func TestAPackageIsFetched(t *testing.T) {
	t.Parallel()
	n, known := withEgress(t)
	deb := []byte("what a package is made of does not matter here")
	index := fmt.Sprintf("Package: thing\nVersion: 1.0\nArchitecture: all\nMaintainer: a\nDescription: a thing\n"+
		"Filename: ./thing.deb\nSize: %d\nSHA256: %x\n\n", len(deb), sha256.Sum256(deb))
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/./Packages", "/Packages":
			_, _ = io.WriteString(w, index)
		case "/./thing.deb", "/thing.deb":
			_, _ = w.Write(deb)
		default:
			http.NotFound(w, r)
		}
	}))
	known.set("deb.test", "127.0.0.1")
	id := n.ensure(allow("deb.test:" + port))
	out, text := n.run(shell(id, `set -e
mkdir -p apt/state/lists/partial apt/cache/archives/partial apt/etc
echo "deb [trusted=yes] http://deb.test:`+port+`/ ./" > apt/etc/sources.list
touch apt/status
o="-o Dir::State=/workspace/apt/state -o Dir::Cache=/workspace/apt/cache -o Dir::Etc=/workspace/apt/etc -o Dir::State::status=/workspace/apt/status -o APT::Sandbox::User= -o Acquire::Languages=none"
apt-get $o update
apt-get $o download thing
cat thing_1.0_all.deb`))
	require.Zero(t, out.GetExitCode(), text)
	assert.Contains(t, text, string(deb))
	require.Len(t, out.GetEgress().GetHosts(), 1)
	assert.GreaterOrEqual(t, out.GetEgress().GetHosts()[0].GetRequests(), int64(2))
}

// A TCP forward has a port in the jail, and rules change as the jail runs.
func TestAForwardHasAPortInTheJail(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n, _ := withEgress(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 ready\n")
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	port := uint32(l.Addr().(*net.TCPAddr).Port)
	spec := jailtest.Spec(n.ensure())
	spec.Egress = &nodev1.Egress{Forwards: []*nodev1.Egress_Forward{{Listen: 5432, Host: "127.0.0.1", Port: port}}}
	say := func(port int) *nodev1.ExecSpec {
		return command(spec.GetJailId(), "/usr/bin/python3", "-c", fmt.Sprintf(`import socket
s = socket.create_connection(('127.0.0.1', %d), 30)
f = s.makefile('rb')
print(f.readline())
s.sendall(b'x' * 1000000)
s.shutdown(socket.SHUT_WR)
print(len(f.read()))`, port))
	}
	out, text := n.run(say(5432))
	assert.NotZero(t, out.GetExitCode(), "it is not there yet: %s", text)
	// A command that runs keeps a jail as it is, except for its egress.
	stays := shell(spec.GetJailId(), "echo here; sleep 3333")
	n.startExec(stays)
	n.until(stays.GetExecId(), "here\n")
	_, err = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: spec})
	require.NoError(t, err)
	_, text = n.run(say(5432))
	assert.Equal(t, "b'220 ready\\n'\n1000000\n", text)

	waiting := command(spec.GetJailId(), "/usr/bin/python3", "-c", `import socket
s = socket.create_connection(('127.0.0.1', 5432), 30)
f = s.makefile('rb')
print(f.readline(), flush=True)
print(f.read())`)
	n.startExec(waiting)
	n.until(waiting.GetExecId(), "ready")
	other := proto.CloneOf(spec)
	other.Egress.Forwards[0].Listen, other.Egress.Forwards[0].Host = 5433, "203.0.113.9"
	_, err = n.jail.EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: other})
	require.NoError(t, err)
	n.wait(waiting.GetExecId()) // its connection has ended
	out, _ = n.run(say(5432))
	assert.NotZero(t, out.GetExitCode())
	_, err = n.api.KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: stays.GetExecId(), By: "the test"})
	require.NoError(t, err)
}

// holding is a command that has a connection open, and says when that ends.
func holding(jailID, port string) *nodev1.ExecSpec {
	return command(jailID, "/usr/bin/python3", "-c", `import socket
s = socket.create_connection(('127.0.0.1', 3128), 30)
s.sendall(b'GET http://127.0.0.1:`+port+`/ HTTP/1.1\r\nHost: x\r\n\r\n')
print(s.recv(12), flush=True)
while s.recv(4096): pass
print('over', flush=True)`)
}

// Freezing or killing a jail cuts its connections within 100 ms.
func TestTheKillSwitchCutsEveryConnection(t *testing.T) {
	t.Parallel()
	n, _ := withEgress(t)
	ends := make(chan time.Time, 100)
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "here")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ends <- time.Now()
	}))
	id := n.ensure(allow("127.0.0.1:" + port))
	open := func() {
		spec := holding(id, port)
		n.startExec(spec)
		n.until(spec.GetExecId(), "HTTP/1.1 200")
	}
	// worst returns after how long the last of five connections was seen to end.
	worst := func(cut func()) (late time.Duration) {
		began := time.Now()
		cut()
		for range 5 {
			late = max(late, (<-ends).Sub(began))
		}
		return late
	}
	// How long this machine takes to see the end of connections that their own clients close.
	plain := func() time.Duration {
		var all []net.Conn
		for range 5 {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1))
			require.NoError(t, err)
			all = append(all, conn)
		}
		return worst(func() {
			for _, conn := range all {
				require.NoError(t, conn.Close())
			}
		})
	}
	// A machine that is busy may be late once, or all the time and then for every
	// connection; a switch that is slow is late each time, and only the switch is.
	within := func(what string, cut func()) {
		least := time.Hour
		for range 10 {
			for range 5 {
				open()
			}
			took := worst(cut)
			usual := plain()
			if least = min(least, took); least <= 100*time.Millisecond+5*usual {
				t.Logf("%s cut 5 connections within %s; those that were closed by clients ended within %s", what, least, usual)
				return
			}
		}
		require.Failf(t, what+" is too slow", "at best it cut 5 connections within %s", least)
	}
	within("a freeze", func() {
		_, err := n.jail.FreezeJail(t.Context(), &nodev1.FreezeJailRequest{JailId: id, Holder: "the test"})
		require.NoError(t, err)
		_, err = n.jail.ThawJail(t.Context(), &nodev1.ThawJailRequest{JailId: id, Holder: "the test"})
		require.NoError(t, err)
	})
	within("a kill", func() {
		killed, err := n.jail.KillJail(t.Context(), &nodev1.KillJailRequest{JailId: id, By: "the test"})
		require.NoError(t, err)
		require.Zero(t, killed.GetMembersLeft())
	})
	open() // it is not cut for good
}

// A thousand connections of one command at once.
func TestAThousandConnectionsOfOneCommand(t *testing.T) {
	t.Parallel()
	n, known := withEgress(t)
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	known.set("api.test", "127.0.0.1")
	id := n.ensure(allow("api.test:" + port))
	out, text := n.run(command(id, "/usr/bin/python3", "-c", `import socket
conns = [socket.create_connection(('127.0.0.1', 3128), 60) for _ in range(1000)]
for s in conns:
    s.sendall(b'GET http://127.0.0.1:`+port+`/ HTTP/1.1\r\nHost: x\r\n\r\n')
print(sum(s.recv(12) == b'HTTP/1.1 200' for s in conns))`))
	require.Zero(t, out.GetExitCode(), text)
	assert.Equal(t, "1000\n", text)
	_, text = n.fetch(id, "http://api.test:"+port+"/")
	assert.Equal(t, "200 ok\n", text)
}

// A daemon that was replaced is the way out of the jails that it finds.
func TestTheNextDaemonIsTheWayOut(t *testing.T) { onRuntimes(t, testTheNextDaemonIsTheWayOut) }

func testTheNextDaemonIsTheWayOut(t *testing.T, runtime string) {
	oneCommand(t)
	t.Parallel()
	n, known := withEgress(t)
	n.on(runtime)
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	known.set("api.test", "127.0.0.1")
	id := n.ensure(allow("api.test:" + port))
	spec := command(id, "/bin/sh", "-c", `echo here; while [ ! -e go ]; do sleep 0.05; done; exec /usr/bin/python3 -c "$0" "$1"`, fetch, "http://api.test:"+port+"/")
	n.startExec(spec)
	n.until(spec.GetExecId(), "here\n")
	n.stop()
	n.startEgress()
	n.touch(id, "go")
	out := n.wait(spec.GetExecId())
	assert.Equal(t, "here\n200 ok\n", string(n.log(spec.GetExecId(), false)[0]))
	assert.Len(t, out.GetEgress().GetHosts(), 1)
}
