// Package session logs people in. Sessions is its service. A session is a secret in a
// cookie, of which the hub stores the hash; it ends when it is idle, at a fixed time, by
// logging out, with the token that it was made with, or with its user:
//
//	active --- not used for Idle, or older than Lifetime ---> over
//	active --- logged out, password changed ---> ended
//	active --- its token revoked, its user disabled ---> refused
//
// Every hub of an installation accepts all sessions. A hub caches a session for two
// seconds, and accepts it for that long after its end.
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// Defaults.
const (
	DefaultIdle     = 12 * time.Hour
	DefaultLifetime = 7 * 24 * time.Hour
	// CodeTTL is how long a code of CreateCode can be used.
	CodeTTL = 2 * time.Minute

	// touchAfter is how exactly is known when a session was last used.
	touchAfter = time.Minute
	// keepEnded is how long after its end a session is kept for display.
	keepEnded   = 30 * 24 * time.Hour
	rememberFor = 2 * time.Second
	remembered  = 4096
)

// DefaultOrganisation is who logs in without naming one.
const DefaultOrganisation = "default"

// Config holds the dependencies of a Sessions.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Tokens   *auth.Tokens
	Users    *user.Users
	// Allow refuses users who may not log in from their address; nil refuses no one.
	Allow func(ctx context.Context, id auth.Identity, address string) error
	// Idle is for how long a session may go unused; 0 for 12 h.
	Idle time.Duration
	// Lifetime is how old a session may get; 0 for 7 days.
	Lifetime time.Duration
}

// Sessions keeps logins.
type Sessions struct {
	cfg Config
	// found are sessions of the last moment, by hash.
	found *ttlcache.Cache[string, auth.Identity]
}

// New creates Sessions.
func New(cfg Config) *Sessions {
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Lifetime <= 0 {
		cfg.Lifetime = DefaultLifetime
	}
	if cfg.Allow == nil {
		cfg.Allow = func(context.Context, auth.Identity, string) error { return nil }
	}
	return &Sessions{cfg: cfg, found: ttlcache.New[string, auth.Identity](remembered, rememberFor)}
}

// From is the origin of a login.
type From struct{ Address, UserAgent string }

// wrong is the error of every failed login, whatever its cause.
func wrong(what string) error {
	return fault.New(fault.Unauthenticated, "the login is refused: %s", what).
		WithFix("on the hub's own machine, `deckhand open` makes a link that logs in")
}

// ByToken logs in with a user's API token. The session has the token's scope and ends
// with it. It returns the cookie's value.
func (s *Sessions) ByToken(ctx context.Context, token string, from From) (string, db.GetSessionRow, error) {
	return s.login(ctx, from, "", func() (draft, error) {
		id, err := s.cfg.Tokens.Lookup(ctx, token)
		if fault.Is(err, fault.Unauthenticated) || err == nil && id.Kind != auth.User {
			return draft{}, errors.Join(wrong("that is no user's token that can be used"), s.Refused(ctx, id.OrgID, "token", "it is no user's token that can be used", id.UserName, from))
		}
		d := draft{method: "token", org: id.OrgID, user: id.UserID, name: id.UserName, token: id.TokenID, scope: id.Scope.Encode()}
		if id.ExpiresAt != nil {
			d.until = *id.ExpiresAt
		}
		return d, err
	})
}

// ByPassword logs in with a name and a password. A user who does not exist, has no
// password or is disabled gets the same error, after the same time, as one with a wrong
// password.
func (s *Sessions) ByPassword(ctx context.Context, organisation, name, password string, from From) (string, db.GetSessionRow, error) {
	if organisation == "" {
		organisation = DefaultOrganisation
	}
	return s.login(ctx, from, organisation+"/"+name, func() (draft, error) {
		u, ok, err := s.cfg.Users.Verify(ctx, organisation, name, password)
		if err == nil && !ok {
			err = errors.Join(wrong("name or password is wrong"), s.refusedPassword(ctx, organisation, name, from))
		}
		return draft{method: "password", org: u.OrgID, user: u.ID, name: u.Name, scope: auth.Scope{}.Encode(), signedIn: true}, err
	})
}

