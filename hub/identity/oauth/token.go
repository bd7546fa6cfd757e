package oauth

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	oautherrors "github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/models"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/token"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// The scopes. Each has the ones before it.
const (
	scopeRead   = "read"
	scopeRun    = "run"
	scopeDecide = "decide"
)

// rights returns what a token with a scope may do.
func rights(scope string) auth.Scope {
	return auth.Scope{MCP: true, ReadOnly: scope == scopeRead, Decide: scope == scopeDecide}
}

// grantTime bounds the exchange of a code, or a refresh.
const grantTime = 30 * time.Second

// token serves the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		reply(w, http.StatusBadRequest, problem("invalid_request", "the body is no form of at most 16 KiB"))
		return
	}
	r.Form = r.PostForm // the library reads the query as well
	// A grant that is used is used whole, also if the program does not wait for the response.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), grantTime)
	defer cancel()
	r = r.WithContext(ctx)
	switch oauth2.GrantType(r.PostForm.Get("grant_type")) {
	case oauth2.AuthorizationCode, oauth2.Refreshing:
	default:
		reply(w, http.StatusBadRequest, problem("unsupported_grant_type", "grant_type is authorization_code or refresh_token"))
		return
	}
	for _, resource := range r.PostForm["resource"] {
		if !s.sameResource(r, resource) {
			reply(w, http.StatusBadRequest, problem("invalid_target", "the resource of this server is "+s.resource(r)))
			return
		}
	}
	// The library does not compare them.
	if r.PostForm.Get("grant_type") == oauth2.Refreshing.String() {
		row, err := s.cfg.Store.GetOAuthRefreshToken(r.Context(), ident.Hash(r.PostForm.Get("refresh_token")))
		if err == nil && row.ClientID != r.PostForm.Get("client_id") {
			s.otherProgram(w, r)
			return
		}
	}
	// The scope is what the person allowed: it is neither widened nor narrowed here.
	r.Form.Del("scope")
	wrapped := &recorder{ResponseWriter: w}
	if err := s.oauth.HandleTokenRequest(wrapped, r); err != nil {
		s.cfg.Log.Debug("a response was not written", "error", err)
	}
	if wrapped.status >= http.StatusBadRequest {
		s.cfg.Guards.Rates.Failed(r.RemoteAddr)
	}
}

// recorder keeps the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// revoke serves the revocation endpoint (RFC 7009): a program disconnects itself. An unknown
// token is answered with success too, as RFC 7009 wants.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("token") == "" {
		reply(w, http.StatusBadRequest, problem("invalid_request", "token is missing"))
		return
	}
	secret, ctx := r.PostForm.Get("token"), r.Context()
	row, err := s.cfg.Store.GetOAuthRefreshToken(ctx, ident.Hash(secret))
	switch {
	case store.IsNotFound(err):
		id, err := s.cfg.Guards.Tokens.Lookup(ctx, secret)
		if err != nil || !id.Scope.MCP {
			s.cfg.Guards.Rates.Failed(r.RemoteAddr)
			break
		}
		client, err := s.cfg.Store.OAuthClientOfToken(ctx, db.OAuthClientOfTokenParams{OrgID: id.OrgID, TokenID: id.TokenID})
		if err == nil && client != r.PostForm.Get("client_id") {
			s.otherProgram(w, r)
			return
		}
		if err == nil || store.IsNotFound(err) {
			err = disconnect(ctx, s.cfg.Tokens, id.OrgID, id.UserID, id.TokenID)
		}
		if err != nil {
			s.failed(w, "revoke a token", err)
			return
		}
	case err != nil:
		s.failed(w, "revoke a token", err)
		return
	case row.ClientID != r.PostForm.Get("client_id"):
		s.otherProgram(w, r)
		return
	default:
		if err := disconnect(ctx, s.cfg.Tokens, row.OrgID, row.UserID, row.TokenID); err != nil {
			s.failed(w, "revoke a token", err)
			return
		}
	}
	w.Header().Set("Cache-Control", "no-store")
}

