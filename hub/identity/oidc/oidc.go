// Package oidc logs people in with the organisation's OpenID Connect provider: the
// authorisation code flow with PKCE, state and nonce (OpenID Connect Core 1.0, RFC 7636).
// Login is its HTTP handler.
//
// The state of a login is in an encrypted cookie of its browser, so that any hub can
// finish what another began, and no one can make another person's browser finish a login.
// A subject of the provider stays one user. The groups that the provider reports
// determine the role, at every login. An existing user of the same name who does not come
// from the provider is not taken over: the login is refused.
//
// A logout at the provider ends the sessions that came from it, if the provider notifies
// the hub (OpenID Connect Back-Channel Logout 1.0).
package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// Prefix is the path of the handler.
	Prefix       = "/oidc/"
	flowCookie   = "deckhand_oidc"
	flowTime     = 10 * time.Minute
	callTimeout  = 15 * time.Second
	sealedFor    = "oidc login"
	everyGroup   = "*"
	defaultGroup = "groups"
)

// Config describes the provider.
type Config struct {
	// Issuer is its URL; empty for no such login.
	Issuer       string
	ClientID     string
	ClientSecret config.Secret
	// PublicURL is where browsers find the hub, with its base path.
	PublicURL string
	// Roles maps groups to roles: "ops=advanced,admins=admin,*=viewer"; * is
	// everybody. Who is in none may not log in.
	Roles string
	// GroupsClaim is the claim that names groups; empty for "groups".
	GroupsClaim string
	// Organisation is whose users they are; empty for "default".
	Organisation string
}

// Check refuses a configuration that cannot work.
func (c *Config) Check() error {
	if c.Issuer == "" {
		return nil
	}
	if c.GroupsClaim == "" {
		c.GroupsClaim = defaultGroup
	}
	if c.Organisation == "" {
		c.Organisation = session.DefaultOrganisation
	}
	for field, text := range map[string]string{"oidc-issuer": c.Issuer, "public-url": c.PublicURL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !auth.AddressOf(u.Host).IsLoopback()) {
			return fault.New(fault.Invalid, "%s is %q", field, text).WithFix("with oidc-issuer, give a URL that begins with https://")
		}
	}
	if c.ClientID == "" {
		return fault.New(fault.Invalid, "oidc-client-id is empty").WithFix("register the hub at %s, with the redirect URL %s", c.Issuer, c.redirect())
	}
	_, err := c.roles()
	return err
}

func (c *Config) redirect() string { return strings.TrimRight(c.PublicURL, "/") + Prefix + "callback" }

func (c *Config) roles() (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(c.Roles, ",") {
		group, role, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || group == "" || !auth.AtLeast(role, "viewer") {
			return nil, fault.New(fault.Invalid, "oidc-roles has %q", pair).WithFix("use GROUP=ROLE pairs: ops=advanced,admins=admin,*=viewer")
		}
		out[group] = role
	}
	return out, nil
}

// Login is the handler of /oidc/.
type Login struct {
	cfg      Config
	roles    map[string]string
	store    *store.Store
	vault    *vault.Vault
	users    *user.Users
	sessions *session.Sessions
	log      hclog.Logger
	mux      *http.ServeMux
	path     string // base path
	secure   bool
	client   *http.Client

	mu       sync.Mutex
	provider *gooidc.Provider // nil until it has answered
}

// Parts are what a Login works with.
type Parts struct {
	Store    *store.Store
	Vault    *vault.Vault
	Users    *user.Users
	Sessions *session.Sessions
	Log      hclog.Logger
}

// New creates a Login of a configuration that Check has seen.
func New(cfg Config, p Parts) (*Login, error) {
	l := &Login{
		cfg: cfg, store: p.Store, vault: p.Vault, users: p.Users, sessions: p.Sessions, log: p.Log,
		mux: http.NewServeMux(), client: &http.Client{Timeout: callTimeout},
	}
	l.mux.HandleFunc("GET "+Prefix+"status", l.status)
	if cfg.Issuer == "" {
		return l, nil
	}
	var err error
	if l.roles, err = cfg.roles(); err != nil {
		return nil, err
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("read public-url: %w", err)
	}
	l.path, l.secure = strings.TrimRight(public.Path, "/"), public.Scheme == "https"
	l.mux.HandleFunc("GET "+Prefix+"login", l.begin)
	l.mux.HandleFunc("GET "+Prefix+"callback", l.end)
	l.mux.HandleFunc("POST "+Prefix+"logout", l.logout)
	return l, nil
}

