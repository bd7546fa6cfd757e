package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/httprule"
)

// TLS is terminated for the hosts of credentials and of rules by method and path: the
// proxy proves to be the host by a certificate that the jail trusts, decides about each
// request, and sends it on in a connection of its own, whose certificate it verifies.
//
// The standard library's server, reverse proxy and client do the work, since a credential
// must never depend on how a second implementation reads HTTP.

// maxQuestion bounds the body of a GraphQL request, which is read before it is decided.
const maxQuestion = 1 << 20

// inflight is a request that has been sent on.
type inflight struct {
	binding *binding // nil for one without a credential
	// still reports whether a policy allows it.
	still func(*policy) bool
	end   context.CancelCauseFunc
}

// errEnded ends the requests with a credential that is no longer to be used.
var errEnded = errors.New("the credential of this request may no longer be used")

// intercept serves a tunnel to a host whose TLS is terminated.
func (j *jail) intercept(w http.ResponseWriter, r *http.Request, t allowlist.Target, p *policy, who asker) {
	a := p.authority(t)
	if a == nil {
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("this jail has no certificate authority for %s yet", t.Host))
		return
	}
	// First, since a failure is said in HTTP before the tunnel is open.
	ctx, cancel := context.WithTimeout(r.Context(), j.p.cfg.Patience)
	defer cancel()
	leaf, err := j.signers.leaf(ctx, a, t)
	if err != nil {
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("there is no certificate for %s: %s", t.Host, err))
		return
	}
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
	j.terminate(client, buffered.Reader, t, leaf, who)
}

// terminate serves the requests in a tunnel to a host whose TLS is terminated.
func (j *jail) terminate(client *conn, from *bufio.Reader, t allowlist.Target, leaf *tls.Certificate, who asker) {
	one := &oneConn{conn: client, from: from, ended: make(chan struct{})}
	defer one.Close()
	_ = client.SetReadDeadline(time.Now().Add(j.p.cfg.Patience))
	first, err := from.Peek(firstBytes)
	switch {
	case len(first) == 0:
		return
	case first[0] != recordHandshake && err == nil && isHTTP(first):
		_ = client.SetReadDeadline(time.Time{})
		j.inside(client, from, t, who)
		return
	}
	named := "" // by the client, if it names another host
	secure := tls.Server(one, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if refusal := judgeHello(t, hello.ServerName, nil); refusal != nil {
				named = refusal.Reason
				return nil, refusal
			}
			return leaf, nil
		},
	})
	if err := secure.HandshakeContext(context.Background()); err != nil {
		j.failedHandshake(who, t, named, err)
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	server := j.p.serverOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.request(w, r, t, who) }))
	var conn net.Conn = secure // the server looks for this type, and serves HTTP/2 if that was agreed on
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		conn, server.ConnState = httprule.NewStrictConn(secure), httprule.ConnState
	}
	_ = server.Serve(&onceListener{conn: conn, ended: one.ended})
}

// failedHandshake notes why a client's TLS failed.
func (j *jail) failedHandshake(who asker, t allowlist.Target, named string, err error) {
	why := &allowlist.Refusal{Reason: named}
	var alert tls.AlertError
	switch {
	case named != "":
	case errors.As(err, &alert):
		why.Reason = fmt.Sprintf("the program does not trust the certificate by which the egress proxy stands for %s (%s): "+
			"it has certificates of its own, or pins the host's; have it use the system's, or SSL_CERT_FILE", t, err)
	default:
		return // it went away, or spoke no TLS
	}
	who.refused(t.String(), http.MethodConnect, why)
	j.refusals.note(t.String(), http.MethodConnect, why)
}

// onceListener returns a connection once, and then waits for its end.
type onceListener struct {
	conn  net.Conn
	ended <-chan struct{}
	once  sync.Once
}