// otherProgram refuses a program that names another one's token.
func (s *Server) otherProgram(w http.ResponseWriter, r *http.Request) {
	s.cfg.Guards.Rates.Failed(r.RemoteAddr)
	reply(w, http.StatusBadRequest, problem("invalid_grant", "the token is another program's: send its client_id"))
}

// by is the actor in the audit when a program disconnects, or a grant was used twice.
var by = event.Actor{Kind: "hub", ID: "oauth"}

// disconnect revokes a program's token, if it is not yet.
func disconnect(ctx context.Context, tokens *token.Service, orgID, userID, tokenID string) error {
	err := tokens.Revoke(ctx, orgID, userID, tokenID, by)
	if gone(err) {
		return nil
	}
	return err
}

// secrets makes codes and tokens.
type secrets struct{}

// Token returns a code.
func (secrets) Token(_ context.Context, _ *oauth2.GenerateBasic) (string, error) {
	return ident.Secret("dhg"), nil
}

// tokenSecrets makes access and refresh tokens.
type tokenSecrets struct{}

// Token returns an access token and a refresh token.
func (tokenSecrets) Token(_ context.Context, _ *oauth2.GenerateBasic, _ bool) (access, refresh string, err error) {
	return auth.NewSecret(auth.User), ident.Secret("dhr"), nil
}

// clientStore returns registered programs to the library.
type clientStore struct{ *Server }

// GetByID returns a program. It is public: it has no secret.
func (c clientStore) GetByID(ctx context.Context, id string) (oauth2.ClientInfo, error) {
	row, err := c.client(ctx, id)
	if store.IsNotFound(err) {
		return nil, oautherrors.ErrInvalidClient
	}
	if err != nil {
		return nil, err
	}
	return &models.Client{ID: row.ID, Public: true}, nil
}

// The names of what is kept with a code or token besides what the library knows.
const (
	orgKey      = "org_id"
	ownerKey    = "user_name"
	nameKey     = "name"
	resourceKey = "resource"
	tokenKey    = "token_id"
	codeKey     = "code"
	refreshKey  = "refresh"
)

type extensionKey struct{}

// extend gives a new code what belongs to it.
func extend(tgr *oauth2.TokenGenerateRequest, info oauth2.ExtendableTokenInfo) {
	if tgr.Request == nil {
		return
	}
	if values, ok := tgr.Request.Context().Value(extensionKey{}).(url.Values); ok {
		info.SetExtension(values)
	}
}

// tokenStore keeps codes and tokens for the library, as hashes. Its user id is a user's.
type tokenStore struct {
	store  *store.Store
	tokens *token.Service
}

func extensionOf(info oauth2.TokenInfo) url.Values {
	if extended, ok := info.(oauth2.ExtendableTokenInfo); ok && extended.GetExtension() != nil {
		return extended.GetExtension()
	}
	return url.Values{}
}

// Create stores a new code, the token that a code is exchanged for, or its next secret.
func (t *tokenStore) Create(ctx context.Context, info oauth2.TokenInfo) error {
	values := extensionOf(info)
	switch {
	case info.GetCode() != "":
		if err := t.store.DeleteOAuthCodes(ctx, keepUsed); err != nil {
			return err
		}
		return t.store.CreateOAuthCode(ctx, db.CreateOAuthCodeParams{
			Hash: ident.Hash(info.GetCode()), OrgID: values.Get(orgKey), UserID: info.GetUserID(), UserName: values.Get(ownerKey), ClientID: info.GetClientID(),
			RedirectUri: info.GetRedirectURI(), Resource: values.Get(resourceKey), Challenge: info.GetCodeChallenge(), Scope: info.GetScope(),
		})
	case values.Get(refreshKey) != "":
		return t.refresh(ctx, info, values)
	}
	return t.exchange(ctx, info, values)
}