// ServeHTTP implements http.Handler.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	l.mux.ServeHTTP(w, r)
}

// status tells the login page whether to offer the login.
func (l *Login) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// Who has gone does not read it.
	_ = json.NewEncoder(w).Encode(map[string]bool{"enabled": l.cfg.Issuer != ""})
}

// ask returns the provider and how it is asked. One that has not answered so far
// is asked who it is first.
func (l *Login) ask() (*gooidc.Provider, *oauth2.Config, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provider == nil {
		// The provider's keys are fetched in this context later on, too.
		p, err := gooidc.NewProvider(gooidc.ClientContext(context.Background(), l.client), l.cfg.Issuer)
		if err != nil {
			return nil, nil, fault.New(fault.Unavailable, "the OIDC provider %s does not answer as one", l.cfg.Issuer).
				WithFix("try again; if it lasts, see the hub's log").WithCause(err)
		}
		l.provider = p
	}
	return l.provider, &oauth2.Config{
		ClientID: l.cfg.ClientID, ClientSecret: l.cfg.ClientSecret.Reveal(), Endpoint: l.provider.Endpoint(),
		RedirectURL: l.cfg.redirect(), Scopes: []string{gooidc.ScopeOpenID, "profile", "email", "groups"},
	}, nil
}

// flow is the state of a login.
type flow struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Until    time.Time `json:"until"`
	// Next is the page of the hub to go to then; empty for the console.
	Next string `json:"next,omitempty"`
}

// nextMost bounds Next: the flow is kept in a cookie.
const nextMost = 2000

// nextOf returns a page that a browser may be sent to after the login: one below /oauth/ of
// this hub; empty for any other.
func nextOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > nextMost || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.Contains(text, "\\") ||
		!strings.HasPrefix(u.EscapedPath(), pagesPrefix) || path.Clean(u.Path) != u.Path {
		return ""
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// pagesPrefix is below which the pages are on which a person allows a program: see package
// oauth.
const pagesPrefix = "/oauth/"

func (l *Login) setFlow(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure if the hub uses TLS
		Name: flowCookie, Value: value, Path: l.path + Prefix, MaxAge: age, HttpOnly: true, Secure: l.secure,
		SameSite: http.SameSiteLaxMode, // the provider sends the browser back
	})
}