// ByCode logs in with a code of CreateCode, which is used up.
func (s *Sessions) ByCode(ctx context.Context, code string, from From) (string, db.GetSessionRow, error) {
	return s.login(ctx, from, "", func() (draft, error) {
		row, err := s.cfg.Store.TakeLoginCode(ctx, ident.Hash(code))
		if store.IsNotFound(err) || err == nil && !row.Good {
			return draft{}, errors.Join(fault.New(fault.Unauthenticated, "this login link has expired or was already used").WithFix("create a new one on the hub's machine: `deckhand open`"),
				s.Refused(ctx, row.OrgID, "code", "it is not known, was used, or is too old", row.UserName, from))
		}
		if err != nil {
			return draft{}, fmt.Errorf("use a login code: %w", err)
		}
		d := draft{method: "code", org: row.OrgID, user: row.UserID, name: row.UserName, scope: row.Scope, signedIn: row.OnMachine}
		if row.TokenID != nil {
			d.token = *row.TokenID
		}
		return d, nil
	})
}

// ByProvider logs in a user whom the organisation's identity provider vouches for. sid is
// the provider's id of the login; empty if there is none. It returns the cookie's value.
func (s *Sessions) ByProvider(ctx context.Context, u db.User, sid string, from From) (string, error) {
	secret, _, err := s.create(ctx, draft{method: "oidc", org: u.OrgID, user: u.ID, name: u.Name, sid: sid, scope: auth.Scope{}.Encode(), signedIn: true}, from)
	return secret, err
}

// draft is a login that is good.
type draft struct {
	method, org, user, name, token, sid string
	scope                               json.RawMessage
	until                               time.Time
	// signedIn reports that the user has proved who they are: a token, or a session, is not
	// enough to make such a login.
	signedIn bool
}

func (s *Sessions) login(ctx context.Context, from From, account string, check func() (draft, error)) (string, db.GetSessionRow, error) {
	counted, err := s.count(ctx, from.Address, account)
	if err != nil {
		return "", db.GetSessionRow{}, err
	}
	d, err := check()
	if err != nil {
		return "", db.GetSessionRow{}, err
	}
	counted.forgive(ctx)
	return s.create(ctx, d, from)
}

func (s *Sessions) create(ctx context.Context, d draft, from From) (string, db.GetSessionRow, error) {
	if err := s.cfg.Allow(ctx, auth.Identity{Kind: auth.User, OrgID: d.org, UserID: d.user, UserName: d.name}, from.Address); err != nil {
		return "", db.GetSessionRow{}, errors.Join(err, s.Refused(ctx, d.org, d.method, "an access rule does not have logins from there", d.name, from))
	}
	secret, id := ident.Secret("dhs"), ident.New("session")
	expires := time.Now().Add(s.cfg.Lifetime)
	if !d.until.IsZero() && d.until.Before(expires) {
		expires = d.until
	}
	p := db.CreateSessionParams{
		ID: id, OrgID: d.org, UserID: d.user, Hash: ident.Hash(secret), Method: d.method, Scope: d.scope,
		Address: from.Address, UserAgent: audit.Clean(from.UserAgent), ExpiresAt: expires, OidcSid: d.sid, SignedIn: d.signedIn,
	}
	if d.token != "" {
		p.TokenID = &d.token
	}
	if err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if _, err := tx.CreateSession(ctx, p); err != nil {
			return fmt.Errorf("store a session: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: d.org, By: event.Actor{Kind: event.User, ID: d.name, Address: from.Address, UserAgent: from.UserAgent},
			Action: "session.created", ObjectKind: "session", ObjectID: id, After: map[string]any{"user_id": d.user, "method": d.method},
		})
	}); err != nil {
		return "", db.GetSessionRow{}, err
	}
	row, err := s.Get(ctx, d.org, id)
	return secret, row, err
}

// Refused audits a failed login: in its organisation if that is known, and in the
// operators' own otherwise. method is how it was tried, and name who tried it, as far as
// is known.
func (s *Sessions) Refused(ctx context.Context, orgID, method, why, name string, from From) error {
	if orgID == "" {
		orgID = auth.Operators
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: event.Actor{Kind: event.User, ID: cmp.Or(audit.Clean(name), "unknown"), Address: from.Address, UserAgent: from.UserAgent},
			Action: "session.refused", ObjectKind: "session", ObjectID: method, Reason: why,
		})
	})
}

// RefusedByProvider is Refused of a login by OIDC, for as often as an address may
// try: a stranger must not fill the record.
func (s *Sessions) RefusedByProvider(ctx context.Context, why string, from From) error {
	if _, err := s.count(ctx, from.Address, ""); fault.Is(err, fault.Exhausted) {
		return nil // there were enough
	} else if err != nil {
		return err
	}
	return s.Refused(ctx, "", "oidc", why, "", from)
}