// exchange makes the token of a code. A code that was used again meanwhile is gone.
func (t *tokenStore) exchange(ctx context.Context, info oauth2.TokenInfo, values url.Values) error {
	hash, err := hex.DecodeString(values.Get(codeKey))
	if err != nil {
		return err
	}
	_, _, err = t.tokens.Create(ctx, token.Draft{
		OrgID: values.Get(orgKey), Kind: auth.User, Name: values.Get(nameKey), UserID: info.GetUserID(), Scope: rights(info.GetScope()), TTL: accessLasts,
		By: event.Actor{Kind: event.User, ID: values.Get(ownerKey)}, Secret: info.GetAccess(),
		With: func(tx *event.Tx, id string) error {
			set, err := tx.SetOAuthCodeToken(ctx, db.SetOAuthCodeTokenParams{Hash: hash, TokenID: &id})
			if err != nil {
				return err
			}
			if set == 0 {
				return oautherrors.ErrInvalidAuthorizeCode
			}
			if err := tx.TouchOAuthClient(ctx, info.GetClientID()); err != nil {
				return err
			}
			return addRefresh(ctx, tx.Queries, info, values, id)
		},
	})
	return err
}

func addRefresh(ctx context.Context, q *db.Queries, info oauth2.TokenInfo, values url.Values, tokenID string) error {
	if err := q.DeleteOAuthRefreshTokens(ctx, keepUsed); err != nil {
		return err
	}
	return q.CreateOAuthRefreshToken(ctx, db.CreateOAuthRefreshTokenParams{
		Hash: ident.Hash(info.GetRefresh()), OrgID: values.Get(orgKey), UserID: info.GetUserID(), TokenID: tokenID, ClientID: info.GetClientID(),
		Resource: values.Get(resourceKey), Scope: info.GetScope(),
	})
}

// repeatWithin is for how long a refresh token may be used once more if the one that was given
// for it was not used: the response may have been lost on the way.
const repeatWithin = time.Minute

// refresh gives a program's token its next secret. If two use one refresh token and what was
// given for it, one has stolen it: the token is revoked.
func (t *tokenStore) refresh(ctx context.Context, info oauth2.TokenInfo, values url.Values) error {
	hash, err := hex.DecodeString(values.Get(refreshKey))
	if err != nil {
		return err
	}
	org, user, id := values.Get(orgKey), info.GetUserID(), values.Get(tokenKey)
	err = t.tokens.Renew(ctx, token.Renewal{
		OrgID: org, UserID: user, ID: id, Secret: info.GetAccess(), TTL: accessLasts,
		With: func(q *db.Queries) error {
			before, err := q.LockOAuthRefreshToken(ctx, hash)
			if err != nil {
				return err
			}
			used, err := q.UseOAuthRefreshToken(ctx, db.UseOAuthRefreshTokenParams{Hash: hash, Successor: ident.Hash(info.GetRefresh()), Grace: repeatWithin})
			if err == nil && used == 0 {
				return errUsed
			}
			if err == nil && before.UsedAt != nil {
				// The successor in the lost response is spent: a use of it means that it was stolen.
				err = q.SpendOAuthRefreshToken(ctx, before.Successor)
			}
			if err != nil {
				return err
			}
			return addRefresh(ctx, q, info, values, id)
		},
	})
	switch {
	case errors.Is(err, errUsed):
		if err := disconnect(ctx, t.tokens, org, user, id); err != nil {
			return err
		}
		return oautherrors.ErrInvalidRefreshToken
	case gone(err):
		return oautherrors.ErrInvalidRefreshToken
	}
	return err
}

// errUsed is the error of a refresh token that another call has just used.
var errUsed = errors.New("oauth: the refresh token was used already")

