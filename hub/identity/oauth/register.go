package oauth

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// mostClients bounds the registered programs.
	mostClients = 10_000
	// unusedLasts is how long a program is kept that nobody connects, idleLasts one
	// that was connected.
	unusedLasts = 24 * time.Hour
	idleLasts   = 90 * 24 * time.Hour
	mostName    = 100
	mostURI     = 2000
	// An address registers one program every registerEvery in the long run, and
	// registerAtOnce at once. A bucket that was not used for registerKept is full again.
	registerEvery   = 10 * time.Second
	registerAtOnce  = 20
	registerKept    = registerEvery * registerAtOnce
	registerBuckets = 1 << 14
)

// registration is the part of RFC 7591 that is used.
type registration struct {
	RedirectURIs            []string `json:"redirect_uris"`
	ClientName              string   `json:"client_name"`
	TokenEndpointAuthMethod string   `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes              []string `json:"grant_types,omitempty"`
	ResponseTypes           []string `json:"response_types,omitempty"`
}

// register registers a program. Anybody may: it is worth nothing until a person allows it.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var in registration
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		reply(w, http.StatusBadRequest, problem("invalid_client_metadata", "the body is no JSON object of at most 16 KiB"))
		return
	}
	if len(in.RedirectURIs) == 0 || len(in.RedirectURIs) > 10 {
		reply(w, http.StatusBadRequest, problem("invalid_redirect_uri", "give 1 to 10 redirect_uris"))
		return
	}
	for _, uri := range in.RedirectURIs {
		if why := wrongRedirect(uri); why != "" {
			reply(w, http.StatusBadRequest, problem("invalid_redirect_uri", why))
			return
		}
	}
	if !mayRegister(s.registering, r.RemoteAddr) {
		w.Header().Set("Retry-After", strconv.Itoa(int(registerEvery.Seconds())))
		reply(w, http.StatusTooManyRequests, problem("temporarily_unavailable", "too many programs are registered from your address; try again in a minute"))
		return
	}
	if err := s.cfg.Store.DeleteOAuthClients(r.Context(), db.DeleteOAuthClientsParams{Unused: unusedLasts, Idle: idleLasts}); err != nil {
		s.failed(w, "delete old programs", err)
		return
	}
	id, name := ident.New(clientKind), named(in.ClientName)
	draft := db.CreateOAuthClientParams{ID: id, Name: name, RedirectUris: in.RedirectURIs, Most: mostClients}
	made, err := s.cfg.Store.CreateOAuthClient(r.Context(), draft)
	if err == nil && made == 0 {
		if err = s.cfg.Store.EvictOAuthClient(r.Context()); err == nil {
			made, err = s.cfg.Store.CreateOAuthClient(r.Context(), draft)
		}
	}
	if err != nil {
		s.failed(w, "register a program", err)
		return
	}
	if made == 0 {
		reply(w, http.StatusServiceUnavailable, problem("temporarily_unavailable", "too many programs are registered; try again tomorrow, or use a token"))
		return
	}
	reply(w, http.StatusCreated, map[string]any{
		"client_id": id, "client_id_issued_at": time.Now().Unix(), "client_name": name, "redirect_uris": in.RedirectURIs,
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
}

func (s *Server) failed(w http.ResponseWriter, what string, err error) {
	s.cfg.Log.Error("could not "+what, "error", err)
	reply(w, http.StatusInternalServerError, problem("server_error", "the hub could not "+what+"; see its log"))
}

// mayRegister counts a program that an address registers.
func mayRegister(buckets *ttlcache.Cache[string, *rate.Limiter], peer string) bool {
	network := auth.RateKey(peer)
	bucket, ok := buckets.Get(network)
	if !ok {
		bucket = rate.NewLimiter(rate.Every(registerEvery), registerAtOnce)
		buckets.Add(network, bucket)
	}
	return bucket.Allow()
}

// clientKind begins the ids of programs.
const clientKind = "oac"

var clientID = regexp.MustCompile("^" + clientKind + "_[a-z0-9]{1,40}$")

// client returns a registered program. Ids that the hub did not make are not looked up.
func (s *Server) client(ctx context.Context, id string) (db.OauthClient, error) {
	if !clientID.MatchString(id) {
		return db.OauthClient{}, pgx.ErrNoRows
	}
	return s.cfg.Store.GetOAuthClient(ctx, id)
}

// named returns a program's name as it is shown, without characters that hide or imitate others.
func named(name string) string {
	if name = literal.Line(strings.Join(strings.Fields(name), " ")); name == "" {
		return "unnamed program"
	}
	if runes := []rune(name); len(runes) > mostName {
		return string(runes[:mostName])
	}
	return name
}

// wrongRedirect returns why a redirect URI is refused; "" for one that is right: HTTPS, a
// program on the user's machine, or a scheme that only one program has.
func wrongRedirect(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil || len(uri) > mostURI || u.Scheme == "" || u.Fragment != "" || u.User != nil:
		return "a redirect URI is absolute, and has neither a fragment nor a user"
	case u.Scheme == "https" && u.Hostname() != "":
		if _, err := asciiHost(u.Hostname()); err != nil {
			return "the host of a redirect URI is no domain name"
		}
		return ""
	case u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	case u.Scheme == "http":
		return "a redirect URI with http has the host 127.0.0.1, [::1] or localhost"
	case slices.Contains([]string{"javascript", "data", "file", "blob", "about", "vbscript", "view-source", "ws", "wss", "ftp", "mailto"}, u.Scheme):
		return "a redirect URI does not begin with " + u.Scheme + ":"
	}
	return ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// matches reports whether a redirect URI is a registered one. A program on the user's
// machine may use any port (RFC 8252, section 7.3).
func matches(registered []string, uri string) bool {
	if slices.Contains(registered, uri) {
		return true
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		return false
	}
	return slices.ContainsFunc(registered, func(other string) bool {
		o, err := url.Parse(other)
		if err != nil || o.Scheme != "http" || o.Hostname() != u.Hostname() {
			return false
		}
		a, b := *o, *u
		a.Host, b.Host = "", ""
		return a.String() == b.String()
	})
}
