package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/echomask"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/handle"
)

// forwarded is one request that is sent on.
type forwarded struct {
	j       *jail
	t       allowlist.Target
	who     asker
	count   *counter
	binding *binding // nil for none
	q       *question
	hides   hides
	hold    *hold
	// revealed says that the request has a secret that the server issued: no credential is
	// inserted then.
	revealed bool
	out      outcome
}

// maxGathered is the length of a response, in bytes, that may be sent back in one piece.
const maxGathered = 4 << 10

// serve sends a request on and its response back.
func (f *forwarded) serve(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &counted{ReadCloser: r.Body, passed: func(n int) {
			f.count.passed(n, 0)
			f.out.sent.Add(int64(n))
		}}
	}
	at := *r.URL
	at.Scheme, at.Host, at.User = "https", f.t.String(), nil
	r.URL = &at
	if f.binding != nil {
		finish, err := f.record(r)
		if err != nil {
			f.problem(w, r, err)
			return
		}
		defer finish()
	}
	if err := f.reveal(r); err != nil {
		f.out.fail(err.Error())
		f.note(r.Method, err.Error())
		f.say(w, http.StatusForbidden, err.Error())
		return
	}
	if f.binding != nil && isPush(r) {
		if !f.judgePush(w, r) {
			return
		}
		defer r.Body.Close() // and the file of the pack
	}
	var token *issuedToken
	var transport http.RoundTripper = f.j.upstream(f.binding, r.ProtoMajor)
	switch b := f.binding; {
	case b == nil || f.revealed:
	case b.GetHeld():
		transport = f.j.p.cfg.Hub
	default:
		var err error
		if token, err = f.j.tokens.token(r.Context(), b, f.t); err != nil {
			f.problem(w, r, err)
			return
		}
	}
	// A response may begin before its request has ended. HTTP/2 can do so by itself.
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy := &httputil.ReverseProxy{
		Transport: transport, BufferPool: bodies, ErrorLog: f.j.server.ErrorLog,
		Rewrite:      func(pr *httputil.ProxyRequest) { f.rewrite(pr, token) },
		ErrorHandler: f.problem,
	}
	proxy.ModifyResponse = func(res *http.Response) error {
		if res.ContentLength > maxGathered { // one without a length is passed on as it comes anyway
			proxy.FlushInterval = -1
		}
		return f.response(res, token)
	}
	if f.binding != nil {
		w = echomask.WithoutInterim(w)
	}
	proxy.ServeHTTP(w, r)
}

// rewrite makes the request that is sent on: as it came, to the host of the tunnel, with the
// credential in the place of whatever the command put there.
func (f *forwarded) rewrite(pr *httputil.ProxyRequest, token *issuedToken) {
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was written
	if f.q.strict {
		query := pr.Out.URL.RawQuery // with what was revealed
		f.q.path.Apply(pr.Out.URL)
		pr.Out.URL.RawQuery = query
	}
	pr.Out.Host = pr.In.Host
	pr.Out.Trailer = pr.In.Trailer // it is filled when the body has been read
	copyForwarding(pr)
	if f.binding == nil {
		return
	}
	// A response is searched for the secret: encodings that cannot be read are not offered.
	limitEncodings(pr.Out.Header)
	if f.hides != hidesNothing {
		pr.Out.Header.Set("Accept-Encoding", "identity")
	}
	switch {
	case f.revealed:
	case token != nil:
		token.Insert(pr.Out)
	default:
		pr.Out.URL.Scheme = "http"
		for name, value := range map[string]string{
			egresslink.HeaderJail: f.j.id, egresslink.HeaderExec: f.who.exec(),
			egresslink.HeaderCredential: f.binding.GetCredential(), egresslink.HeaderTarget: f.t.String(),
		} {
			egresslink.RemoveHeader(pr.Out.Header, name)
			pr.Out.Header.Set(name, value)
		}
	}
}

// byHub reports whether the hub sends the request on.
func (f *forwarded) byHub() bool { return f.binding.held() && !f.revealed }

// response looks at a response before it is sent back.
func (f *forwarded) response(res *http.Response, token *issuedToken) error {
	if f.byHub() && res.Header.Get(egresslink.HeaderRefused) != "" {
		return hubRefusal(res)
	}
	f.out.status.Store(int64(res.StatusCode))
	if f.binding != nil && !f.revealed && res.StatusCode == http.StatusUnauthorized {
		f.note(res.Request.Method, fmt.Sprintf("%s refused the credential %s (HTTP 401): it may have expired or been revoked there; an administrator can replace it with `deckhand credential rotate %s`",
			f.t, f.binding.GetCredential(), f.binding.GetCredential()))
	}
	if token != nil {
		if err := mask(res, token.masker); err != nil {
			return err
		}
	}
	if err := f.hide(res); err != nil {
		return err
	}
	if len(res.Trailer) > 0 {
		// HTTP/1.1 has trailers in bodies without a length only.
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	f.out.watch(res, f.count)
	return nil
}

func (b *binding) held() bool { return b != nil && b.GetHeld() }

// problem says to a command why its request got no response, and notes it for its agent.
func (f *forwarded) problem(w http.ResponseWriter, r *http.Request, err error) {
	if cause := context.Cause(r.Context()); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	f.out.fail(err.Error())
	e := fault.As(err)
	switch {
	case e != nil && f.binding != nil:
	case f.hides == hidesLFS && f.binding != nil:
		f.say(w, http.StatusBadGateway, err.Error())
		return
	default:
		f.j.failed(w, f.who, f.t, r.Method, err)
		return
	}
	f.out.fail(e.Message)
	text := fmt.Sprintf("the credential %s cannot be used: %s", f.binding.GetCredential(), e.Message)
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	f.note(r.Method, text)
	status := http.StatusBadGateway
	switch e.Kind { //nolint:exhaustive // the rest are the hub's problems
	case fault.Denied, fault.NotFound, fault.Invalid, fault.Precondition:
		status = http.StatusForbidden
	case fault.Exhausted:
		status = http.StatusTooManyRequests
	case fault.Unavailable:
		status = http.StatusServiceUnavailable
	}
	f.say(w, status, text)
}

// say replies to a command with a text, in the form that it reads.
func (f *forwarded) say(w http.ResponseWriter, status int, text string) {
	if f.hides != hidesLFS {
		say(w, status, text)
		return
	}
	w.Header().Set("Content-Type", handle.LFSType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": "deckhand: " + text}) // what fails is the command's connection
}

func (f *forwarded) note(method, text string) {
	why := &allowlist.Refusal{Reason: text}
	f.who.refused(f.t.String(), method, why)
	f.j.refusals.note(f.t.String(), method, why)
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