// Accept implements net.Listener.
func (o *onceListener) Accept() (c net.Conn, err error) {
	o.once.Do(func() { c = o.conn })
	if c != nil {
		return c, nil
	}
	<-o.ended
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (o *onceListener) Close() error { return nil }

// Addr implements net.Listener.
func (o *onceListener) Addr() net.Addr { return o.conn.LocalAddr() }

// request serves a request whose TLS was terminated.
func (j *jail) request(w http.ResponseWriter, r *http.Request, t allowlist.Target, who asker) {
	named, err := allowlist.ParseTarget(r.Host, t.Port)
	switch {
	case j.isCut(w):
		return
	case r.URL.Host != "" || r.Method == http.MethodConnect:
		say(w, http.StatusBadRequest, "there is no proxy inside of the tunnel")
		return
	case err != nil || named != t:
		say(w, http.StatusMisdirectedRequest, fmt.Sprintf("this connection is to %s and not to %.100q", t, r.Host))
		return
	}
	if err := httprule.Check(r); err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	operations := sync.OnceValues(func() ([]string, error) { return operationsOf(r) })
	p := j.policy()
	b, path, refusal := p.decide(t, r, operations)
	if refusal != nil {
		j.refuse(w, who, t.String(), r.Method, refusal)
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	one := &inflight{binding: b, end: end, still: func(p *policy) bool {
		now, _, refusal := p.decide(t, r, operations)
		return refusal == nil && (b == nil) == (now == nil) && (b == nil || p.same(b))
	}}
	if !j.begin(one) {
		j.isCut(w)
		return
	}
	defer j.finish(one)
	f := forwarded{j: j, t: t, who: who, count: who.counter(t), binding: b, path: path}
	f.serve(w, r.WithContext(ctx))
}

// operationsOf reads the operations of a GraphQL request, and puts its body back.
func operationsOf(r *http.Request) ([]string, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxQuestion+1)); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		if len(body) > maxQuestion {
			return nil, fmt.Errorf("the GraphQL request is longer than %d bytes", maxQuestion)
		}
	}
	return httprule.Operations(r.Method, r.URL, r.Header, body)
}

// begin adds a request to those that are sent on; it returns false if the rules do not
// allow it any more.
func (j *jail) begin(one *inflight) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone || !one.still(j.pol) {
		return false
	}
	j.requests[one] = struct{}{}
	return true
}

func (j *jail) finish(one *inflight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.requests, one)
}

// endRequests ends some of the requests that were sent on.
func (j *jail) endRequests(why error, which func(*inflight) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for one := range j.requests {
		if which(one) {
			one.end(why)
		}
	}
}

// EndCredential forgets what the proxy holds of a credential and ends the requests with it.
// Either may be empty, for all jails or all credentials.
func (p *Proxy) EndCredential(jailID, credential string) {
	p.mu.Lock()
	var all []*jail
	for id, j := range p.jails {
		if jailID == "" || id == jailID {
			all = append(all, j)
		}
	}
	p.mu.Unlock()
	for _, j := range all {
		j.tokens.forget(credential)
		j.endRequests(errEnded, func(one *inflight) bool {
			return one.binding != nil && (credential == "" || one.binding.GetCredential() == credential)
		})
	}
}

// forwarded is one request that is sent on.
type forwarded struct {
	j       *jail
	t       allowlist.Target
	who     asker
	count   *counter
	binding *binding       // nil for none
	path    *httprule.Path // nil where the path decided nothing
}

// serve sends a request on and its response back.
func (f forwarded) serve(w http.ResponseWriter, r *http.Request) {
	sent := &counted{ReadCloser: r.Body, add: func(n int) { f.count.passed(n, 0) }}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = sent
	}
	var token egresslink.Token
	var transport http.RoundTripper = f.j.upstream(f.binding)
	if b := f.binding; b != nil {
		var err error
		finish, err := f.record(r)
		if err != nil {
			f.problem(w, r, err)
			return
		}
		answer := &answered{ResponseWriter: w}
		w = answer
		defer func() { finish(answer, sent.total()) }()
		if b.GetHeld() {
			transport = f.j.p.cfg.Hub
		} else if token, err = f.j.tokens.token(r.Context(), b); err != nil {
			f.problem(w, r, err)
			return
		}
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, BufferPool: buffers, ErrorLog: f.j.server.ErrorLog,
		Rewrite:        func(pr *httputil.ProxyRequest) { f.rewrite(pr, token) },
		ModifyResponse: func(res *http.Response) error { return f.response(res, token) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if cause := context.Cause(r.Context()); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			f.problem(w, r, err)
		},
	}
	proxy.ServeHTTP(w, r)
}

