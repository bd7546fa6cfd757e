// Package oauth lets people connect programs to the MCP server without copying a token:
// the hub is the authorization server of its own /mcp (OAuth 2.1 as the Model Context
// Protocol profiles it).
//
// [Server] serves the metadata (RFC 9728 and RFC 8414), the registration of programs (RFC
// 7591), the page on which a person allows a program, and the token and revocation
// endpoints. Only the authorization code with PKCE and S256 is supported, and programs have
// no secrets.
//
// A connected program is one API token of its user, narrowed to a scope and to MCP, whose
// secret changes with each refresh. It is listed, limited, revoked and audited as other
// tokens are. A code or a refresh token that is used twice revokes it.
//
// The grants themselves, and the check of the code verifier, are those of go-oauth2. All
// state is in PostgreSQL, so any replica serves any request.
package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	oautherrors "github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/server"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/token"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

const (
	// Prefix is below which the endpoints are.
	Prefix = "/oauth/"
	// ResourceMetadata is where clients learn who issues tokens for /mcp (RFC 9728).
	ResourceMetadata = "/.well-known/oauth-protected-resource"
	// ServerMetadata is where they find the endpoints (RFC 8414).
	ServerMetadata = "/.well-known/oauth-authorization-server"
)

const (
	// codeLasts is how long a code may be exchanged, accessLasts how long an access token
	// may be used, and refreshLasts a refresh token.
	codeLasts    = time.Minute
	accessLasts  = time.Hour
	refreshLasts = 30 * 24 * time.Hour
	// keepUsed is how long codes and refresh tokens are kept, so that a second use is noticed.
	keepUsed = 60 * 24 * time.Hour
	// mostBody bounds a request, and bodyTime how long it may take to arrive.
	mostBody = 16 << 10
	bodyTime = 30 * time.Second
)

// Config is what a Server needs.
type Config struct {
	Store  *store.Store
	Tokens *token.Service
	Guards auth.Guards
	Public auth.PublicURL
	// BasePath is below which browsers find the hub, without a slash at its end.
	BasePath string
	// Resource is the path of the MCP server.
	Resource string
	// Decide offers the right to decide items of the inbox.
	Decide bool
	Log    hclog.Logger
}

// Server serves the endpoints. It is safe for concurrent use.
type Server struct {
	cfg    Config
	mux    *http.ServeMux
	grants *manage.Manager
	oauth  *server.Server
	// registering are how many programs each address may still register.
	registering *ttlcache.Cache[string, *rate.Limiter]
}

// New creates a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux(), registering: ttlcache.New[string, *rate.Limiter](registerBuckets, registerKept)}
	tokens := &tokenStore{cfg.Store, cfg.Tokens}
	s.grants = manage.NewManager()
	s.grants.MapClientStorage(clientStore{s})
	s.grants.MapTokenStorage(tokens)
	s.grants.MapAuthorizeGenerate(secrets{})
	s.grants.MapAccessGenerate(tokenSecrets{})
	s.grants.SetAuthorizeCodeExp(codeLasts)
	s.grants.SetAuthorizeCodeTokenCfg(&manage.Config{AccessTokenExp: accessLasts, RefreshTokenExp: refreshLasts, IsGenerateRefresh: true})
	s.grants.SetRefreshTokenCfg(&manage.RefreshingConfig{AccessTokenExp: accessLasts, RefreshTokenExp: refreshLasts, IsGenerateRefresh: true, IsResetRefreshTime: true})
	// The redirect URI was compared with the registered ones when the person was asked, and
	// that of the exchange is compared with that of the code.
	s.grants.SetValidateURIHandler(func(string, string) error { return nil })
	s.grants.SetExtractExtensionHandler(extend)
	s.oauth = server.NewServer(&server.Config{
		TokenType:                   "Bearer",
		AllowedResponseTypes:        []oauth2.ResponseType{oauth2.Code},
		AllowedGrantTypes:           []oauth2.GrantType{oauth2.AuthorizationCode, oauth2.Refreshing},
		AllowedCodeChallengeMethods: []oauth2.CodeChallengeMethod{oauth2.CodeChallengeS256},
		ForcePKCE:                   true,
	}, s.grants)
	s.oauth.ClientInfoHandler = server.ClientFormHandler
	s.oauth.ResponseErrorHandler = status
	s.oauth.InternalErrorHandler = s.internal

	s.mux.HandleFunc("GET "+ResourceMetadata, s.resourceMetadata)
	s.mux.HandleFunc("GET "+ResourceMetadata+"/{path...}", s.resourceMetadata)
	s.mux.HandleFunc("GET "+ServerMetadata, s.serverMetadata)
	s.mux.HandleFunc("GET "+ServerMetadata+"/{path...}", s.serverMetadata)
	s.mux.HandleFunc("POST "+Prefix+"register", s.anonymous(s.register, busy))
	s.mux.HandleFunc("POST "+Prefix+"token", s.anonymous(s.token, busy))
	s.mux.HandleFunc("POST "+Prefix+"revoke", s.anonymous(s.revoke, busy))
	s.mux.HandleFunc("GET "+Prefix+"authorize", s.anonymous(s.ask, s.busyPage))
	s.mux.HandleFunc("POST "+Prefix+"authorize", s.anonymous(s.answer, s.busyPage))
	return s
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	// If it cannot be set, as with HTTP/2 in a test, there is no limit.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	defer control.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	s.mux.ServeHTTP(w, r)
}

