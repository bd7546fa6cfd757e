package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/deckhand-sh/deckhand/internal/bufpool"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/handle"
)

// jail is one that is served.
type jail struct {
	p      *Proxy
	id     string
	server *http.Server
	pool   *http.Transport // of connections for plain HTTP
	// refusals is the log of what is refused to it.
	refusals *refusals

	signers *signers
	tokens  *tokens
	// issued are the secrets that servers issued in their responses.
	issued *handle.Exchange
	// reading holds one for each request whose body is read to decide it, and pushing one
	// for each push that is judged.
	reading, pushing chan struct{}
	spool            *space // for pushes
	memory           *space // for what must be read before it is passed on

	mu       sync.Mutex
	pol      *policy                // guarded by mu
	conns    map[*conn]struct{}     // guarded by mu
	requests map[*inflight]struct{} // guarded by mu
	// secure are the clients of hosts whose TLS is terminated; guarded by mu.
	secure map[upstreamOf]*http.Transport
	in     int  // how many of conns are commands'; guarded by mu
	gone   bool // guarded by mu
}

const (
	// keepAlive is how long a connection for plain HTTP waits for the next request.
	keepAlive = 30 * time.Second
	maxIdle   = 64
	maxAnswer = 256 << 10 // the header of an answer
)

func newJail(p *Proxy, id string, rules *policy) *jail {
	j := &jail{
		p: p, id: id, pol: rules, conns: map[*conn]struct{}{}, requests: map[*inflight]struct{}{}, secure: map[upstreamOf]*http.Transport{},
		refusals: newRefusals(p.cfg.Log, id), signers: newSigners(id, p.cfg.Hub), tokens: newTokens(id, p.cfg.Hub),
		reading: make(chan struct{}, maxReading), pushing: make(chan struct{}, maxPushing), spool: newSpace(maxSpooled), memory: newSpace(p.cfg.MaxHeld),
	}
	j.issued = handle.New(handle.Config{Intercepts: j.intercepts})
	j.pool = j.transport()
	j.server = p.serverOf(j)
	return j
}

// transport returns a client of the hosts outside that changes nothing of what it passes on.
func (j *jail) transport() *http.Transport {
	return &http.Transport{
		DialContext: j.dialHost, DisableCompression: true, IdleConnTimeout: keepAlive,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxAnswer, ExpectContinueTimeout: time.Second,
		HTTP2: egresslink.Windows(),
	}
}

// upstreamOf says what a client of hosts whose TLS is terminated is for: a version of HTTP, and
// the certificates that they are verified by, in PEM; empty for the machine's.
type upstreamOf struct {
	major int
	roots string
}

// upstream returns the client of hosts whose TLS is terminated. b is the credential of the
// request, or nil. A request of HTTP/1.1 is sent on as one: it means the same at both ends,
// and its server is not asked to do more than the command's program expects of it.
func (j *jail) upstream(b *binding, major int) *http.Transport {
	var roots *x509.CertPool
	of := upstreamOf{major: min(major, 2)}
	if b != nil {
		roots, of.roots = b.roots, b.GetRoots()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	have := j.secure[of]
	if have == nil {
		have = j.transport()
		have.ForceAttemptHTTP2 = major >= 2
		have.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		if major < 2 {
			have.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		j.secure[of] = have
	}
	return have
}

// serverOf returns an HTTP server with strict time limits.
func (p *Proxy) serverOf(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: p.cfg.Patience, IdleTimeout: p.cfg.Idle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0), HTTP2: egresslink.Windows(),
	}
}

// serve serves until the jail is left.
func (j *jail) serve(l net.Listener) {
	if err := j.server.Serve(listener{l, j}); !errors.Is(err, http.ErrServerClosed) {
		j.p.cfg.Log.Error("a jail's way out is closed", "jail_id", j.id, "error", err)
	}
}

func (j *jail) close() {
	j.mu.Lock()
	j.gone = true
	j.mu.Unlock()
	_ = j.server.Close()
	j.endAll(errGone)
	j.pool.CloseIdleConnections()
	j.mu.Lock()
	for _, one := range j.secure {
		one.CloseIdleConnections()
	}
	j.mu.Unlock()
	j.refusals.close()
}

func (j *jail) policy() *policy {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pol
}

// change puts other rules in force.
func (j *jail) change(to *policy) {
	j.mu.Lock()
	j.pol = to
	var old []*http.Transport
	for of, one := range j.secure {
		if of.roots != "" && !to.trusts(of.roots) {
			old = append(old, one)
			delete(j.secure, of)
		}
	}
	j.mu.Unlock()
	for _, one := range old {
		one.CloseIdleConnections()
	}
	j.endConns(func(c *conn) bool { return c.judge != nil && c.judge(to) != nil })
	j.endRequests(errChanged, func(one *inflight) bool { return !one.still(to) })
}

// endAll ends everything that the jail does.
func (j *jail) endAll(why error) {
	j.endRequests(why, func(*inflight) bool { return true })
	j.endConns(func(*conn) bool { return true })
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
	who := j.p.asker(j.id, r.Header.Get("Proxy-Authorization"))
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
	why := j.p.CutFor(j.id)
	if why == "" {
		return false
	}
	w.Header().Set("Connection", "close")
	say(w, http.StatusServiceUnavailable, why)
	return true
}

// execOf returns the id of the exec that a command names in its credentials, and its password.
func execOf(credentials string) (exec, password string) {
	scheme, encoded, _ := strings.Cut(credentials, " ")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", ""
	}
	exec, password, _ = strings.Cut(string(raw), ":")
	return exec, password
}

// plain serves a request of plain HTTP.
func (j *jail) plain(w http.ResponseWriter, r *http.Request, who asker) {
	t, err := allowlist.ParseTarget(r.URL.Host, 80)
	if err != nil {
		j.refuse(w, who, r.URL.Host, r.Method, &allowlist.Refusal{Reason: err.Error()})
		return
	}
	p := j.policy().plain()
	hold := j.newHold()
	defer hold.release()
	q, err := j.question(p, t, r, who, hold)
	if err != nil {
		say(w, http.StatusServiceUnavailable, holdText(err))
		return
	}
	if _, refusal := p.decide(q); refusal != nil {
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
			if q.strict {
				q.path.Apply(pr.Out.URL)
			}
			copyForwarding(pr)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { j.failed(w, who, t, r.Method, err) },
	}
	proxy.ServeHTTP(w, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// dialHost connects to a host. Which requests may use it is decided before.
func (j *jail) dialHost(ctx context.Context, _, address string) (net.Conn, error) {
	t, err := allowlist.ParseTarget(address, 0)
	if err != nil {
		return nil, err
	}
	return j.dial(ctx, t, func(p *policy) *allowlist.Refusal { return p.hosts.Reaches(t) })
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
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refusal):
		j.refuse(w, who, t.String(), method, refusal)
	case errors.As(err, &unverified):
		say(w, http.StatusBadGateway, fmt.Sprintf("the certificate of %s cannot be verified: %s; "+
			"an administrator adds its authority to those that the node's machine trusts, or gives it with the credential (--roots)", t, unverified.Err))
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

const (
	// bufferSize is small enough for a thousand tunnels at once, and bodySize what package
	// echomask searches at once.
	bufferSize = 16 << 10
	bodySize   = 32 << 10
)

var (
	buffers = bufpool.New(bufferSize)
	bodies  = bufpool.New(bodySize)
)