func (l *Login) begin(w http.ResponseWriter, r *http.Request) {
	_, ask, err := l.ask()
	if err != nil {
		l.refuse(w, err)
		return
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Until: time.Now().Add(flowTime), Next: nextOf(r.URL.Query().Get("next"))}
	data, err := json.Marshal(f)
	if err == nil {
		data, err = l.vault.Seal(data, sealedFor)
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	l.setFlow(w, base64.RawURLEncoding.EncodeToString(data), int(flowTime.Seconds()))
	http.Redirect(w, r, ask.AuthCodeURL(f.State, gooidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

func refused(why string) error {
	return fault.New(fault.Denied, "the login is refused: %s", why).WithFix("begin again at the login page, or ask an administrator")
}

// flowOf returns the flow that a browser is in.
func (l *Login) flowOf(r *http.Request) (flow, error) {
	var f flow
	c, err := r.Cookie(flowCookie)
	if err != nil {
		return f, refused("this browser has not begun it, or too long ago")
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err == nil {
		sealed, err = l.vault.Open(sealed, sealedFor)
	}
	if err == nil {
		err = json.Unmarshal(sealed, &f)
	}
	state := r.URL.Query().Get("state")
	if err != nil || time.Now().After(f.Until) || subtle.ConstantTimeCompare([]byte(state), []byte(f.State)) != 1 {
		return f, refused("this browser has not begun it, or too long ago")
	}
	return f, nil
}

func (l *Login) end(w http.ResponseWriter, r *http.Request) {
	l.setFlow(w, "", -1) // it is valid once, whatever the result
	cookie, next, err := l.login(r)
	if err != nil {
		if e := fault.As(err); e != nil && e.Kind == fault.Denied {
			if err := l.sessions.RefusedByProvider(r.Context(), e.Message, session.From{Address: r.RemoteAddr, UserAgent: r.UserAgent()}); err != nil {
				l.log.Warn("cannot audit a failed login", "error", err)
			}
		}
		l.refuse(w, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, l.path+cmp.Or(next, "/"), http.StatusSeeOther) //nolint:gosec // nextOf let it in: a page of this hub
}

// claims are the provider's claims about a person.
type claims struct {
	Username string `json:"preferred_username"`
	Email    string `json:"email"`
	// Verified is false if the provider has not verified the address.
	Verified bool `json:"email_verified"`
	// SID names the login there, which a logout names again.
	SID string `json:"sid"`
}

func (l *Login) login(r *http.Request) (cookie *http.Cookie, next string, err error) {
	f, err := l.flowOf(r)
	if err != nil {
		return nil, "", err
	}
	provider, ask, err := l.ask()
	if err != nil {
		return nil, "", err
	}
	code := r.URL.Query().Get("code")
	if code == "" {
		return nil, "", refused("the provider has not let you in")
	}
	ctx := gooidc.ClientContext(r.Context(), l.client)
	token, err := ask.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		// The provider's text may quote the code.
		l.log.Warn("the OIDC provider rejected the code", "issuer", l.cfg.Issuer)
		return nil, "", refused("the provider does not know the code any more")
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&gooidc.Config{ClientID: l.cfg.ClientID}).Verify(ctx, raw)
	if err != nil {
		l.log.Warn("the OIDC provider's token is invalid", "issuer", l.cfg.Issuer, "error", err)
		return nil, "", refused("what the provider says of you cannot be believed")
	}
	var who claims
	all := map[string]json.RawMessage{}
	if err := errors.Join(id.Claims(&who), id.Claims(&all)); err != nil {
		return nil, "", refused("what the provider says of you cannot be read")
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return nil, "", refused("what the provider says is of another login")
	}
	role := l.role(all[l.cfg.GroupsClaim])
	if role == "" {
		return nil, "", refused("none of your groups has a role here")
	}
	name, err := who.name()
	if err != nil {
		return nil, "", err
	}
	org, err := l.store.OrganisationByName(ctx, l.cfg.Organisation)
	if err != nil {
		return nil, "", fmt.Errorf("find organisation %s: %w", l.cfg.Organisation, err)
	}
	from := session.From{Address: r.RemoteAddr, UserAgent: r.UserAgent()}
	u, err := l.users.Federated(ctx, user.Federation{OrgID: org.ID, Issuer: id.Issuer, Subject: id.Subject, Name: name, Role: role})
	if err != nil {
		return nil, "", err
	}
	if len(who.SID) > maxSID {
		who.SID = "" // too long to store: this login ends only together with the others
	}
	secret, err := l.sessions.ByProvider(ctx, u, who.SID, from)
	if err != nil {
		return nil, "", err
	}
	return &http.Cookie{ //nolint:gosec // Secure if the hub uses TLS
		Name: auth.CookieName, Value: secret, Path: l.path + "/", HttpOnly: true, Secure: l.secure, SameSite: http.SameSiteStrictMode,
	}, f.Next, nil
}

// role returns the highest role that a person's groups have; empty for none.
func (l *Login) role(claim json.RawMessage) string {
	var groups []string
	if json.Unmarshal(claim, &groups) != nil {
		var one string
		if json.Unmarshal(claim, &one) == nil {
			groups = []string{one}
		}
	}
	best := ""
	for group, role := range l.roles {
		if (group == everyGroup || slices.Contains(groups, group)) && (best == "" || auth.AtLeast(role, best)) {
			best = role
		}
	}
	return best
}

// named are names that users may have.
var named = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$`)

func (c claims) name() (string, error) {
	name := c.Username
	if name == "" && c.Verified {
		name = c.Email
	}
	if !named.MatchString(name) {
		return "", refused("the provider has no name for you that can be used here (preferred_username, or an email that is verified)")
	}
	return name, nil
}

// refuse responds with a page of one line.
func (l *Login) refuse(w http.ResponseWriter, err error) {
	e := fault.As(err)
	if e == nil {
		l.log.Error("an OIDC login failed", "error", err)
		e = fault.New(fault.Internal, "the login failed in the hub").WithFix("see its log")
	} else if e.Err != nil {
		l.log.Warn("an OIDC login failed", "error", e, "cause", e.Err)
	}
	status := http.StatusForbidden
	if e.Kind == fault.Unavailable || e.Kind == fault.Internal {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, e.Error(), status)
}