// issuer returns the hub's own URL: the public one, or that by which it was called.
func (s *Server) issuer(r *http.Request) string {
	if s.cfg.Public.Origin != "" {
		return s.cfg.Public.String()
	}
	scheme := "http"
	if auth.Secure(r.Context()) {
		scheme = "https"
	}
	return scheme + "://" + r.Host + s.cfg.BasePath
}

// resource returns the URL of the MCP server.
func (s *Server) resource(r *http.Request) string { return s.issuer(r) + s.cfg.Resource }

// Metadata returns where a client that was refused finds out how to get a token.
func (s *Server) Metadata(r *http.Request) string {
	return s.issuer(r) + ResourceMetadata + s.cfg.Resource
}

func (s *Server) scopes() []string {
	if s.cfg.Decide {
		return []string{scopeRead, scopeRun, scopeDecide}
	}
	return []string{scopeRead, scopeRun}
}

func (s *Server) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"resource": s.resource(r), "authorization_servers": []string{s.issuer(r)}, "scopes_supported": s.scopes(),
		"bearer_methods_supported": []string{"header"}, "resource_name": "Deckhand",
	})
}

func (s *Server) serverMetadata(w http.ResponseWriter, r *http.Request) {
	at := s.issuer(r)
	reply(w, http.StatusOK, map[string]any{
		"issuer": at, "authorization_endpoint": at + Prefix + "authorize", "token_endpoint": at + Prefix + "token",
		"registration_endpoint": at + Prefix + "register", "revocation_endpoint": at + Prefix + "revoke",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		"revocation_endpoint_auth_methods_supported": []string{"none"}, "scopes_supported": s.scopes(),
		"authorization_response_iss_parameter_supported": true,
	})
}

// busy refuses a call of an address that calls too often, and busyPage does so for browsers.
func busy(w http.ResponseWriter, err error) {
	reply(w, http.StatusTooManyRequests, problem("temporarily_unavailable", err.Error()))
}

func (s *Server) busyPage(w http.ResponseWriter, err error) {
	s.show(w, http.StatusTooManyRequests, view{Problem: err.Error() + "."})
}

// anonymous limits how often one address calls an endpoint that needs no token.
func (s *Server) anonymous(next http.HandlerFunc, refuse func(http.ResponseWriter, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := s.cfg.Guards.Admit(deckhandv1connect.SessionServiceCreateSessionProcedure, r)
		if err == nil {
			err = s.cfg.Guards.Rates.MayFail(r.RemoteAddr)
		}
		if err != nil {
			w.Header().Set("Retry-After", "1")
			refuse(w, err)
			return
		}
		next(w, r)
	}
}

// reply writes a JSON response that is not cached.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}

func problem(code, description string) map[string]string {
	return map[string]string{"error": code, "error_description": description}
}

// status sets the status codes of RFC 6749, section 5.2: 400, but for what is wrong with us.
func status(re *oautherrors.Response) {
	switch {
	case errors.Is(re.Error, oautherrors.ErrServerError), errors.Is(re.Error, oautherrors.ErrTemporarilyUnavailable):
	case errors.Is(re.Error, oautherrors.ErrInvalidClient):
		re.StatusCode = http.StatusUnauthorized
	default:
		re.StatusCode = http.StatusBadRequest
	}
}

// internal maps errors that the library does not know.
func (s *Server) internal(err error) *oautherrors.Response {
	if errors.Is(err, oautherrors.ErrMissingCodeVerifier) || errors.Is(err, oautherrors.ErrInvalidAuthorizeCode) || errors.Is(err, oautherrors.ErrInvalidRefreshToken) {
		return &oautherrors.Response{Error: oautherrors.ErrInvalidGrant, Description: oautherrors.Descriptions[oautherrors.ErrInvalidGrant], StatusCode: http.StatusBadRequest}
	}
	if e := fault.As(err); e != nil && e.Kind != fault.Internal {
		return &oautherrors.Response{Error: oautherrors.ErrAccessDenied, Description: e.Error(), StatusCode: http.StatusBadRequest}
	}
	s.cfg.Log.Error("a program's token was not made", "error", err)
	return nil
}

// sameResource reports whether a resource parameter (RFC 8707) names this MCP server.
func (s *Server) sameResource(r *http.Request, named string) bool {
	named = strings.TrimRight(named, "/")
	return named == "" || named == s.resource(r) || named == s.issuer(r)
}
