package httprule_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/httprule/corpus"
)

// strictListener makes a StrictConn of each connection.
type strictListener struct{ net.Listener }

func (l strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return httprule.NewStrictConn(c), nil
}

// serve starts a server and returns its address, and what sends it bytes and
// returns what comes back until it closes the connection.
func serve(t *testing.T, strict bool, handler http.HandlerFunc) (address string, send func(raw []byte) string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = l.Addr().String()
	if strict {
		l = strictListener{l}
	}
	server := &http.Server{Handler: handler, ConnState: httprule.ConnState, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: time.Minute}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return address, func(raw []byte) string {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		go func() {
			// A server that refuses does not read to the end.
			if _, err := c.Write(raw); err == nil {
				c.(*net.TCPConn).CloseWrite()
			}
		}()
		out, _ := io.ReadAll(c)
		return string(out)
	}
}

// The checks of this package together refuse every message of the corpus that is
// marked so, and net/http by itself those that are marked so.
func TestAmbiguousMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{true, false} {
		var handled atomic.Int32
		_, send := serve(t, strict, func(w http.ResponseWriter, r *http.Request) {
			if strict {
				_, err := httprule.Canonical(r.RequestURI)
				if httprule.Check(r) != nil || err != nil {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
			handled.Add(1)
		})
		names := map[string]bool{}
		for _, raw := range corpus.Raws() {
			require.False(t, names[raw.Name], "two messages have the name %q", raw.Name)
			names[raw.Name] = true
			handled.Store(0)
			answer := send(raw.Bytes)
			first, _, _ := strings.Cut(answer, "\r\n")
			switch {
			case strict && raw.Refused || !strict && raw.NetHTTP:
				assert.Zero(t, handled.Load(), "%s (strict: %v): %s", raw.Name, strict, first)
			case strict:
				assert.EqualValues(t, 1, handled.Load(), "%s: %s", raw.Name, answer)
			default:
				// Whoever sees this fail may set NetHTTP: net/http has learned to refuse it.
				assert.NotZero(t, handled.Load(), "net/http refuses %s: %s", raw.Name, first)
			}
		}
	}
}

func TestAStrictConnCarriesSeveralRequestsAndAnUpgrade(t *testing.T) {
	t.Parallel()
	address, send := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			fmt.Fprintf(w, "[%s %s %s]", r.URL.Path, body, r.Trailer.Get("X-Sum"))
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer c.Close()
		fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		assert.NoError(t, buf.Flush())
		line, err := buf.ReadString('\n')
		assert.NoError(t, err)
		fmt.Fprint(c, "got "+line)
	})
	const host = " HTTP/1.1\r\nHost: example.com\r\n"
	answer := send([]byte("POST /a" + host + "Content-Length: 5\r\n\r\nhe\nlo" +
		"POST /b" + host + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\r\n\r\r\n0\r\nX-Sum: 7\r\n\r\n" +
		"GET /c" + host + "\r\n"))
	for _, want := range []string{"[/a he\nlo ]", "[/b \r\n\r 7]", "[/c  ]"} {
		require.Contains(t, answer, want)
	}
	// The second request is refused without harm to the first.
	answer = send([]byte("GET /a" + host + "\r\nGET /b" + host + "X: a\n\r\n"))
	require.NotContains(t, answer, "[/b")

	// What comes after the switch is no HTTP.
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /ws"+host+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	fmt.Fprint(c, "\x81hello\n")
	got, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "got \x81hello\n", string(got))
}

func TestAStrictConnIsOpaqueAfterASwitch(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer client.Close()
	strict := httprule.NewStrictConn(server)
	defer strict.Close()
	require.Equal(t, server, strict.Unwrap())
	const head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(client, head+"not\nHTTP")
		sent <- err
	}()
	in := bufio.NewReader(io.LimitReader(strict, int64(len(head))))
	_, err := http.ReadRequest(in)
	require.NoError(t, err)
	httprule.ConnState(strict, http.StateActive)
	httprule.ConnState(strict, http.StateHijacked)
	got := make([]byte, len("not\nHTTP"))
	_, err = io.ReadFull(strict, got)
	require.NoError(t, err)
	require.Equal(t, "not\nHTTP", string(got))
	require.NoError(t, <-sent)
}

// A timeout in the middle of a head, as net/http causes it when a handler hijacks
// the connection, loses nothing.
func TestAStrictConnGoesOnAfterATimeout(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer client.Close()
	strict := httprule.NewStrictConn(server)
	defer strict.Close()
	_, err := io.WriteString(writerTo{client, strict}, "GET / HT")
	require.NoError(t, err)
	require.NoError(t, strict.SetReadDeadline(time.Time{}))
	go io.WriteString(client, "TP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strict))
	require.NoError(t, err)
	require.Equal(t, "a", r.Host)
}

// writerTo writes to a pipe while a read at its other end waits for more, and
// ends that read by a deadline.
type writerTo struct {
	to   net.Conn
	from *httprule.StrictConn
}

func (w writerTo) Write(p []byte) (int, error) {
	done := make(chan error, 1)
	go func() {
		_, err := w.from.Read(make([]byte, 1))
		done <- err
	}()
	n, err := w.to.Write(p) // returns when the reader has it
	if err != nil {
		return n, err
	}
	if err := w.from.SetReadDeadline(time.Now()); err != nil {
		return n, err
	}
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, fmt.Errorf("the read ended with %w", err)
	}
	return n, nil
}
