package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// What a rule names passes; all else is refused with the reason and the rule,
// and told of the exec.
func TestPlainHTTPPassesWhereARuleAllowsIt(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	r.names.set("other.test", "127.0.0.1")
	r.proxy.Begin(jailID, "step_1")
	c := r.client("step_1")

	status, body := r.get(c, "http://api.test:"+o.port+"/a%2Fb?x=1&y=%zz")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "GET api.test:"+o.port+"/a%2Fb?x=1&y=%zz", body)
	status, body = r.get(c, "http://other.test:"+o.port+"/")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "egress refused: no rule allows other.test:"+o.port)
	assert.Contains(t, body, `egress: {allow: ["other.test:`+o.port+`"]}`)
	status, _ = r.get(c, "http://other.test:"+o.port+"/again")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Equal(t, []string{"api.test"}, r.names.lookedUp(), "a name that is not allowed is not looked up")

	use := r.proxy.End(jailID, "step_1")
	require.Len(t, use.GetHosts(), 1)
	host := use.GetHosts()[0]
	assert.Equal(t, "api.test:"+o.port, host.GetHost())
	assert.EqualValues(t, 1, host.GetRequests())
	assert.Greater(t, host.GetSentBytes(), int64(50))
	assert.Greater(t, host.GetReceivedBytes(), int64(100))
	require.Len(t, use.GetRefusals(), 1)
	assert.EqualValues(t, 2, use.GetRefusals()[0].GetCount())
	assert.Equal(t, "GET", use.GetRefusals()[0].GetMethod())
	assert.Nil(t, r.proxy.End(jailID, "step_1"))
}

// Addresses are judged after the look-up and at each connection, however
// they are written.
func TestWhatIsNotOfTheWideWorldIsRefused(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{}, rules(t, "*", "*.rebind.test:"+o.port))
	r.names.set("a.rebind.test", "93.184.216.34")
	c := r.client("")
	for url, says := range map[string]string{
		"http://127.0.0.1/":                       "no rule allows 127.0.0.1:80",
		"http://169.254.169.254/latest/meta-data": "no rule allows 169.254.169.254:80",
		"http://[::1]/":                           "no rule allows [::1]:80",
		"http://[::ffff:127.0.0.1]/":              "no rule allows 127.0.0.1:80",
		"http://2130706433/":                      "neither a name nor an address",
		"http://0x7f000001/":                      "neither a name nor an address",
		"http://127.1/":                           "neither a name nor an address",
	} {
		status, body := r.get(c, url)
		assert.Equal(t, http.StatusForbidden, status, url)
		assert.Contains(t, body, says, url)
		assert.NotContains(t, body, "egress: {allow", url)
	}
	for _, addr := range []string{"127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1", "fe80::1", "64:ff9b::7f00:1", "100.64.0.1", "0.0.0.0"} {
		r.names.set("b.rebind.test", addr)
		status, body := r.get(c, "http://b.rebind.test:"+o.port+"/")
		assert.Equal(t, http.StatusForbidden, status, addr)
		assert.Contains(t, body, "b.rebind.test:"+o.port+" is ", addr)
		res, _, _ := r.connect("b.rebind.test:" + o.port)
		assert.Equal(t, http.StatusForbidden, res.StatusCode, addr)
	}
}

// DNS rebinding. The name is looked up once for each connection, and the
// address that was judged is the one that is connected to.
func TestANameThatTurnsToAPrivateAddressIsRefusedFromThenOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{}, rules(t, "turns.test:"+o.port, "127.0.0.2:"+o.port))
	r.names.set("turns.test", "127.0.0.2")
	c := r.client("")
	status, _ := r.get(c, "http://turns.test:"+o.port+"/")
	require.Equal(t, http.StatusBadGateway, status, "nobody listens at the address that is allowed")
	r.names.set("turns.test", "127.0.0.1")
	status, body := r.get(c, "http://turns.test:"+o.port+"/")
	assert.Equal(t, http.StatusForbidden, status, "somebody listens at the one that is not")
	assert.Contains(t, body, "is 127.0.0.1, a loopback address")
	r.names.set("turns.test", "127.0.0.1", "127.0.0.2")
	status, _ = r.get(c, "http://turns.test:"+o.port+"/")
	assert.Equal(t, http.StatusBadGateway, status, "of several, those that are allowed are tried")
	assert.Equal(t, []string{"turns.test", "turns.test", "turns.test"}, r.names.lookedUp())
}

