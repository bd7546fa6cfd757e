package egress_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/deckhand-sh/deckhand/internal/httprule/corpus"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// targets are the request targets that a server got.
type targets struct {
	mu   sync.Mutex
	seen []string
}

func (s *targets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.RequestURI)
	s.mu.Unlock()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest) // it did not get the whole request
		return
	}
	_, _ = io.WriteString(w, "got "+r.RequestURI)
}

func (s *targets) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.seen
	s.seen = nil
	return out
}

// tunnel opens a tunnel and speaks TLS in it, in one version of HTTP.
func (b *bound) tunnel(protocol string) *tls.Conn {
	b.t.Helper()
	_, c, _ := b.connect(strings.TrimPrefix(b.url(""), "https://"))
	secure := tls.Client(c, &tls.Config{RootCAs: b.hub.roots, ServerName: "git.test", NextProtos: []string{protocol}})
	_ = c.SetDeadline(time.Now().Add(waittest.Limit(20 * time.Second)))
	require.NoError(b.t, secure.Handshake())
	return secure
}

// raw sends bytes in a new connection and returns the statuses of the responses, at most as
// many as there should be.
func (b *bound) raw(text []byte, most int, ends bool) (statuses []int) {
	b.t.Helper()
	c := b.tunnel("http/1.1")
	defer c.Close()
	go func() {
		_, _ = c.Write(text)
		if ends {
			_ = c.CloseWrite()
		}
	}()
	from := bufio.NewReader(c)
	for len(statuses) < most {
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if statuses = append(statuses, res.StatusCode); !ends {
			_ = c.CloseWrite() // another request would be read by now
		}
	}
	return statuses
}

func newRuled(t *testing.T, h http.Handler, http ...string) *bound {
	return newBound(t, h.ServeHTTP, func(e *nodev1.Egress) {
		e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "git.test", Ports: e.GetBindings()[0].GetPorts(), Http: http})
	})
}

// What is decided by is what arrives, or nothing does.
func TestTheCorpusOfTargetsArrivesAsItWasDecided(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newRuled(t, got, "allow * /**")
	host := strings.TrimPrefix(b.url(""), "https://")
	for _, c := range corpus.Cases() {
		statuses := b.raw([]byte("GET "+c.Target+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), 2, false)
		arrived := got.take()
		if c.Refused {
			assert.Empty(t, arrived, c.Name)
			assert.NotContains(t, statuses, http.StatusOK, c.Name)
			continue
		}
		require.Len(t, arrived, 1, c.Name)
		path, _, _ := strings.Cut(arrived[0], "?")
		assert.Equal(t, c.Path, path, c.Name)
		_, query, has := strings.Cut(c.Target, "?")
		_, arrivedQuery, hasArrived := strings.Cut(arrived[0], "?")
		assert.Equal(t, query, arrivedQuery, c.Name)
		assert.Equal(t, has, hasArrived, c.Name)
		assert.Equal(t, []int{http.StatusOK}, statuses, c.Name)
	}
}

