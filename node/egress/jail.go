package egress

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// jail is one that is served.
type jail struct {
	p      *Proxy
	id     string
	server *http.Server
	pool   *http.Transport // of connections for plain HTTP
	// refusals is the log of what is refused to it.
	refusals *refusals

	mu    sync.Mutex
	list  *allowlist.List    // guarded by mu
	conns map[*conn]struct{} // guarded by mu
	in    int                // how many of them are commands'; guarded by mu
	gone  bool               // guarded by mu
}

const (
	// keepAlive is how long a connection for plain HTTP waits for the next request.
	keepAlive = 30 * time.Second
	maxIdle   = 64
	maxAnswer = 256 << 10 // the header of an answer
)

func newJail(p *Proxy, id string, list *allowlist.List) *jail {
	j := &jail{p: p, id: id, list: list, conns: map[*conn]struct{}{}, refusals: newRefusals(p.cfg.Log, id)}
	j.pool = &http.Transport{
		DialContext: j.dialPlain, DisableCompression: true, IdleConnTimeout: keepAlive,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxAnswer, ExpectContinueTimeout: time.Second,
	}
	j.server = p.serverOf(j)
	return j
}

// serverOf returns an HTTP server with strict time limits.
func (p *Proxy) serverOf(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: p.cfg.Patience, IdleTimeout: p.cfg.Idle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// serve serves until the jail is left.
func (j *jail) serve(l net.Listener) {
	if err := j.server.Serve(listener{l, j}); !errors.Is(err, http.ErrServerClosed) {
		j.p.cfg.Log.Error("a jail's way out is closed", "jail", j.id, "error", err)
	}
}

func (j *jail) close() {
	j.mu.Lock()
	j.gone = true
	j.mu.Unlock()
	_ = j.server.Close()
	j.endConns(func(*conn) bool { return true })
	j.pool.CloseIdleConnections()
	j.refusals.close()
}

func (j *jail) rules() *allowlist.List {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.list
}

// change puts other rules in force.
func (j *jail) change(list *allowlist.List) {
	j.mu.Lock()
	j.list = list
	j.mu.Unlock()
	j.endConns(func(c *conn) bool { return c.judge != nil && c.judge(list) != nil })
}

// endConns closes some connections, without waiting for their users.
func (j *jail) endConns(which func(c *conn) bool) {
	j.mu.Lock()
	var ending []*conn
	for c := range j.conns {
		if which(c) {
			ending = append(ending, c)
		}
	}
	j.mu.Unlock()
	for _, c := range ending {
		_ = c.Close()
	}
}

// keep adds a connection to the jail's list; it returns nil if the jail has too
// many.
func (j *jail) keep(c *conn) *conn {
	c.jail, c.idle = j, j.p.cfg.Idle
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone {
		return nil
	}
	if c.judge == nil {
		if j.in >= j.p.cfg.MaxConns {
			return nil
		}
		select {
		case j.p.slots <- struct{}{}:
		default:
			return nil
		}
		j.in++
	}
	j.conns[c] = struct{}{}
	return c
}

func (j *jail) forget(c *conn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, kept := j.conns[c]; !kept {
		return
	}
	delete(j.conns, c)
	if c.judge == nil {
		j.in--
		<-j.p.slots
	}
}

// ServeHTTP serves a request of a command's.
func (j *jail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := asker(j.p.users(j.id, execOf(r.Header.Get("Proxy-Authorization"))))
	switch {
	case j.isCut(w):
	case r.Method == http.MethodConnect:
		j.connect(w, r, who)
	case r.URL.Scheme != "http" || r.URL.Host == "":
		say(w, http.StatusBadRequest, "this is a proxy: ask for http://host/path, or for host:port with CONNECT")
	default:
		j.plain(w, r, who)
	}
}

// isCut says, where nothing of the jail passes, that it does not.
func (j *jail) isCut(w http.ResponseWriter) bool {
	why := j.p.cutFor(j.id)
	if why == "" {
		return false
	}
	w.Header().Set("Connection", "close")
	say(w, http.StatusServiceUnavailable, why)
	return true
}

// execOf returns the id of the exec that a command names in its credentials.
func execOf(credentials string) string {
	scheme, encoded, _ := strings.Cut(credentials, " ")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return ""
	}
	exec, _, _ := strings.Cut(string(raw), ":")
	return exec
}

// plain serves a request of plain HTTP.
func (j *jail) plain(w http.ResponseWriter, r *http.Request, who asker) {
	t, err := allowlist.ParseTarget(r.URL.Host, 80)
	if err != nil {
		j.refuse(w, who, r.URL.Host, r.Method, &allowlist.Refusal{Reason: err.Error()})
		return
	}
	if refusal := j.rules().Match(t, r.Method); refusal != nil {
		j.refuse(w, who, t.String(), r.Method, refusal)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		// After an upgrade, the data that follows would not be checked.
		r.Header.Del("Upgrade")
	}
	count := who.counter(t)
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if c, ok := got.Conn.(*conn); ok {
			c.count.Store(count)
		}
	}}
	proxy := &httputil.ReverseProxy{
		Transport: j.pool, BufferPool: buffers, ErrorLog: j.server.ErrorLog,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Host, pr.Out.URL.User = t.String(), nil
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was written
			// Of the command's own making, and for the host to read.
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := pr.In.Header[name]; values != nil {
					pr.Out.Header[name] = values
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { j.failed(w, who, t, r.Method, err) },
	}
	proxy.ServeHTTP(w, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// dialPlain connects for plain HTTP. Which requests may use it is judged before.
func (j *jail) dialPlain(ctx context.Context, _, address string) (net.Conn, error) {
	t, err := allowlist.ParseTarget(address, 0)
	if err != nil {
		return nil, err
	}
	return j.dial(ctx, t, func(l *allowlist.List) *allowlist.Refusal { return l.Reaches(t) })
}

// refuse says to a command, and notes for its agent, why something is refused.
func (j *jail) refuse(w http.ResponseWriter, who asker, host, method string, why *allowlist.Refusal) {
	who.refused(host, method, why)
	j.refusals.note(host, method, why)
	say(w, http.StatusForbidden, "egress refused: "+why.Error())
}

// failed says why a connection that is allowed could not be had.
func (j *jail) failed(w http.ResponseWriter, who asker, t allowlist.Target, method string, err error) {
	var refusal *allowlist.Refusal
	var lookup *net.DNSError
	var late net.Error
	switch {
	case errors.As(err, &refusal):
		j.refuse(w, who, t.String(), method, refusal)
	case errors.As(err, &lookup):
		say(w, http.StatusBadGateway, fmt.Sprintf("the name %s cannot be looked up", t.Host))
	case errors.As(err, &late) && late.Timeout():
		say(w, http.StatusGatewayTimeout, fmt.Sprintf("%s does not answer in time", t))
	default:
		say(w, http.StatusBadGateway, fmt.Sprintf("%s: %s", t, err))
	}
}

// say replies to a command with a text.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "deckhand: "+text+"\n") //nolint:gosec // it says that it is no HTML
}

// pool of buffers.
type pool struct{ sync.Pool }

// bufferSize is small enough for a thousand tunnels at once.
const bufferSize = 16 << 10

var buffers = &pool{sync.Pool{New: func() any { return make([]byte, bufferSize) }}}

// Get implements httputil.BufferPool.
func (p *pool) Get() []byte {
	if b, ok := p.Pool.Get().([]byte); ok {
		return b
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (p *pool) Put(b []byte) { p.Pool.Put(b) } //nolint:staticcheck // a header to a buffer is small beside it