// GetByCode returns what a code is for; nil for one that is unknown. A second use of one
// revokes the token of the first.
func (t *tokenStore) GetByCode(ctx context.Context, code string) (oauth2.TokenInfo, error) {
	hash := ident.Hash(code)
	row, err := t.store.GetOAuthCode(ctx, hash)
	if store.IsNotFound(err) {
		return nil, nil //nolint:nilnil // the library's contract
	}
	if err != nil {
		return nil, err
	}
	if row.UsedAt != nil {
		return nil, t.usedAgain(ctx, hash)
	}
	client, err := t.store.GetOAuthClient(ctx, row.ClientID)
	if err != nil {
		return nil, err
	}
	return &models.Token{
		ClientID: row.ClientID, UserID: row.UserID, RedirectURI: row.RedirectUri, Scope: row.Scope, Code: code,
		CodeChallenge: row.Challenge, CodeChallengeMethod: oauth2.CodeChallengeS256.String(), CodeCreateAt: row.CreatedAt, CodeExpiresIn: codeLasts,
		Extension: url.Values{
			orgKey: {row.OrgID}, ownerKey: {row.UserName}, resourceKey: {row.Resource}, codeKey: {hex.EncodeToString(hash)}, nameKey: {tokenName(client.Name, row.RedirectUri)},
		},
	}, nil
}

// usedAgain handles a second use of a code: it revokes the token that the code was exchanged
// for. If there is no token yet, it deletes the code, and the exchange then fails.
func (t *tokenStore) usedAgain(ctx context.Context, hash []byte) error {
	deleted, err := t.store.DeleteOAuthCode(ctx, hash)
	if err != nil || deleted > 0 {
		return err
	}
	row, err := t.store.GetOAuthCode(ctx, hash)
	if store.IsNotFound(err) || err == nil && row.TokenID == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return disconnect(ctx, t.tokens, row.OrgID, row.UserID, *row.TokenID)
}

// RemoveByCode marks a code as used, once.
func (t *tokenStore) RemoveByCode(ctx context.Context, code string) error {
	used, err := t.store.UseOAuthCode(ctx, ident.Hash(code))
	if err == nil && used == 0 {
		if err := t.usedAgain(ctx, ident.Hash(code)); err != nil {
			return err
		}
		return oautherrors.ErrInvalidAuthorizeCode
	}
	return err
}

// GetByRefresh returns what a refresh token is for; nil for one that is unknown. A second
// use of one revokes the program's token, unless it repeats a refresh whose response was lost.
func (t *tokenStore) GetByRefresh(ctx context.Context, refresh string) (oauth2.TokenInfo, error) {
	hash := ident.Hash(refresh)
	row, err := t.store.GetOAuthRefreshToken(ctx, hash)
	if store.IsNotFound(err) {
		return nil, nil //nolint:nilnil // the library's contract
	}
	if err != nil {
		return nil, err
	}
	if row.UsedAt != nil {
		again, err := t.store.OAuthRefreshRepeatable(ctx, db.OAuthRefreshRepeatableParams{Hash: hash, Grace: repeatWithin})
		if err != nil {
			return nil, err
		}
		if !again {
			return nil, disconnect(ctx, t.tokens, row.OrgID, row.UserID, row.TokenID)
		}
	}
	return &models.Token{
		ClientID: row.ClientID, UserID: row.UserID, Scope: row.Scope, Refresh: refresh, RefreshCreateAt: row.CreatedAt, RefreshExpiresIn: refreshLasts,
		Extension: url.Values{orgKey: {row.OrgID}, resourceKey: {row.Resource}, tokenKey: {row.TokenID}, refreshKey: {hex.EncodeToString(hash)}},
	}, nil
}

// RemoveByRefresh has nothing to do: the refresh token was used up with the next one.
func (*tokenStore) RemoveByRefresh(context.Context, string) error { return nil }

// GetByAccess is not used: tokens are checked by package auth.
func (*tokenStore) GetByAccess(context.Context, string) (oauth2.TokenInfo, error) {
	return nil, oautherrors.ErrInvalidAccessToken
}

// RemoveByAccess has nothing to do: the access token was replaced by the next one.
func (*tokenStore) RemoveByAccess(context.Context, string) error { return nil }

// tokenName names the token of a program: by what it calls itself, and by where it is.
func tokenName(name, redirect string) string {
	short, _, _ := place(redirect)
	return name + " (" + short + ")"
}

// gone reports whether a token is revoked or unknown.
func gone(err error) bool { return fault.Is(err, fault.NotFound) }
