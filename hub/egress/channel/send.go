package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/tunnel"
	"github.com/deckhand-sh/deckhand/internal/echomask"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// keepAlive is how long a connection waits for the next request.
	keepAlive = 30 * time.Second
	maxIdle   = 32
	// maxClients is how many ways to hosts are kept for a node.
	maxClients = 256
	// maxAnswer bounds the header of a response, in bytes.
	maxAnswer = 256 << 10
	// atOnce is how many requests of an organisation are sent on at the same time, and
	// bytesPerSecond how much of their bodies passes through this hub, both ways together.
	atOnce = 512
	// callsAtOnce is how many calls of the hub by programs of an organisation there may be at the
	// same time, beside those: a stream of events is one for as long as it lasts.
	callsAtOnce = 256
	// ofOneJail is how many of them may be of one jail.
	ofOneJail      = 64
	bytesPerSecond = 256 << 20
	burst          = 4 << 20
	// holdTime is how long the header of a response waits for the beginning of its body.
	holdTime = time.Second
)

// limits bound what each organisation sends through this hub.
type limits struct {
	mu   sync.Mutex
	orgs map[string]*limit // guarded by mu
}

type limit struct {
	slots chan struct{}
	calls chan struct{} // of the hub
	bytes *rate.Limiter
}

func newLimits() *limits { return &limits{orgs: map[string]*limit{}} }

func (l *limits) of(orgID string) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.orgs[orgID]
	if have == nil {
		have = &limit{slots: make(chan struct{}, atOnce), calls: make(chan struct{}, callsAtOnce), bytes: rate.NewLimiter(bytesPerSecond, burst)}
		l.orgs[orgID] = have
	}
	return have
}

// limited is a body whose bytes are bounded for an organisation.
type limited struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // a body has no other way to know its request's end
	bytes *rate.Limiter
	ended atomic.Bool // it was read to its end
}

// Read implements io.Reader.
func (l *limited) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b[:min(len(b), burst)])
	if errors.Is(err, io.EOF) {
		l.ended.Store(true)
	}
	if n > 0 {
		if werr := l.bytes.WaitN(l.ctx, n); werr != nil && err == nil {
			err = werr
		}
	}
	if errors.Is(err, io.EOF) && l.ctx.Err() != nil {
		// A server that was told that the connection ends may end its response early but
		// properly: it is not the whole one.
		err = context.Cause(l.ctx)
	}
	return n, err
}

// maxGathered is the length of a response, in bytes, that may be sent back in one piece.
const maxGathered = 4 << 10

// client is the way to hosts from one jail.
type client struct {
	*http.Transport

	used time.Time // guarded by session.clientsMu
}

// client returns the way for a jail, a version of HTTP, which is that of the command's
// request, and the certificates that hosts are verified by.
func (s *session) client(jailID string, major int, in credential.Inserted) (*client, error) {
	name := jailID + "\x00" + strconv.Itoa(major) + in.Roots
	if in.Private {
		name += "\x00private"
	}
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	have := s.clients[name]
	if have == nil {
		var roots *x509.CertPool
		if in.Roots != "" {
			roots = x509.NewCertPool()
			if !roots.AppendCertsFromPEM([]byte(in.Roots)) {
				return nil, fault.New(fault.Precondition, "the credential's certificates cannot be read").WithFix("rotate it with certificates in PEM")
			}
		}
		have = &client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return tunnel.Dial(ctx, tunnel.Way{Node: s.link, JailID: jailID, Private: in.Private}, address)
			},
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: major >= 2,
			DisableCompression: true, IdleConnTimeout: keepAlive, MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle,
			MaxResponseHeaderBytes: maxAnswer, HTTP2: egresslink.Windows(), ExpectContinueTimeout: time.Second, TLSHandshakeTimeout: readHeaderTimeout,
		}}
		if major < 2 {
			have.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		if len(s.clients) >= maxClients {
			s.dropOldest()
		}
		s.clients[name] = have
	}
	have.used = time.Now()
	return have, nil
}

// dropOldest forgets the way that was not used for the longest time. The caller holds
// clientsMu.
func (s *session) dropOldest() {
	var oldest string
	for name, c := range s.clients {
		if oldest == "" || c.used.Before(s.clients[oldest].used) {
			oldest = name
		}
	}
	s.clients[oldest].CloseIdleConnections()
	delete(s.clients, oldest)
}

func (s *session) close() {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
}