// The same targets in HTTP/2's :path.
func TestTheCorpusOfTargetsInHTTP2(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newRuled(t, got, "allow * /**")
	host := strings.TrimPrefix(b.url(""), "https://")
	for _, c := range corpus.Cases() {
		status := b.frames([][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", host}, {":path", c.Target}})
		arrived := got.take()
		if c.Refused {
			assert.Empty(t, arrived, c.Name)
			assert.NotEqual(t, "200", status, c.Name)
			continue
		}
		require.Len(t, arrived, 1, c.Name)
		path, _, _ := strings.Cut(arrived[0], "?")
		assert.Equal(t, c.Path, path, c.Name)
	}
}

// frames sends one request of HTTP/2 in a connection of its own and returns the status; "" for
// a stream or connection that is reset.
func (b *bound) frames(fields [][2]string) (status string) {
	b.t.Helper()
	c := b.tunnel("h2")
	defer c.Close()
	_, err := io.WriteString(c, http2.ClientPreface)
	require.NoError(b.t, err)
	framer := http2.NewFramer(c, c)
	require.NoError(b.t, framer.WriteSettings())
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		require.NoError(b.t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(b.t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return status
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// Of a message in which two servers may find different requests, nothing arrives.
func TestTheCorpusOfMessages(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newRuled(t, got, "allow * /**")
	host := strings.TrimPrefix(b.url(""), "https://")
	for _, m := range corpus.Raws() {
		// The corpus is for example.com, some of it with a port of its own.
		if bytes.Contains(m.Bytes, []byte("example.com:8080")) {
			continue
		}
		text := bytes.ReplaceAll(m.Bytes, []byte("Host: example.com\r\n"), []byte("Host: "+host+"\r\n"))
		most := 1
		if m.Refused {
			most = 2
		}
		statuses := b.raw(text, most, strings.Contains(m.Name, "early") || strings.Contains(m.Name, "bytes and more"))
		arrived := got.take()
		assert.NotContains(t, arrived, "/hidden", m.Name)
		if !m.Refused {
			assert.Len(t, arrived, 1, m.Name)
			assert.Equal(t, []int{http.StatusOK}, statuses, m.Name)
			continue
		}
		assert.NotContains(t, statuses, http.StatusOK, m.Name)
	}
}

func TestAConnectionIsToOneAuthority(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBound(t, got.ServeHTTP, nil)
	host := strings.TrimPrefix(b.url(""), "https://")
	get := func(target, host string) []int {
		return b.raw([]byte(target+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), 2, false)
	}
	other := "git.test:" + strconv.Itoa(int(b.port)+1)
	assert.Equal(t, []int{http.StatusMisdirectedRequest}, get("GET /", "other.test"))
	assert.Equal(t, []int{http.StatusMisdirectedRequest}, get("GET /", other))
	assert.Equal(t, []int{http.StatusBadRequest}, get("GET https://"+host+"/", host))
	assert.Equal(t, []int{http.StatusBadRequest}, get("GET http://other.test/", host))
	assert.Equal(t, []int{http.StatusBadRequest}, get("TRACE /", host))
	assert.Equal(t, []int{http.StatusBadRequest}, get("CONNECT "+host, host))
	fields := func(method, authority string) [][2]string {
		return [][2]string{{":method", method}, {":scheme", "https"}, {":authority", authority}, {":path", "/"}}
	}
	assert.Equal(t, "421", b.frames(fields("GET", "other.test")))
	assert.Equal(t, "421", b.frames(fields("GET", other)))
	assert.Equal(t, "400", b.frames(fields("TRACE", host)))
	assert.Equal(t, "400", b.frames([][2]string{{":method", "CONNECT"}, {":authority", host}}))
	assert.NotEqual(t, "200", b.frames(append(fields("GET", host), [2]string{"host", "other.test"})))
	assert.Empty(t, got.take())
	assert.Equal(t, "200", b.frames(fields("GET", host)))
	assert.Equal(t, []string{"/"}, got.take())

	// TLS must name the tunnel's host.
	_, c, _ := b.connect(host)
	err := tls.Client(c, &tls.Config{RootCAs: b.hub.roots, ServerName: "other.test"}).Handshake()
	require.Error(t, err)
	b.proxy.Begin(jailID, "exec_2")
	_, c, _ = b.connect(host)
	require.Error(t, tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake(), "and some host") //nolint:gosec // no name is sent
}

// A redirect is the client's to follow, and what it leads to gets no credential.
func TestARedirectIsReturned(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 8)
	elsewhere, roots := secureOrigin(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }, "other.test", "git.test")
	plain := newOrigin(t, false, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	plainPort, err := strconv.ParseUint(plain.port, 10, 16)
	require.NoError(t, err)
	b := newBound(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	}, func(e *nodev1.Egress) {
		ports := []uint32{elsewhere, uint32(plainPort)}
		e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "other.test", Ports: ports}, &nodev1.Egress_Rule{Host: "git.test", Ports: ports},
			&nodev1.Egress_Rule{Host: "127.0.0.1", Ports: ports})
	})
	b.names.set("other.test", "127.0.0.1")
	require.True(t, b.hub.roots.AppendCertsFromPEM([]byte(roots)))
	for _, to := range []string{
		fmt.Sprintf("https://other.test:%d/", elsewhere), fmt.Sprintf("https://git.test:%d/", elsewhere), "http://git.test:" + plain.port + "/",
	} {
		client := b.browser(false)
		res, err := client.Get(b.url("/?to=" + to))
		require.NoError(t, err)
		_ = res.Body.Close()
		require.Equal(t, http.StatusTemporaryRedirect, res.StatusCode)
		require.Equal(t, to, res.Header.Get("Location"))
		client.CheckRedirect = nil
		res, err = client.Get(b.url("/?to=" + to))
		require.NoError(t, err)
		_ = res.Body.Close()
		assert.NotContains(t, fmt.Sprint(<-got), secret, to)
	}
	assert.Empty(t, got)
}

// A rule by method and path decides whichever way a request goes to its host.
func TestARuleCannotBePassedBy(t *testing.T) {
	t.Parallel()
	got := &targets{}
	plain := httptest.NewServer(got)
	defer plain.Close()
	plainPort := netip.MustParseAddrPort(plain.Listener.Addr().String()).Port()
	b := newBound(t, got.ServeHTTP, func(e *nodev1.Egress) {
		ports := []uint32{e.GetBindings()[0].GetPorts()[0], uint32(plainPort)}
		e.Bindings[0].Paths = []string{"/open/**"} // with what the server is verified by
		e.Rules = []*nodev1.Egress_Rule{
			{Host: "127.0.0.1", Ports: ports}, {Host: "*", Ports: ports}, {Host: "*.test", Ports: ports},
			{Host: "git.test", Ports: ports, Http: []string{"allow GET /open/**", "deny GET /open/secret"}},
		}
	})
	require.True(t, b.hub.roots.AppendCertsFromPEM([]byte(b.roots)))
	refused := func(name string, status int, text string) {
		t.Helper()
		assert.Equal(t, http.StatusForbidden, status, name)
		assert.Contains(t, text, "egress refused", name)
	}
	insecure := b.client("exec_1")
	port := strconv.Itoa(int(plainPort))
	for name, host := range map[string]string{"as it is": "git.test", "in upper case": "GIT.TEST", "with a dot": "git.test.", "with both": "Git.Test."} {
		for _, path := range []string{"/closed", "/open/../closed", "/open/secret", "/open//x", "/open/Secret"} {
			res, err := b.browserFor(host).Get("https://" + host + ":" + strconv.Itoa(int(b.port)) + path)
			if err == nil { // a name with a dot is none that the certificate has
				text, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				refused(name+" "+path, res.StatusCode, string(text))
			}
			status, text := b.get(insecure, "http://"+host+":"+port+path)
			refused("plain, "+name+" "+path, status, text)
		}
	}
	assert.Empty(t, got.take())
	status, text := b.get(insecure, "http://git.test:"+port+"/open/x?a=/../b")
	assert.Equal(t, http.StatusOK, status, text)
	res, err := b.browser(true).Get(b.url("/open/x"))
	require.NoError(t, err)
	_ = res.Body.Close()
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, []string{"/open/x?a=/../b", "/open/x"}, got.take())

	// Plain HTTP in a tunnel.
	for path, want := range map[string]int{"/closed": http.StatusForbidden, "/open/x": http.StatusOK} {
		_, c, from := b.connect("git.test:" + port)
		_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: git.test:"+port+"\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		_ = res.Body.Close()
		assert.Equal(t, want, res.StatusCode)
	}
	// TLS that names the host, in a tunnel to its address.
	_, c, _ := b.connect("127.0.0.1:" + strconv.Itoa(int(b.port)))
	require.Error(t, tls.Client(c, &tls.Config{RootCAs: b.hub.roots, ServerName: "git.test"}).Handshake())
	// A TCP forward.
	bad := &nodev1.Egress{
		Rules:    []*nodev1.Egress_Rule{{Host: "git.test", Http: []string{"allow GET /**"}}},
		Forwards: []*nodev1.Egress_Forward{{Listen: 5000, Host: "git.test", Port: 443}},
	}
	require.ErrorContains(t, egress.Check(bad), "the forward to git.test:443 would pass by the rules")
	require.Error(t, egress.Check(&nodev1.Egress{Rules: []*nodev1.Egress_Rule{{Host: "*.test", Http: []string{"allow GET /**"}}}}))
}

