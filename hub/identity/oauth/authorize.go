package oauth

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-oauth2/oauth2/v4"
	"golang.org/x/net/idna"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// policy has the browser run nothing on the page, show it in no frame, and send its address
// to nobody.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"

// request is what a program asks a person.
type request struct {
	client      db.OauthClient
	redirect    string
	state       string
	scope       string
	challenge   string
	resource    string
	fromProgram url.Values
}

// view is what the page shows.
type view struct {
	Program, Where, Local string
	User                  string
	Scopes                []choice
	Fields                map[string]string
	Action                string
	Problem, Fix          string
	// Back offers to tell the program about the problem.
	Back bool
}

type choice struct {
	Scope, Title, Text string
	Checked            bool
}

// texts are the rights in words.
var texts = map[string]choice{
	scopeRead:   {Scope: scopeRead, Title: "Read", Text: "See the agents, tasks, results, logs and files that you see. It changes nothing."},
	scopeRun:    {Scope: scopeRun, Title: "Run tasks", Text: "Also give tasks to agents, send them messages, reply to their questions, and cancel tasks, as you. This may cost money."},
	scopeDecide: {Scope: scopeDecide, Title: "Decide", Text: "Also approve, confirm and reject what agents ask, as you. A program that is tricked approves whatever an agent wants."},
}

// parse reads a program's request. If problem is empty, but refusal is not, the program is
// sent back with it.
func (s *Server) parse(r *http.Request, form url.Values) (req request, refusal, problem string, err error) {
	one := func(name string) string {
		if len(form[name]) > 1 {
			problem = "The address has " + name + " more than once."
		}
		return form.Get(name)
	}
	req = request{redirect: one("redirect_uri"), state: one("state"), challenge: one("code_challenge"), resource: one("resource"), fromProgram: form}
	req.client, err = s.client(r.Context(), one("client_id"))
	switch {
	case store.IsNotFound(err):
		return req, "", "This hub does not know the program. It may have registered too long ago.", nil
	case err != nil:
		return req, "", "", err
	case problem != "":
		return req, "", problem, nil
	case !matches(req.client.RedirectUris, req.redirect):
		return req, "", "The program wants you to be sent to an address that it has not registered.", nil
	}
	req.scope = scopeRead
	for _, scope := range strings.Fields(one("scope")) {
		if slices.Contains(s.scopes(), scope) && slices.Index(s.scopes(), scope) > slices.Index(s.scopes(), req.scope) {
			req.scope = scope
		}
	}
	if form.Get("scope") == "" {
		req.scope = scopeRun
	}
	switch {
	case one("response_type") != "code":
		refusal = "unsupported_response_type"
	case one("code_challenge_method") != oauth2.CodeChallengeS256.String() || len(req.challenge) != 43:
		refusal = "invalid_request"
	case !s.sameResource(r, req.resource):
		refusal = "invalid_target"
	}
	return req, refusal, problem, nil
}

// person returns who is logged in with the console's cookie, and may make tokens.
func (s *Server) person(r *http.Request) (context.Context, error) {
	if r.Header.Get("Authorization") != "" {
		return nil, fault.New(fault.Denied, "a program cannot allow a program").WithCode(fault.PermissionDenied).WithFix("log in to the console")
	}
	ctx, err := s.cfg.Guards.Admit(deckhandv1connect.TokenServiceCreateTokenProcedure, r)
	if err != nil {
		return nil, err
	}
	if !auth.From(ctx).Scope.All() {
		return nil, fault.New(fault.Denied, "a login with limited rights connects no programs").WithCode(fault.PermissionDenied).WithFix("log in with a password or a token without limits")
	}
	return ctx, nil
}

// ask shows the page on which a person allows a program.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) {
	req, refusal, problem, err := s.parse(r, r.URL.Query())
	// Nobody is sent to the program before they are known and have pressed a button.
	if s.stopped(w, r, req, "", problem, err) {
		return
	}
	ctx, err := s.person(r)
	if fault.Is(err, fault.Unauthenticated) {
		next := url.Values{"next": {Prefix + "authorize?" + r.URL.RawQuery}}
		http.Redirect(w, r, s.cfg.BasePath+"/login?"+next.Encode(), http.StatusSeeOther)
		return
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	v := view{Program: req.client.Name, User: auth.From(ctx).UserName, Action: s.cfg.BasePath + Prefix + "authorize", Fields: map[string]string{}}
	_, v.Where, v.Local = place(req.redirect)
	if req.scope == scopeDecide {
		req.scope = scopeRun // to decide is chosen by hand
	}
	for _, scope := range s.scopes() {
		c := texts[scope]
		c.Checked = scope == req.scope
		v.Scopes = append(v.Scopes, c)
	}
	if refusal != "" {
		v.Problem, v.Back = "Its request is not valid: "+refusal+".", true
	}
	for _, name := range []string{"client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method", "resource", "response_type"} {
		if value := req.fromProgram.Get(name); value != "" {
			v.Fields[name] = value
		}
	}
	if refusal != "" {
		s.show(w, http.StatusBadRequest, v)
		return
	}
	s.show(w, http.StatusOK, v)
}