func TestARedirectIsJudgedAsAnyRequest(t *testing.T) {
	t.Parallel()
	inner := newOrigin(t, false, hello)
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+inner.port+"/secret", http.StatusFound)
	})
	r := newRig(t, egress.Config{}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	c := r.client("")
	c.CheckRedirect = nil
	status, body := r.get(c, "http://api.test:"+o.port+"/")
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "the rules for 127.0.0.1 do not allow port "+inner.port)
}

func TestAHostHeaderLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	conn := r.dial()
	_, err := fmt.Fprintf(conn, "GET http://api.test:%s/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", o.port)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "GET api.test:"+o.port+"/", "what the host is asked for is the address")
}

func TestMethodsAreHeldWhereTheyAreSeen(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	list := rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port)
	list.Rules[0].Methods = []string{"GET"}
	r := newRig(t, egress.Config{}, list)
	r.names.set("api.test", "127.0.0.1")
	c := r.client("")
	status, _ := r.get(c, "http://api.test:"+o.port+"/")
	assert.Equal(t, http.StatusOK, status)
	res, err := c.Post("http://api.test:"+o.port+"/", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
	assert.Contains(t, string(body), "do not allow the method POST")

	connected, conn, br := r.connect("api.test:" + o.port)
	require.Equal(t, http.StatusOK, connected.StatusCode)
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: api.test:%s\r\nContent-Length: 0\r\n\r\n", o.port)
	require.NoError(t, err)
	inside, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	defer inside.Body.Close()
	assert.Equal(t, http.StatusForbidden, inside.StatusCode, "a tunnel is no way round it")

	_, conn, _ = r.connect("api.test:" + o.port)
	err = tls.Client(conn, &tls.Config{ServerName: "api.test"}).Handshake()
	assert.ErrorContains(t, err, "access denied", "nor is TLS")
}

// TLS must name the host that the tunnel is for.
func TestATunnelIsForTheHostThatTLSNames(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, true, hello)
	r := newRig(t, egress.Config{}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	r.proxy.Begin(jailID, "step_1")
	for name, c := range map[string]struct {
		to, sni string
		refused bool
	}{
		"the same":                  {"api.test", "api.test", false},
		"in capitals":               {"api.test", "API.test", false},
		"another":                   {"api.test", "evil.test", true},
		"none":                      {"api.test", "", true},
		"none, to an address":       {"127.0.0.1", "", false},
		"one that is not addressed": {"127.0.0.1", "evil.test", true},
	} {
		res, conn, _ := r.connect(c.to + ":" + o.port)
		require.Equal(t, http.StatusOK, res.StatusCode, name)
		secure := tls.Client(conn, &tls.Config{ServerName: c.sni, InsecureSkipVerify: true}) //nolint:gosec // the test's own
		err := secure.Handshake()
		if c.refused {
			assert.ErrorContains(t, err, "access denied", name)
			continue
		}
		require.NoError(t, err, name)
		_, err = fmt.Fprintf(secure, "GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		body, err := io.ReadAll(secure)
		require.NoError(t, err)
		assert.Contains(t, string(body), "GET api.test/x", name)
		_ = secure.Close()
	}
	use := r.proxy.End(jailID, "step_1")
	var reasons []string
	for _, refusal := range use.GetRefusals() {
		assert.Equal(t, "CONNECT", refusal.GetMethod())
		reasons = append(reasons, refusal.GetReason())
	}
	assert.ElementsMatch(t, []string{
		`TLS in the tunnel to api.test:` + o.port + ` names another host, "evil.test" (SNI)`,
		`TLS in the tunnel to api.test:` + o.port + ` names no host (SNI)`,
		`TLS in the tunnel to 127.0.0.1:` + o.port + ` names another host, "evil.test" (SNI)`,
	}, reasons)
}

func TestATunnelTakesNothingButTLSAndHTTP(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{Patience: 300 * time.Millisecond}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	r.proxy.Begin(jailID, "step_1")
	for _, says := range []string{"SSH-2.0-x\r\n", "\x00\x01\x02\x03\x04", "", "\x16\x03\x01", "\x16\x03\x01\x00\x05hello"} {
		res, conn, br := r.connect("api.test:" + o.port)
		require.Equal(t, http.StatusOK, res.StatusCode)
		_, err := io.WriteString(conn, says)
		require.NoError(t, err)
		answer, _ := io.ReadAll(br)
		assert.LessOrEqual(t, len(answer), 7, "no more than an alert, and the end, for %q", says)
	}
	res, conn, br := r.connect("api.test:" + o.port)
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	require.NoError(t, err)
	inside, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	defer inside.Body.Close()
	assert.Equal(t, http.StatusForbidden, inside.StatusCode, "a Host header leads nowhere else")
	use := r.proxy.End(jailID, "step_1")
	var all strings.Builder
	for _, refusal := range use.GetRefusals() {
		all.WriteString(refusal.GetReason() + "\n" + refusal.GetAllow() + "\n")
	}
	assert.Contains(t, all.String(), "neither TLS nor HTTP")
	assert.Contains(t, all.String(), "nothing was sent through the tunnel")
	assert.Contains(t, all.String(), `egress: {tcp: ["api.test:`+o.port+`"]}`)
	assert.Contains(t, all.String(), "cannot be read")
	assert.Contains(t, all.String(), `is for the host "evil.test"`)
}

func TestAForwardLeadsToItsTargetWhateverIsSpoken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 ready\n") // the server speaks first
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	addr := l.Addr().(*net.TCPAddr)
	r := newRig(t, egress.Config{}, &nodev1.Egress{Forwards: []*nodev1.Egress_Forward{{Listen: 5432, Host: "127.0.0.1", Port: uint32(addr.Port)}}})
	res, conn, br := r.connect(addr.String())
	require.Equal(t, http.StatusOK, res.StatusCode)
	line, err := br.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "220 ready\n", line)
	_, err = io.WriteString(conn, "SELECT 1\n")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.UnixConn).CloseWrite())
	rest, err := io.ReadAll(br)
	require.NoError(t, err)
	assert.Equal(t, "SELECT 1\n", string(rest), "an end that has said all it had to hears the rest")
}

