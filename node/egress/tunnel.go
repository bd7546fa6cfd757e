package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// established is said to a command whose tunnel is open.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect serves a tunnel. The host is connected to first, so that what fails
// then is said in HTTP; what comes through is looked at next, and goes to the
// host last.
func (j *jail) connect(w http.ResponseWriter, r *http.Request, who asker) {
	t, err := allowlist.ParseTarget(r.URL.Host, 0)
	if err != nil {
		j.refuse(w, who, r.URL.Host, r.Method, &allowlist.Refusal{Reason: err.Error()})
		return
	}
	p := j.policy()
	if refusal := p.hosts.Reaches(t); refusal != nil {
		j.refuse(w, who, t.String(), r.Method, refusal)
		return
	}
	if p.intercepts(t) {
		j.intercept(w, r, t, p, who)
		return
	}
	list := p.list
	// The protocol inside is not known yet; inside TLS it never will be.
	var opaque atomic.Bool
	up, err := j.dial(r.Context(), t, func(p *policy) *allowlist.Refusal {
		if opaque.Load() {
			return p.opaque(t)
		}
		return p.hosts.Reaches(t)
	})
	if err != nil {
		j.failed(w, who, t, r.Method, err)
		return
	}
	defer up.Close()
	got, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		say(w, http.StatusBadRequest, "this connection cannot become a tunnel")
		return
	}
	defer got.Close()
	client, ok := got.(*conn)
	if !ok {
		return
	}
	if _, err := io.WriteString(client, established); err != nil {
		return
	}
	up.count.Store(who.counter(t))
	if list.Forwarded(t) {
		opaque.Store(true)
		pipe(client, buffered.Reader, nil, up)
		return
	}
	j.lookInto(client, buffered.Reader, up, t, who, &opaque)
}

// lookInto lets through a tunnel what it may be for.
func (j *jail) lookInto(client *conn, from *bufio.Reader, up *conn, t allowlist.Target, who asker, opaque *atomic.Bool) {
	_ = client.SetReadDeadline(time.Now().Add(j.p.cfg.Patience))
	first, err := from.Peek(firstBytes)
	switch {
	case len(first) > 0 && first[0] == recordHandshake:
		hello, name, err := readHello(from)
		opaque.Store(true)
		refusal := judgeHello(t, name, err)
		if refusal == nil {
			refusal = j.policy().opaque(t)
		}
		if refusal != nil {
			j.refuseTunnel(client, who, t, refusal, accessDenied)
			return
		}
		_ = client.SetReadDeadline(time.Time{})
		pipe(client, from, hello, up)
	case err == nil && isHTTP(first):
		_ = up.Close() // its requests have connections of their own
		_ = client.SetReadDeadline(time.Time{})
		j.inside(client, from, t, who)
	case len(first) == 0:
		j.refuseTunnel(client, who, t, &allowlist.Refusal{
			Reason: fmt.Sprintf("nothing was sent through the tunnel to %s for %s: what the other end begins passes by a TCP forward only", t, j.p.cfg.Patience),
			Allow:  suggestForward(t),
		}, nil)
	default:
		j.refuseTunnel(client, who, t, &allowlist.Refusal{
			Reason: fmt.Sprintf("what was sent through the tunnel to %s is neither TLS nor HTTP", t), Allow: suggestForward(t),
		}, nil)
	}
}

func suggestForward(t allowlist.Target) string { return fmt.Sprintf("egress: {tcp: [%q]}", t) }

// refuseTunnel ends a tunnel that is already open.
func (j *jail) refuseTunnel(client *conn, who asker, t allowlist.Target, why *allowlist.Refusal, last []byte) {
	who.refused(t.String(), http.MethodConnect, why)
	j.refusals.note(t.String(), http.MethodConnect, why)
	_, _ = client.Write(last)
	_ = client.Close()
}

// firstBytes is enough to recognise the protocol: every HTTP request and every
// TLS record is at least as long.
const firstBytes = 4

func isHTTP(first []byte) bool {
	return slices.ContainsFunc(allowlist.Methods, func(method string) bool {
		return string(first) == (method + " ")[:firstBytes]
	})
}

// inside serves the plain HTTP in a tunnel: WebSockets, for example.
func (j *jail) inside(client *conn, from *bufio.Reader, t allowlist.Target, who asker) {
	one := &oneConn{conn: client, from: from, ended: make(chan struct{})}
	server := j.p.serverOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named, err := allowlist.ParseTarget(r.Host, t.Port)
		switch {
		case j.isCut(w):
		case r.URL.Host != "" || r.Method == http.MethodConnect:
			say(w, http.StatusBadRequest, "there is no proxy inside of the tunnel")
		case err != nil || named != t:
			j.refuse(w, who, t.String(), r.Method, &allowlist.Refusal{
				Reason: fmt.Sprintf("the request in the tunnel to %s is for the host %.100q", t, r.Host),
			})
		default:
			r.URL.Scheme, r.URL.Host = "http", t.String()
			j.plain(w, r, who)
		}
	}))
	_ = server.Serve(one)
}

// oneConn is a listener's only connection.
type oneConn struct {
	*conn
	from  *bufio.Reader
	ended chan struct{}

	taken bool // by Accept, which is called by one
	once  sync.Once
}

// Read reads what was read ahead first.
func (o *oneConn) Read(b []byte) (int, error) {
	if o.from.Buffered() > 0 {
		return o.from.Read(b)
	}
	return o.conn.Read(b)
}

// Close ends the connection, and with it the listener.
func (o *oneConn) Close() error {
	o.once.Do(func() { close(o.ended) })
	return o.conn.Close()
}

// Accept returns the connection, and then none until it has ended.
func (o *oneConn) Accept() (net.Conn, error) {
	if !o.taken {
		o.taken = true
		return o, nil
	}
	<-o.ended
	return nil, net.ErrClosed
}

// Addr implements net.Listener.
func (o *oneConn) Addr() net.Addr { return o.LocalAddr() }

// pipe takes bytes both ways until both ends have said all they have to, or one
// fails. What was read ahead of the client goes first: hello, and what from has.
func pipe(client *conn, from *bufio.Reader, hello []byte, up *conn) {
	defer client.Close()
	defer up.Close()
	ahead, _ := from.Peek(from.Buffered())
	for _, first := range [][]byte{hello, ahead} {
		if _, err := up.Write(first); err != nil {
			return
		}
	}
	var both sync.WaitGroup
	both.Go(func() { half(up, client) })
	half(client, up)
	both.Wait()
}

// half takes bytes one way.
func half(to, from *conn) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	if _, err := io.CopyBuffer(to, from, buf); err != nil || to.CloseWrite() != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	to.linger()
}
