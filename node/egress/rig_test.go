package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver that the test controls.
type names struct {
	mu    sync.Mutex
	addrs map[string][]string
	asked []string
}

func (n *names) set(name string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name] = addrs
}

func (n *names) lookedUp() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	n.asked = append(n.asked, host)
	for _, text := range n.addrs[host] {
		out = append(out, netip.MustParseAddr(text))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// rig is a proxy that serves one jail, as its init reaches it.
type rig struct {
	t      *testing.T
	proxy  *egress.Proxy
	names  *names
	socket string
}

const jailID = "jail_test"

func newRig(t *testing.T, cfg egress.Config, rules *nodev1.Egress) *rig {
	t.Helper()
	r := &rig{t: t, names: &names{addrs: map[string][]string{}}, socket: filepath.Join(t.TempDir(), "egress.sock")}
	cfg.Resolver = r.names
	if cfg.Special == nil { // what the tests connect to is on this machine
		cfg.Special = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	r.proxy = egress.New(cfg)
	require.NoError(t, r.proxy.Start(context.Background()))
	t.Cleanup(r.proxy.Stop)
	l, err := net.Listen("unix", r.socket)
	require.NoError(t, err)
	require.NoError(t, r.proxy.Serve(jailID, l, rules))
	return r
}

// rules returns rules as they travel.
func rules(t *testing.T, texts ...string) *nodev1.Egress {
	t.Helper()
	out := &nodev1.Egress{}
	for _, text := range texts {
		rule, err := allowlist.Parse(text)
		require.NoError(t, err)
		one := &nodev1.Egress_Rule{Host: rule.Host}
		for _, port := range rule.Ports {
			one.Ports = append(one.Ports, uint32(port))
		}
		out.Rules = append(out.Rules, one)
	}
	return out
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.socket)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// listen accepts connections for the jail's proxy at an address, which it returns: as the jail's
// init does.
func (r *rig) listen() string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	var all sync.WaitGroup
	r.t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer from.Close()
				to, err := net.Dial("unix", r.socket)
				if err != nil {
					return
				}
				defer to.Close()
				var both sync.WaitGroup
				both.Go(func() {
					_, _ = io.Copy(to, from)
					_ = to.(*net.UnixConn).CloseWrite() //nolint:forcetypeassert // see Dial
				})
				_, _ = io.Copy(from, to)
				_ = from.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // see Listen
				both.Wait()
			})
		}
	})
	return l.Addr().String()
}

// client returns a program in the jail: it uses the proxy as the environment
// tells it to.
func (r *rig) client(exec string) *http.Client {
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128", User: url.UserPassword(exec, "x")}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
		},
		TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()},
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get returns the status and text of an answer.
func (r *rig) get(c *http.Client, url string) (int, string) {
	r.t.Helper()
	res, err := c.Get(url)
	require.NoError(r.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(body)
}

// connect opens a tunnel and returns how that went; the connection is positioned
// after the answer's header.
func (r *rig) connect(to string) (*http.Response, net.Conn, *bufio.Reader) {
	r.t.Helper()
	c := r.dial()
	_, err := io.WriteString(c, "CONNECT "+to+" HTTP/1.1\r\nHost: "+to+"\r\n\r\n")
	require.NoError(r.t, err)
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = res.Body.Close() })
	return res, c, br
}

// origin is a server of the world outside, at a port of its own.
type origin struct {
	*httptest.Server
	port string
}

func newOrigin(t *testing.T, secure bool, h http.HandlerFunc) origin {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return origin{s, port}
}

// rulesOf returns rules that nobody has checked.
func rulesOf(host string) *nodev1.Egress {
	return &nodev1.Egress{Rules: []*nodev1.Egress_Rule{{Host: host}}}
}

func hello(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Method+" "+r.Host+r.URL.RequestURI())
}