// browserFor is a browser that takes the certificate of another spelling of the host.
func (b *bound) browserFor(host string) *http.Client {
	c := b.browser(false)
	c.Transport.(*http.Transport).TLSClientConfig.ServerName = strings.TrimSuffix(strings.ToLower(host), ".") //nolint:forcetypeassert // see client
	return c
}

// The address of a host is not allowed by the rules for its name.
func TestTheAddressIsNotTheName(t *testing.T) {
	t.Parallel()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	var own string
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP.String()
		}
	}
	if own == "" {
		t.Skip("this machine has no address besides those of its loopback interface")
	}
	got := &targets{}
	b := newRuled(t, got, "allow GET /open")
	address := net.JoinHostPort(own, strconv.Itoa(int(b.port)))
	res, _, _ := b.connect(address)
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
	status, _ := b.get(b.client("exec_1"), "http://"+address+"/")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Empty(t, got.take())
}

func TestTwoCredentialsForOneRequestAreAnError(t *testing.T) {
	t.Parallel()
	got := &targets{}
	b := newBound(t, got.ServeHTTP, func(e *nodev1.Egress) {
		one := e.GetBindings()[0]
		e.Bindings = append(e.Bindings, &nodev1.Egress_Binding{
			Credential: "other", Hosts: one.GetHosts(), Ports: one.GetPorts(), Roots: one.GetRoots(), Paths: []string{"/both/**"},
		})
	})
	status, text := b.get(b.browser(true), b.url("/both/x"))
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "the credentials github and other both fit this request")
	assert.Empty(t, got.take())
	status, _ = b.get(b.browser(true), b.url("/one"))
	assert.Equal(t, http.StatusOK, status)
}

// Over plain HTTP a credential's requests are those of any other host.
func TestNoCredentialIsInsertedOverPlainHTTP(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 4)
	plain := newOrigin(t, false, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	port, err := strconv.ParseUint(plain.port, 10, 16)
	require.NoError(t, err)
	for _, allowed := range []bool{false, true} {
		b := newBound(t, hello, func(e *nodev1.Egress) {
			e.Bindings[0].Ports = append(e.Bindings[0].Ports, uint32(port))
			e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "127.0.0.1", Ports: []uint32{uint32(port)}})
			if allowed {
				e.Rules = append(e.Rules, &nodev1.Egress_Rule{Host: "git.test", Ports: []uint32{uint32(port)}})
			}
		})
		status, _ := b.get(b.client("exec_1"), "http://git.test:"+plain.port+"/")
		if !allowed {
			assert.Equal(t, http.StatusForbidden, status)
			continue
		}
		assert.Equal(t, http.StatusOK, status)
		assert.NotContains(t, fmt.Sprint(<-got), secret)
	}
	assert.Empty(t, got)
}