func TestWebSocketsPassByUpgradeAndByTunnel(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		kind, data, err := c.Read(r.Context())
		if err == nil {
			_ = c.Write(r.Context(), kind, append([]byte("echo "), data...))
		}
		_, _, _ = c.Read(r.Context()) // the client's end
	})
	r := newRig(t, egress.Config{}, rules(t, "api.test:"+o.port, "127.0.0.1:"+o.port))
	r.names.set("api.test", "127.0.0.1")
	for name, dial := range map[string]func() (net.Conn, *bufio.Reader, string){
		"by upgrade": func() (net.Conn, *bufio.Reader, string) {
			c := r.dial()
			return c, bufio.NewReader(c), "http://api.test:" + o.port
		},
		"by tunnel": func() (net.Conn, *bufio.Reader, string) {
			_, c, br := r.connect("api.test:" + o.port)
			return c, br, ""
		},
	} {
		conn, br, prefix := dial()
		_, err := fmt.Fprintf(conn, "GET %s/ws HTTP/1.1\r\nHost: api.test:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", prefix, o.port)
		require.NoError(t, err)
		res, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode, name)
		_, err = conn.Write([]byte{0x81, 0x82, 0, 0, 0, 0, 'h', 'i'}) // a masked text of two bytes
		require.NoError(t, err)
		frame := make([]byte, 9)
		_, err = io.ReadFull(br, frame)
		require.NoError(t, err)
		assert.Equal(t, "\x81\x07echo hi", string(frame), name)
		_ = conn.Close()
	}
}

// To a host whose rules are read-only, nothing becomes a WebSocket: what it sends is not seen.
func TestAReadOnlyRuleRefusesWebSockets(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, func(http.ResponseWriter, *http.Request) { assert.Fail(t, "the request arrived") })
	r := newRig(t, egress.Config{}, &nodev1.Egress{Rules: []*nodev1.Egress_Rule{{Host: "127.0.0.1", Ports: rules(t, "127.0.0.1:"+o.port).GetRules()[0].GetPorts(), ReadOnly: true}}})
	conn := r.dial()
	_, err := fmt.Fprintf(conn, "GET http://127.0.0.1:%[1]s/ws HTTP/1.1\r\nHost: 127.0.0.1:%[1]s\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", o.port)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, string(body), "what is sent through a WebSocket is not seen")
}

func TestAnotherUpgradeIsNone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "upgrade="+r.Header.Get("Upgrade"))
	})
	r := newRig(t, egress.Config{}, rules(t, "127.0.0.1:"+o.port))
	req, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+o.port+"/", nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
	req.Header.Set("Upgrade", "h2c")
	res, err := r.client("").Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "upgrade=", string(body))
}
