package egress_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress"
)

// patience is for what must not wait; the deadlines of tests are far beyond it.
const patience = 300 * time.Millisecond

// ended waits for the end of a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.Copy(io.Discard, c)
	var late net.Error
	if assert.False(t, asTimeout(err, &late), "it does not end") {
		return
	}
}

func asTimeout(err error, late *net.Error) bool {
	if ne, ok := err.(net.Error); ok { //nolint:errorlint // of io.Copy, as it is
		*late = ne
		return ne.Timeout()
	}
	return false
}

// A thousand connections at once are served, and beyond what a jail may have
// each is told so.
func TestAThousandConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{MaxConns: 1000}, rules(t, "127.0.0.1:"+o.port))
	conns := make([]net.Conn, 1000)
	var wg sync.WaitGroup
	var served atomic.Int64
	for i := range conns {
		conns[i] = r.dial()
		wg.Go(func() {
			// The connection stays open after the answer.
			_, err := fmt.Fprintf(conns[i], "GET http://127.0.0.1:%s/%d HTTP/1.1\r\nHost: x\r\n\r\n", o.port, i)
			want := fmt.Sprintf("/%d", i)
			buf, got := make([]byte, 1024), ""
			for err == nil && !strings.HasSuffix(got, want) {
				var n int
				n, err = conns[i].Read(buf)
				got += string(buf[:n])
			}
			if err == nil && strings.HasPrefix(got, "HTTP/1.1 200") {
				served.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1000, served.Load())
	more := r.dial()
	answer := make([]byte, 1000)
	n, err := more.Read(answer)
	require.NoError(t, err)
	answer = answer[:n]
	assert.Contains(t, string(answer), "as many connections open as it may have")
	require.NoError(t, conns[0].Close())
	require.Eventually(t, func() bool {
		res, err := r.client("").Get("http://127.0.0.1:" + o.port + "/")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

func TestWhoSaysNothingIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{Patience: patience, Idle: patience}, rules(t, "127.0.0.1:"+o.port))
	silent, half := r.dial(), r.dial()
	_, err := io.WriteString(half, "GET http://127.0.0.1:"+o.port+"/ HTTP/1.1\r\nHo")
	require.NoError(t, err)
	_, tunnel, _ := r.connect("127.0.0.1:" + o.port)
	for _, c := range []net.Conn{silent, half, tunnel} {
		ended(t, c)
	}
}

func TestAnIdleTunnelEnds(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, true, hello)
	r := newRig(t, egress.Config{Idle: waittest.Limit(2 * time.Second)}, rules(t, "127.0.0.1:"+o.port)) // longer than a handshake on a busy machine
	_, conn, _ := r.connect("127.0.0.1:" + o.port)
	require.NoError(t, tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()) //nolint:gosec // the test's own
	ended(t, conn)
}

// A reader that takes nothing is not waited for; one that is merely slow is.
func TestASlowReader(t *testing.T) {
	t.Parallel()
	over := make(chan struct{}, 2)
	body := bytes.Repeat([]byte("x"), 8<<20)
	o := newOrigin(t, false, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body)
		over <- struct{}{}
	})
	r := newRig(t, egress.Config{Patience: 2 * time.Second}, rules(t, "127.0.0.1:"+o.port))
	stuck := r.dial()
	_, err := fmt.Fprintf(stuck, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", o.port)
	require.NoError(t, err)
	<-over // whoever serves it is let go
	got, err := io.Copy(io.Discard, stuck)
	assert.Less(t, got, int64(len(body)), "%v", err)

	slow := r.dial()
	_, err = fmt.Fprintf(slow, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", o.port)
	require.NoError(t, err)
	var n int64
	for buf := make([]byte, 1<<20); err == nil; {
		var k int
		k, err = slow.Read(buf)
		n += int64(k)
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Greater(t, n, int64(len(body)))
}

func TestWhatIsNoHTTPIsRefused(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	r := newRig(t, egress.Config{Patience: patience}, rules(t, "127.0.0.1:"+o.port))
	for name, c := range map[string]struct{ says, answer string }{
		"noise":              {"\x00\xff\x00\xff\r\n\r\n", "HTTP/1.1 400"},
		"a request to us":    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this is a proxy"},
		"a scheme":           {"GET ftp://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n", "this is a proxy"},
		"two lengths":        {"POST http://127.0.0.1:" + o.port + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 400"},
		"a path to connect":  {"CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403"},
		"no port":            {"CONNECT example.com HTTP/1.1\r\nHost: x\r\n\r\n", "names no port"},
		"credentials inside": {"GET http://a:b@127.0.0.1:" + o.port + "/x HTTP/1.1\r\nHost: x\r\n\r\n", "GET 127.0.0.1:" + o.port + "/x"},
		"a long header":      {"GET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		"the old protocol":   {"GET http://127.0.0.1:" + o.port + "/old HTTP/1.0\r\n\r\n", "/old"},
		"a lookup of ours":   {"CONNECT localhost:" + o.port + " HTTP/1.1\r\nHost: x\r\n\r\n", "no rule allows localhost"},
	} {
		conn := r.dial()
		go func() { _, _ = io.WriteString(conn, c.says) }() // it may be answered before it is read
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		buf, got := make([]byte, 4096), ""
		for !strings.Contains(got, c.answer) {
			n, err := conn.Read(buf)
			got += string(buf[:n])
			if err != nil {
				break
			}
		}
		assert.Contains(t, got, c.answer, name)
	}
}

// Rules change as the jail runs, for new connections and for those that are.
func TestRulesChangeAtOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, true, hello)
	r := newRig(t, egress.Config{}, rules(t))
	res, _, _ := r.connect("127.0.0.1:" + o.port)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.NoError(t, r.proxy.Change(jailID, rules(t, "127.0.0.1:"+o.port)))
	_, stays, _ := r.connect("127.0.0.1:" + o.port)
	secure := tls.Client(stays, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
	require.NoError(t, secure.Handshake())
	require.NoError(t, r.proxy.Change(jailID, rules(t, "127.0.0.0/24:"+o.port)))
	_, err := fmt.Fprintf(secure, "GET /still HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	one := make([]byte, 8)
	_, err = io.ReadFull(secure, one)
	require.NoError(t, err, "what is allowed as well stays")
	require.NoError(t, r.proxy.Change(jailID, rules(t, "example.com")))
	ended(t, stays)
	res, _, _ = r.connect("127.0.0.1:" + o.port)
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
	require.ErrorContains(t, r.proxy.Change(jailID, rulesOf("not a host")), "is not a host name")
}

// What is cut is cut at once, and stays so until it is resumed.
func TestACutEndsEveryConnection(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, true, hello)
	waits := make(chan struct{})
	plain := newOrigin(t, false, func(_ http.ResponseWriter, r *http.Request) {
		waits <- struct{}{}
		<-r.Context().Done()
	})
	r := newRig(t, egress.Config{}, rules(t, "127.0.0.1:"+o.port+","+plain.port))
	var conns []net.Conn
	for range 50 {
		_, conn, _ := r.connect("127.0.0.1:" + o.port)
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
		require.NoError(t, secure.Handshake())
		conns = append(conns, conn)
	}
	request := r.dial()
	_, err := fmt.Fprintf(request, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", plain.port)
	require.NoError(t, err)
	<-waits
	began := time.Now()
	r.proxy.Cut(jailID, "the task was killed")
	for _, c := range append(conns, request) {
		ended(t, c)
	}
	t.Logf("51 connections were cut in %s", time.Since(began))
	c := r.client("")
	status, body := r.get(c, "http://127.0.0.1:"+plain.port+"/")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "the task was killed")
	r.proxy.Resume(jailID)
	res, _, _ := r.connect("127.0.0.1:" + o.port)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	r.proxy.Leave(jailID)
	_, err = net.Dial("unix", r.socket)
	assert.Error(t, err)
}

func TestWhoseAConnectionIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, egress.Config{}, rules(t))
	r.proxy.Begin(jailID, "step_1")
	_, _ = r.get(r.client("step_nobody"), "http://one.test/")
	r.proxy.Begin(jailID, "step_2")
	r.proxy.Begin("jail_other", "step_3")
	_, _ = r.get(r.client("step_2"), "http://two.test/")
	_, _ = r.get(r.client("step_3"), "http://both.test/")
	var of [4]string
	for i := 1; i <= 3; i++ {
		jail := map[bool]string{true: "jail_other", false: jailID}[i == 3]
		for _, refusal := range r.proxy.End(jail, fmt.Sprintf("step_%d", i)).GetRefusals() {
			of[i] += refusal.GetHost() + " "
		}
	}
	assert.Equal(t, "one.test:80 both.test:80 ", of[1], "who does not say is all that run in the jail")
	assert.Equal(t, "two.test:80 both.test:80 ", of[2])
	assert.Empty(t, of[3], "nobody speaks for another jail")
}