// refusedPassword is Refused for a password, if the organisation exists.
func (s *Sessions) refusedPassword(ctx context.Context, organisation, name string, from From) error {
	org, err := s.cfg.Store.OrganisationByName(ctx, organisation)
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for an organisation: %w", err)
	}
	return s.Refused(ctx, org.ID, "password", "name or password is wrong", name, from)
}

// Identify returns the owner of the session with a cookie's value.
func (s *Sessions) Identify(ctx context.Context, secret string) (auth.Identity, error) {
	hash := ident.Hash(secret)
	if id, ok := s.found.Get(string(hash)); ok {
		return id, nil
	}
	row, err := s.cfg.Store.SessionByHash(ctx, db.SessionByHashParams{Hash: hash, Idle: s.cfg.Idle, TouchAfter: touchAfter, LoginWithin: auth.LoginWithin})
	if store.IsNotFound(err) {
		return auth.Identity{}, fault.New(fault.Unauthenticated, "the session is over").WithFix("log in again")
	}
	if err != nil {
		return auth.Identity{}, fmt.Errorf("look up a session: %w", err)
	}
	if row.Stale {
		if err := s.cfg.Store.TouchSession(ctx, row.ID); err != nil {
			return auth.Identity{}, fmt.Errorf("record that session %s is used: %w", row.ID, err)
		}
	}
	id := auth.Identity{
		Kind: auth.User, OrgID: row.OrgID, SessionID: row.ID, UserID: row.UserID, UserName: row.UserName, Role: row.Role, ExpiresAt: &row.ExpiresAt,
		SignedInAt: row.SignedInAt,
	}
	if row.TokenID != nil {
		id.TokenID = *row.TokenID
	}
	if err := id.Narrow(row.Scope); err != nil {
		return auth.Identity{}, fmt.Errorf("session %s: %w", row.ID, err)
	}
	s.found.Add(string(hash), id)
	return id, nil
}

// Forget empties the cache of sessions: a user's rights have changed.
func (s *Sessions) Forget() { s.found.Purge() }

// Get returns a session.
func (s *Sessions) Get(ctx context.Context, orgID, id string) (db.GetSessionRow, error) {
	row, err := s.cfg.Store.GetSession(ctx, db.GetSessionParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no session %q", id).WithObject(id)
	}
	return row, err
}

// List returns a page of a user's active sessions, newest first, and the next page's
// token.
func (s *Sessions) List(ctx context.Context, orgID, userID, page string, size int32) ([]db.ListSessionsRow, string, error) {
	p := db.ListSessionsParams{OrgID: orgID, UserID: userID, Idle: s.cfg.Idle, MaxRows: size + 1}
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListSessions(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	if len(rows) <= int(size) {
		return rows, "", nil
	}
	rows = rows[:size]
	last := rows[size-1].Session
	return rows, store.PageToken(last.CreatedAt, last.ID), nil
}

// End ends a user's session.
func (s *Sessions) End(ctx context.Context, orgID, userID, id string, by event.Actor) error {
	s.found.Purge()
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.EndSession(ctx, db.EndSessionParams{OrgID: orgID, UserID: userID, ID: id})
		if err != nil {
			return fmt.Errorf("end session %s: %w", id, err)
		}
		if n == 0 {
			return fault.New(fault.NotFound, "there is no session %q of yours that stands", id).WithObject(id)
		}
		tx.AfterCommit(s.found.Purge)
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "session.ended", ObjectKind: "session", ObjectID: id})
	})
}

// CreateCode creates a code for one login as an identity, with its rights.
func (s *Sessions) CreateCode(ctx context.Context, id auth.Identity) (string, time.Time, error) {
	code, expires := ident.Secret("dhc"), time.Now().Add(CodeTTL)
	p := db.CreateLoginCodeParams{
		Hash: ident.Hash(code), OrgID: id.OrgID, UserID: id.UserID, Scope: id.Scope.Encode(), ExpiresAt: expires, OnMachine: id.OnMachine,
	}
	if id.TokenID != "" {
		p.TokenID = &id.TokenID
	}
	if err := s.cfg.Store.Tx(ctx, func(q *db.Queries) error { return q.CreateLoginCode(ctx, p) }); err != nil {
		return "", time.Time{}, fmt.Errorf("store a login code: %w", err)
	}
	return code, expires, nil
}

// Prune deletes what is over.
func (s *Sessions) Prune(ctx context.Context) error {
	return errors.Join(s.cfg.Store.PruneSessions(ctx, keepEnded), s.cfg.Store.PruneLoginCodes(ctx), s.cfg.Store.PruneLogins(ctx, attemptSpan))
}