// answer takes a person's decision, and sends them back to the program. Package auth has
// refused forms of other sites.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.show(w, http.StatusBadRequest, view{Problem: "The form is too large."})
		return
	}
	ctx, err := s.person(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	req, refusal, problem, err := s.parse(r, r.PostForm)
	if s.stopped(w, r, req, refusal, problem, err) {
		return
	}
	if r.PostForm.Get("decision") != "allow" || !slices.Contains(s.scopes(), req.scope) {
		s.back(w, r, req, url.Values{"error": {"access_denied"}})
		return
	}
	id := auth.From(ctx)
	made := url.Values{orgKey: {id.OrgID}, ownerKey: {id.UserName}, resourceKey: {s.resource(r)}}
	ctx = context.WithValue(ctx, extensionKey{}, made)
	info, err := s.grants.GenerateAuthToken(ctx, oauth2.Code, &oauth2.TokenGenerateRequest{
		ClientID: req.client.ID, UserID: id.UserID, RedirectURI: req.redirect, Scope: req.scope,
		CodeChallenge: req.challenge, CodeChallengeMethod: oauth2.CodeChallengeS256, Request: r.WithContext(ctx),
	})
	if err != nil {
		s.stopped(w, r, req, "", "", err)
		return
	}
	s.back(w, r, req, url.Values{"code": {info.GetCode()}})
}

// stopped ends a request that cannot be asked, and reports whether it did.
func (s *Server) stopped(w http.ResponseWriter, r *http.Request, req request, refusal, problem string, err error) bool {
	switch {
	case err != nil:
		s.cfg.Log.Error("a program could not be connected", "error", err)
		s.show(w, http.StatusInternalServerError, view{Problem: "The hub could not do this.", Fix: "See its log, and try again."})
	case problem != "":
		s.show(w, http.StatusBadRequest, view{Problem: problem, Fix: "Connect it again from the program."})
	case refusal != "":
		s.back(w, r, req, url.Values{"error": {refusal}})
	default:
		return false
	}
	return true
}

// back sends the browser back to the program.
func (s *Server) back(w http.ResponseWriter, r *http.Request, req request, with url.Values) {
	u, err := url.Parse(req.redirect)
	if err != nil {
		s.show(w, http.StatusBadRequest, view{Problem: "The program has no address to go back to."})
		return
	}
	query := u.Query()
	for name, values := range with {
		query[name] = values
	}
	if req.state != "" {
		query.Set("state", req.state)
	}
	query.Set("iss", s.issuer(r))
	u.RawQuery = query.Encode()
	secure(w)
	w.Header().Set("Location", u.String())
	w.WriteHeader(http.StatusSeeOther)
}

// place names where a browser is sent to, literally: in short for the list of tokens, and
// whole for the page; local describes a program on the person's own computer. The name that
// follows another scheme is no host, and says nothing about who gets the code.
func place(redirect string) (short, whole, local string) {
	u, err := url.Parse(redirect)
	if err != nil {
		return literal.Line(redirect), literal.Line(redirect), ""
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return literal.Line(u.Scheme + ":"), literal.Line(redirect), "the program on this computer that opens " + literal.Line(u.Scheme) + ": links"
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return literal.Line(u.Hostname()), literal.Line(redirect), ""
	}
	if loopback(host) {
		local = "a program on this computer"
	}
	short = host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	u.Host = host
	return literal.Line(short), literal.Line(u.String()), local
}

// asciiHost returns a host as browsers look it up: with its labels in Punycode.
func asciiHost(host string) (string, error) {
	if strings.IndexFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) < 0 {
		return host, nil
	}
	return idna.Lookup.ToASCII(host)
}

func secure(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer the form would be sent with "Origin: null", and be refused over HTTP.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuse says why a person cannot allow a program.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	e := fault.As(err)
	if e == nil {
		s.cfg.Log.Error("a person could not be identified", "error", err)
		s.show(w, http.StatusInternalServerError, view{Problem: "The hub could not do this.", Fix: "See its log, and try again."})
		return
	}
	s.show(w, http.StatusForbidden, view{Problem: e.Message + ".", Fix: e.Fix})
}

func (s *Server) show(w http.ResponseWriter, status int, v view) {
	secure(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, v.page()); err != nil {
		s.cfg.Log.Debug("a page was not written", "error", err)
	}
}
