// Package auth authenticates callers and decides which procedures they may call. Door
// admits a request, Guards checks it, Tokens stores the hashes of tokens, and every
// procedure has a Rule; a procedure without one is refused. A token is sent as
// "Authorization: Bearer".
//
// Which organisation's rows a caller sees is not decided here: every query names the
// identity's organisation.
package auth

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// Kind is what sort of caller an identity is.
type Kind string

// The kinds.
const (
	User   Kind = "user"
	Worker Kind = "worker"
)

// Identity is an authenticated caller.
type Identity struct {
	Kind    Kind
	OrgID   string
	TokenID string
	// UserID, UserName and Role are a user's; empty for workers.
	UserID   string
	UserName string
	Role     string
	// TaskID and ParentID are a program's task and that one's parent; empty for others. UserName
	// is then the user that the task runs for.
	TaskID, ParentID string
	// Local reports that the token is one that a hub keeps in its data folder.
	Local bool
	// OnMachine reports that a Local token is used on the hub's own machine, by a call
	// that no proxy passed on. A caller who can do that can read the hub's keys.
	OnMachine bool
	// SessionID is set if the call came with a session's cookie.
	SessionID string
	// SignedInAt is when the session's user proved who they are; nil for calls with
	// tokens, and for sessions that were made from tokens or from other sessions.
	SignedInAt *time.Time
	// Scope is what the token, or the session's, leaves of the user's rights.
	// Role is within it already.
	Scope Scope
	// ExpiresAt is when the token or the session ends; nil for never.
	ExpiresAt *time.Time
	// Address and UserAgent are those of the call.
	Address, UserAgent string
}

// SignInLasts is for how long a sign-in is recent.
const SignInLasts = 10 * time.Minute

// SignedIn reports whether the caller's user has proved within a time who they are. A token
// proves nothing about who uses it, except on the hub's own machine.
func (id Identity) SignedIn(within time.Duration) bool {
	return id.OnMachine || id.SignedInAt != nil && time.Since(*id.SignedInAt) < within
}

type identityKey struct{}

// WithIdentity adds who calls to a context.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// Known returns who calls; the zero Identity for a call that anybody may make.
func Known(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// From returns who calls. It panics where no interceptor has been: that would
// be a handler open to everybody.
func From(ctx context.Context) Identity {
	id, ok := ctx.Value(identityKey{}).(Identity)
	if !ok {
		panic("auth: no identity in the context of an authenticated call")
	}
	return id
}

// rememberFor is how long a token that was found is taken for good without
// another look: a revoked one works for that long at most.
const (
	rememberFor = 2 * time.Second
	remembered  = 4096
	// touchAfter is how exactly is known when a token was last used.
	touchAfter = time.Hour
)

// LoginWithin is how often users of an identity provider have to log in there, unless
// their organisation sets another interval: it limits how long their tokens and sessions
// keep rights that the provider has revoked.
const LoginWithin = 30 * 24 * time.Hour

// theHub is who has made the tokens of a data folder; no user can have that name.
const theHub = "the hub"

// Tokens makes and checks API tokens.
type Tokens struct {
	store *store.Store
	// found are tokens of the last moment, by hash.
	found *ttlcache.Cache[string, Identity]
}

// NewTokens creates Tokens.
func NewTokens(s *store.Store) *Tokens {
	return &Tokens{store: s, found: ttlcache.New[string, Identity](remembered, rememberFor)}
}

// NewSecret returns what a new token of a kind is.
func NewSecret(kind Kind) string {
	if kind == Worker {
		return ident.Secret("dhw")
	}
	return ident.Secret("dhu")
}

// Create stores a token and returns it; it is not shown again. A zero ttl never expires.
// For kind User, userID is its owner.
func (t *Tokens) Create(ctx context.Context, orgID string, kind Kind, userID, name string, ttl time.Duration) (string, error) {
	secret := NewSecret(kind)
	params := db.CreateTokenParams{
		ID: ident.New("token"), OrgID: orgID, Kind: string(kind), Name: name, Hash: ident.Hash(secret), Scope: Scope{}.Encode(), CreatedBy: theHub,
	}
	if kind == User {
		params.UserID = &userID
	}
	if ttl > 0 {
		expires := time.Now().Add(ttl)
		params.ExpiresAt = &expires
	}
	if err := t.store.CreateToken(ctx, params); err != nil {
		return "", fmt.Errorf("store %s token: %w", kind, err)
	}
	return secret, nil
}

// Revoke ends every token of that kind and name.
func (t *Tokens) Revoke(ctx context.Context, orgID string, kind Kind, name string) error {
	t.found.Purge()
	return t.store.RevokeTokens(ctx, db.RevokeTokensParams{OrgID: orgID, Kind: string(kind), Name: name})
}

// Identify returns the owner of the token in a request's Authorization header.
func (t *Tokens) Identify(ctx context.Context, header string) (Identity, error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if secret = strings.TrimSpace(secret); !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Identity{}, errNoToken()
	}
	return t.Lookup(ctx, secret)
}

func errNoToken() error {
	return fault.New(fault.Unauthenticated, "the request carries no token").
		WithFix("set DECKHAND_TOKEN or --token, or choose a context with: deckhand context use")
}

// remembered returns whose a token was a moment ago.
func (t *Tokens) remembered(header string) (Identity, bool) {
	_, secret, _ := strings.Cut(header, " ")
	return t.found.Get(string(ident.Hash(strings.TrimSpace(secret))))
}

// Lookup returns whose a token is.
func (t *Tokens) Lookup(ctx context.Context, secret string) (Identity, error) {
	hash := ident.Hash(secret)
	if id, ok := t.found.Get(string(hash)); ok {
		return id, nil
	}
	row, err := t.store.TokenByHash(ctx, db.TokenByHashParams{Hash: hash, TouchAfter: touchAfter, LoginWithin: LoginWithin})
	if store.IsNotFound(err) {
		return Identity{}, fault.New(fault.Unauthenticated, "the token is not known to this hub, has expired or was revoked").
			WithFix("check DECKHAND_TOKEN or --token, and that it belongs to this hub; if you log in by an identity provider, do so again")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("look up token: %w", err)
	}
	id := Identity{
		Kind: Kind(row.Kind), OrgID: row.OrgID, TokenID: row.ID,
		UserID: row.UserID, UserName: row.UserName, Role: row.Role, ExpiresAt: row.ExpiresAt, Local: row.Local,
	}
	if err := id.Narrow(row.Scope); err != nil {
		return Identity{}, fmt.Errorf("token %s: %w", row.ID, err)
	}
	if row.Stale {
		if err := t.store.TouchToken(ctx, row.ID); err != nil {
			return Identity{}, fmt.Errorf("record that token %s is used: %w", row.ID, err)
		}
	}
	t.found.Add(string(hash), id)
	return id, nil
}

// Forget has every token looked up again: one was revoked, or its user changed.
func (t *Tokens) Forget() { t.found.Purge() }