// enter counts a request of a jail, unless it has as many as it may.
func (s *session) enter(jailID string) error {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.under[jailID] >= ofOneJail {
		return fault.New(fault.Exhausted, "%d requests of this jail are being sent through the hub already", ofOneJail).WithFix("end some of them, or try again in a moment")
	}
	s.under[jailID]++
	return nil
}

func (s *session) leave(jailID string) {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.under[jailID]--; s.under[jailID] == 0 {
		delete(s.under, jailID)
	}
}

// send inserts a credential into a request of a jail's command and sends it on.
func (s *session) send(w http.ResponseWriter, r *http.Request) {
	jailID, name, target := r.Header.Get(egresslink.HeaderJail), r.Header.Get(egresslink.HeaderCredential), r.Header.Get(egresslink.HeaderTarget)
	if err := s.enter(jailID); err != nil {
		refuse(w, err)
		return
	}
	defer s.leave(jailID)
	limit := s.limit.of(s.orgID)
	slots, all := limit.slots, fault.New(fault.Exhausted, "%d requests of this organisation are being sent through the hub already", atOnce)
	if name == egresslink.HubCredential {
		slots, all = limit.calls, fault.New(fault.Exhausted, "programs of this organisation have %d calls of the hub open already", callsAtOnce)
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		refuse(w, all.WithFix("try again in a moment"))
		return
	}
	execID := r.Header.Get(egresslink.HeaderExec)
	out := r.Clone(r.Context())
	for _, header := range []string{egresslink.HeaderJail, egresslink.HeaderExec, egresslink.HeaderCredential, egresslink.HeaderTarget} {
		out.Header.Del(header)
	}
	if name == egresslink.HubCredential {
		if out.Body != nil && out.Body != http.NoBody {
			out.Body = &limited{ReadCloser: out.Body, ctx: r.Context(), bytes: limit.bytes}
		}
		if err := s.cfg.Program(w, out, s.orgID, s.nodeID, jailID, execID); err != nil {
			refuse(w, err)
		}
		return
	}
	out.URL.Scheme, out.URL.Host, out.Host = "https", target, r.Host
	sending := func() bool { return false }
	if out.Body != nil && out.Body != http.NoBody {
		body := &limited{ReadCloser: out.Body, ctx: r.Context(), bytes: limit.bytes}
		// HTTP/2 gives requests a body that have none.
		out.Body, sending = body, func() bool { return r.ContentLength != 0 && !body.ended.Load() }
	}
	// The proxy below may change headers that a signature covers: insert last.
	var masker *echomask.Masker
	// A response may begin before its request has ended. HTTP/2 can do so by itself.
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy := &httputil.ReverseProxy{
		Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			in, err := s.cfg.Credentials.Insert(req.Context(), s.orgID, s.nodeID, jailID, name, req)
			if err != nil {
				return nil, err
			}
			masker = s.masker(name, in.Secrets)
			c, err := s.client(jailID, r.ProtoMajor, in)
			if err != nil {
				return nil, err
			}
			return c.RoundTrip(req)
		}),
		BufferPool: s.buffers, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery, pr.Out.Host = pr.In.URL.RawQuery, pr.In.Host
			pr.Out.Trailer = r.Trailer // it is filled when the body has been read
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := pr.In.Header[name]; values != nil {
					pr.Out.Header[name] = values
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if r.Context().Err() != nil {
				// The channel ends: whether the request took effect is not known, and a
				// response that says otherwise could still get to the node.
				panic(http.ErrAbortHandler)
			}
			refuse(w, wayTo(target, err))
		},
	}
	header := &prompt{ResponseWriter: w}
	proxy.ModifyResponse = func(res *http.Response) error {
		if res.ContentLength > maxGathered { // one without a length is passed on as it comes anyway
			proxy.FlushInterval = -1
		}
		res.Header.Del(egresslink.HeaderRefused)
		if res.StatusCode == http.StatusSwitchingProtocols {
			masker.Header(res.Header) // what follows is not searched
			return nil
		}
		from := res.Body
		if _, err := masker.Response(res); err != nil {
			return fault.New(fault.Unavailable, "the response cannot be searched for the credential: %s", err).WithFix("request another content encoding")
		}
		if res.Body != nil {
			res.Body = &limited{ReadCloser: res.Body, ctx: r.Context(), bytes: limit.bytes}
		}
		if !mayBreak(res) {
			return nil
		}
		if streams(res, sending()) {
			header.now = true
			return nil
		}
		late, err := begin(res, from)
		header.now = late
		return err
	}
	proxy.ServeHTTP(echomask.WithoutInterim(header), out)
}