// rewrite makes the request that is sent on: as it came, to the host of the tunnel, with the
// credential in the place of whatever the command put there.
func (f forwarded) rewrite(pr *httputil.ProxyRequest, token egresslink.Token) {
	pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.URL.User = "https", f.t.String(), nil
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was written
	if f.path != nil {
		f.path.Apply(pr.Out.URL)
	}
	pr.Out.Host = pr.In.Host
	copyForwarding(pr)
	if f.binding == nil {
		return
	}
	// A response is searched for the secret: encodings that cannot be read are not offered.
	limitEncodings(pr.Out.Header)
	if f.binding.GetHeld() {
		pr.Out.URL.Scheme = "http"
		for name, value := range map[string]string{
			egresslink.HeaderJail: f.j.id, egresslink.HeaderExec: f.who.exec(),
			egresslink.HeaderCredential: f.binding.GetCredential(), egresslink.HeaderTarget: f.t.String(),
		} {
			egresslink.RemoveHeader(pr.Out.Header, name)
			pr.Out.Header.Set(name, value)
		}
		return
	}
	token.Insert(pr.Out)
}

// response looks at a response before it is sent back.
func (f forwarded) response(res *http.Response, token egresslink.Token) error {
	if f.binding.held() && res.Header.Get(egresslink.HeaderRefused) != "" {
		return hubRefusal(res)
	}
	if f.binding != nil && res.StatusCode == http.StatusUnauthorized {
		f.note(res.Request.Method, fmt.Sprintf("%s refused the credential %s (HTTP 401): it may have expired or been revoked there; an administrator can replace it with `deckhand credential rotate %s`",
			f.t, f.binding.GetCredential(), f.binding.GetCredential()))
	}
	if f.binding != nil && !f.binding.GetHeld() {
		if err := mask(res, f.binding.GetCredential(), token.Secrets); err != nil {
			return err
		}
	}
	if f.count != nil && res.Body != nil && res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &counted{ReadCloser: res.Body, add: func(n int) { f.count.passed(0, n) }}
	}
	return nil
}

func (b *binding) held() bool { return b != nil && b.GetHeld() }

// problem says to a command why its request got no response, and notes it for its agent.
func (f forwarded) problem(w http.ResponseWriter, r *http.Request, err error) {
	e := fault.As(err)
	if e == nil || f.binding == nil {
		if a, ok := w.(*answered); ok {
			a.problem = err.Error()
		}
		f.j.failed(w, f.who, f.t, r.Method, err)
		return
	}
	text := fmt.Sprintf("the credential %s cannot be used: %s", f.binding.GetCredential(), e.Message)
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	f.note(r.Method, text)
	if a, ok := w.(*answered); ok {
		a.problem = e.Message
	}
	status := http.StatusBadGateway
	switch e.Kind { //nolint:exhaustive // the rest are the hub's problems
	case fault.Denied, fault.NotFound, fault.Invalid, fault.Precondition:
		status = http.StatusForbidden
	case fault.Exhausted:
		status = http.StatusTooManyRequests
	case fault.Unavailable:
		status = http.StatusServiceUnavailable
	}
	say(w, status, text)
}

func (f forwarded) note(method, text string) {
	why := &allowlist.Refusal{Reason: text}
	f.who.refused(f.t.String(), method, why)
	f.j.refusals.note(f.t.String(), method, why)
}

// counted is a body whose bytes are counted.
type counted struct {
	io.ReadCloser

	add func(n int)
	mu  sync.Mutex
	n   int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.add(n)
	c.mu.Lock()
	c.n += int64(n)
	c.mu.Unlock()
	return n, err
}

func (c *counted) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// copyForwarding keeps the headers about forwarding that a command set for its host.
func copyForwarding(pr *httputil.ProxyRequest) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := pr.In.Header[name]; values != nil {
			pr.Out.Header[name] = values
		}
	}
}

// limitEncodings removes encodings from what a request accepts that package echomask cannot
// read.
func limitEncodings(h http.Header) {
	var kept []string
	for _, value := range h.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(one), ";")
			switch strings.ToLower(name) {
			case "gzip", "br", "zstd", "deflate", "identity":
				kept = append(kept, strings.TrimSpace(one))
			}
		}
	}
	if len(kept) == 0 {
		h.Set("Accept-Encoding", "identity")
		return
	}
	h.Set("Accept-Encoding", strings.Join(kept, ", "))
}
