package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// maxRefusals is how many refusals are kept for the call that is in progress.
const maxRefusals = 20

// proxy passes the browser's requests to the node's egress proxy. Chromium takes no
// credentials for a proxy on its command line, and has one proxy for its whole life; the
// node's proxy learns from the credentials which command a request belongs to. So this one
// adds those of the call in progress, and keeps what was refused, which Chromium would show
// as no more than a failed tunnel.
type proxy struct {
	server   *http.Server
	listener net.Listener
	upstream *url.URL

	mu       sync.Mutex
	exec     *url.Userinfo // guarded by mu
	refusals []refusal     // guarded by mu
}

// refusal is a request that the node's proxy refused.
type refusal struct{ host, why string }

// newProxy starts a proxy on loopback in front of one at a URL, whose user is the command that
// requests belong to while no call is in progress.
func newProxy(upstream string) (*proxy, error) {
	to, err := url.Parse(upstream)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("the jail's proxy %q is not a URL", upstream)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser's requests: %w", err)
	}
	p := &proxy{listener: listener, upstream: to, exec: to.User}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *proxy) address() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) close() { _ = p.server.Close() }

// begin has requests belong to a command until the function that it returns is called, which
// returns what was refused meanwhile.
func (p *proxy) begin(exec string) (end func() []refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.exec
	if exec != "" {
		p.exec = url.UserPassword(exec, "x")
	}
	p.refusals = nil
	return func() []refusal {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.exec = before
		return p.refusals
	}
}

func (p *proxy) authorization() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exec == nil {
		return ""
	}
	password, _ := p.exec.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.exec.Username()+":"+password))
}

// ours begins what the node's proxy says itself, in place of a server.
const ours = "deckhand: "

// refused keeps the refusal that begins a response's body.
func (p *proxy) refused(host string, body []byte) {
	text, ok := strings.CutPrefix(string(body), ours)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refusals) < maxRefusals {
		p.refusals = append(p.refusals, refusal{host, report.Clean([]byte(strings.TrimSpace(text)), 400)})
	}
}

// why returns why the last request to a host was refused; empty if none was.
func (p *proxy) why(host string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.refusals) - 1; i >= 0; i-- {
		if hostOf(p.refusals[i].host) == hostOf(host) {
			return p.refusals[i].why
		}
	}
	return ""
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// ServeHTTP passes one request on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hijacker, ok := w.(http.Hijacker)
	if !ok || r.Method != http.MethodConnect && r.URL.Host == "" {
		http.Error(w, "this is a proxy", http.StatusBadRequest)
		return
	}
	var dialer net.Dialer
	to, err := dialer.DialContext(r.Context(), "tcp", p.upstream.Host)
	if err != nil {
		const why = ours + "this jail has no proxy, so nothing but its own loopback can be reached; the persona would have to have egress rules"
		p.refused(r.Host, []byte(why))
		http.Error(w, why, http.StatusBadGateway)
		return
	}
	defer func() { _ = to.Close() }()
	out := r.Clone(r.Context())
	if auth := p.authorization(); auth != "" {
		out.Header.Set("Proxy-Authorization", auth)
	}
	if r.Method == http.MethodConnect {
		out.URL = &url.URL{Opaque: r.Host}
	} else if !upgrades(r) {
		// One request for a connection, so that each has the credentials of its call.
		out.Header.Set("Connection", "close")
		out.Close = true
	}
	if err := write(to, out); err != nil {
		http.Error(w, "the jail's proxy cannot be reached", http.StatusBadGateway)
		return
	}
	reader := bufio.NewReader(to)
	res, err := http.ReadResponse(reader, r)
	if err != nil {
		http.Error(w, "the jail's proxy did not answer", http.StatusBadGateway)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if r.Method == http.MethodConnect && res.StatusCode == http.StatusOK || res.StatusCode == http.StatusSwitchingProtocols {
		p.join(hijacker, to, reader, res)
		return
	}
	body := bufio.NewReader(res.Body)
	if res.StatusCode >= http.StatusBadRequest {
		begin, _ := body.Peek(1000)
		p.refused(r.Host, begin)
	}
	for name, values := range res.Header {
		if !strings.EqualFold(name, "Connection") && !strings.EqualFold(name, "Transfer-Encoding") {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(flushing{w, http.NewResponseController(w)}, body)
}

func upgrades(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// write sends a request to the proxy as it is.
func write(to io.Writer, r *http.Request) error {
	if r.Method != http.MethodConnect {
		return r.WriteProxy(to)
	}
	_, err := fmt.Fprintf(to, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", r.Host, r.Host, r.Header.Get("Proxy-Authorization"))
	return err
}

// join connects the browser with a server that a tunnel leads to.
func (p *proxy) join(hijacker http.Hijacker, to net.Conn, reader *bufio.Reader, res *http.Response) {
	from, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = from.Close() }()
	if res.StatusCode == http.StatusOK {
		_, err = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
	} else {
		_, err = fmt.Fprintf(from, "HTTP/1.1 101 Switching Protocols\r\n")
		if err == nil {
			err = res.Header.Write(from)
		}
		if err == nil {
			_, err = io.WriteString(from, "\r\n")
		}
	}
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, buffered)
		closeWrite(to)
	}()
	_, _ = io.Copy(from, reader)
	closeWrite(from)
	// A side that closes its half may still read; but not for ever.
	select {
	case <-done:
	case <-time.After(time.Minute):
	}
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// flushing writes what comes at once, for streams of events.
type flushing struct {
	w       io.Writer
	control *http.ResponseController
}

func (f flushing) Write(data []byte) (int, error) {
	n, err := f.w.Write(data)
	if err == nil {
		if ferr := f.control.Flush(); !errors.Is(ferr, http.ErrNotSupported) {
			err = ferr
		}
	}
	return n, err
}