// prompt sends the header of a response before its body has begun, if now is set.
type prompt struct {
	http.ResponseWriter
	now bool
}

// WriteHeader implements http.ResponseWriter.
func (p *prompt) WriteHeader(status int) {
	p.ResponseWriter.WriteHeader(status)
	if p.now {
		_ = http.NewResponseController(p.ResponseWriter).Flush() // an error is that of the connection, which the body gets, too
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (p *prompt) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// mayBreak reports whether a response has a body that may end with echomask.ErrEcho.
func mayBreak(res *http.Response) bool {
	return res.Body != nil && res.ContentLength != 0 && res.Request.Method != http.MethodHead && echomask.MayBreak(res.Header)
}

// streams reports whether a client may wait for the header of a response before it sends what
// the body is the answer to.
func streams(res *http.Response, sending bool) bool {
	return res.ContentLength < 0 && sending || strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "application/grpc")
}

// begin reads the beginning of a body that may end with echomask.ErrEcho, and returns that as a
// fault. Without it, the response would break off before its header is on its way, which looks
// like a request without a response: the node would send it again. Bodies that are sent back in
// one piece are read whole, others up to their first byte, with which the header goes out. It is
// late for a body that does not begin in holdTime: the header must go out before it. from is the
// body as the server sends it.
func begin(res *http.Response, from io.Closer) (late bool, _ error) {
	size := int64(1)
	if res.ContentLength > 0 && res.ContentLength <= maxGathered {
		size = res.ContentLength
	}
	h := &held{body: res.Body, from: from, done: make(chan struct{})}
	go h.begin(size)
	timer := time.NewTimer(holdTime)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-timer.C:
		res.Body = h
		return true, nil
	}
	if errors.Is(h.err, echomask.ErrEcho) {
		return false, fault.New(fault.Unavailable, "the request was made, and its response is withheld: %s", h.err).
			WithFix("do not send it again; request a response that is text, in which the credential is masked")
	}
	res.Body = h
	return false, nil
}

// held is a body whose beginning is read while nobody waits for it.
type held struct {
	body io.ReadCloser
	from io.Closer
	done chan struct{}
	// first is the beginning and err why there is no more, when done is closed.
	first []byte
	err   error
}

func (h *held) begin(size int64) {
	defer close(h.done)
	h.first = make([]byte, size)
	n, err := io.ReadFull(h.body, h.first)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	h.first, h.err = h.first[:n], err
}

// Read implements io.Reader.
func (h *held) Read(b []byte) (int, error) {
	<-h.done
	if len(h.first) > 0 {
		n := copy(b, h.first)
		h.first = h.first[n:]
		return n, nil
	}
	if h.err != nil {
		return 0, h.err
	}
	return h.body.Read(b)
}

// Close implements io.Closer. What decodes a body is not closed while it is read.
func (h *held) Close() error {
	select {
	case <-h.done:
	default:
		_ = h.from.Close() // the reader gets an error
		<-h.done
	}
	return h.body.Close()
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wayTo returns what went wrong on the way to a host as a fault.
func wayTo(target string, err error) error {
	if e := fault.As(err); e != nil {
		return e
	}
	var unverified *tls.CertificateVerificationError
	var late net.Error
	switch {
	case errors.As(err, &unverified):
		return fault.New(fault.Unavailable, "the certificate of %s cannot be verified: %s", target, unverified.Err).
			WithFix("an administrator can set the certificates of a private authority with the credential")
	case errors.As(err, &late) && late.Timeout():
		return fault.New(fault.Unavailable, "%s does not respond in time", target).WithFix("try again later")
	}
	return fault.New(fault.Unavailable, "%s did not respond: the connection broke", target).WithCause(err)
}

// refuse says that a request was not sent on, or that there is no response.
func refuse(w http.ResponseWriter, err error) {
	status, e := egresslink.ErrorOf(err)
	w.Header().Set(egresslink.HeaderRefused, "yes")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(e)
}

// maxMaskers is how many maskers are kept for a node: to make one takes as long as a request.
const maxMaskers = 256

// masker returns what masks a credential's secrets.
func (s *session) masker(name string, secrets []string) *echomask.Masker {
	key := name + "\x00" + strings.Join(secrets, "\x00")
	s.clientsMu.Lock()
	have := s.maskers[key]
	s.clientsMu.Unlock()
	if have != nil {
		return have
	}
	have = echomask.Of(name, secrets)
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if len(s.maskers) >= maxMaskers {
		clear(s.maskers)
	}
	s.maskers[key] = have
	return have
}
