// Package token creates, lists and revokes API tokens. Service does so for an
// organisation; package hub/identity/auth checks tokens. The hub stores only the hash of
// a token.
package token

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Service keeps tokens.
type Service struct {
	store    *store.Store
	recorder *event.Recorder
	tokens   *auth.Tokens
}

// New creates a Service.
func New(s *store.Store, recorder *event.Recorder, tokens *auth.Tokens) *Service {
	return &Service{s, recorder, tokens}
}

// Draft is a token to be made.
type Draft struct {
	OrgID string
	Kind  auth.Kind
	Name  string
	// UserID is its owner; empty for a worker's.
	UserID string
	Scope  auth.Scope
	// TTL is 0 for one that does not expire.
	TTL time.Duration
	By  event.Actor
	// Secret is the token itself, if the caller has made it; empty for a new one.
	Secret string
	// With is done in the transaction that stores the token with an id; nil for nothing.
	With func(tx *event.Tx, id string) error
}

// Renewal is another secret of a user's token.
type Renewal struct {
	OrgID, UserID, ID string
	Secret            string
	TTL               time.Duration
	// With is done in the transaction before the token is renewed.
	With func(q *db.Queries) error
}

// Create creates a token, and returns its id and the token itself.
func (s *Service) Create(ctx context.Context, d Draft) (id, secret string, err error) {
	if err := d.Scope.Check(); err != nil {
		return "", "", err
	}
	if d.Scope.Decide && d.Scope.ReadOnly {
		return "", "", fault.New(fault.Invalid, "decide and read_only were both given").WithFix("leave out one of them: a decision changes something")
	}
	if d.Kind == auth.Worker && (!d.Scope.All() || d.Scope.Decide) {
		return "", "", fault.New(fault.Invalid, "a worker's token has no scope").WithFix("leave out role, read_only, services and decide: it does a worker's part only; pools bounds which pool")
	}
	if d.Kind != auth.Worker && len(d.Scope.Pools) > 0 {
		return "", "", fault.New(fault.Invalid, "pools is given, and only a worker is of a pool").WithFix("leave it out, or make a worker's token")
	}
	limits, err := s.Limits(ctx, d.OrgID)
	if err != nil {
		return "", "", err
	}
	if err := limits.allows(d); err != nil {
		return "", "", err
	}
	id, secret = ident.New("token"), cmp.Or(d.Secret, auth.NewSecret(d.Kind))
	p := db.CreateTokenParams{
		ID: id, OrgID: d.OrgID, Kind: string(d.Kind), Name: d.Name, Hash: ident.Hash(secret), Scope: d.Scope.Encode(), CreatedBy: d.By.ID,
	}
	if d.Kind == auth.User {
		p.UserID = &d.UserID
	}
	after := map[string]any{"name": d.Name, "kind": string(d.Kind), "user_id": d.UserID, "scope": string(p.Scope)}
	if d.TTL > 0 {
		expires := time.Now().Add(d.TTL)
		p.ExpiresAt, after["expires_at"] = &expires, expires.UTC().Format(time.RFC3339)
	}
	return id, secret, s.recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.CreateToken(ctx, p); err != nil {
			return fmt.Errorf("store a token: %w", err)
		}
		if d.With != nil {
			if err := d.With(tx, id); err != nil {
				return err
			}
		}
		return audit.Append(tx, audit.Entry{OrgID: d.OrgID, By: d.By, Action: "token.created", ObjectKind: "token", ObjectID: id, After: after})
	})
}

// Renew gives a user's token another secret and a later end, under the conditions under which
// it may be used, but for its end.
func (s *Service) Renew(ctx context.Context, r Renewal) error {
	err := s.store.Tx(ctx, func(q *db.Queries) error {
		if err := r.With(q); err != nil {
			return err
		}
		renewed, err := q.RenewToken(ctx, db.RenewTokenParams{
			OrgID: r.OrgID, ID: r.ID, UserID: &r.UserID, Hash: ident.Hash(r.Secret), ExpiresAt: time.Now().Add(r.TTL), LoginWithin: auth.LoginWithin,
		})
		if err != nil {
			return fmt.Errorf("renew token %s: %w", r.ID, err)
		}
		if renewed == 0 {
			return fault.New(fault.NotFound, "token %s is revoked, or may not be used any more", r.ID).WithFix("connect the program again")
		}
		return nil
	})
	if err == nil {
		s.tokens.Forget()
	}
	return err
}

// List returns a page of a user's tokens that are not revoked, newest first, and
// the next page's token; "" for everybody's.
func (s *Service) List(ctx context.Context, orgID, userID, page string, size int32) ([]db.ListTokensRow, string, error) {
	p := db.ListTokensParams{OrgID: orgID, UserID: userID, MaxRows: size + 1}
	s.store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := p
		all.MaxRows = maxRows
		_, err := q.ListTokens(ctx, all)
		return err
	})
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	rows, err := s.store.ListTokens(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list tokens: %w", err)
	}
	if len(rows) <= int(size) {
		return rows, "", nil
	}
	rows = rows[:size]
	return rows, store.PageToken(rows[size-1].CreatedAt, rows[size-1].ID), nil
}

// Get returns a token that is not revoked.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.ListTokensRow, error) {
	rows, err := s.store.ListTokens(ctx, db.ListTokensParams{OrgID: orgID, ID: id, MaxRows: 1})
	if err != nil {
		return db.ListTokensRow{}, fmt.Errorf("load token %s: %w", id, err)
	}
	if len(rows) == 0 {
		return db.ListTokensRow{}, fault.New(fault.Aborted, "token %s was revoked as it was made", id).WithFix("make another")
	}
	return rows[0], nil
}

// Revoke ends a token of a user's; "" for anybody's.
func (s *Service) Revoke(ctx context.Context, orgID, userID, ref string, by event.Actor) error {
	rows, err := s.store.FindTokens(ctx, db.FindTokensParams{OrgID: orgID, UserID: userID, Ref: ref, Prefix: store.Prefix("token", ref)})
	id, err := store.One("token", ref, rows, err)
	if err != nil {
		return err
	}
	defer s.tokens.Forget()
	return s.recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.RevokeToken(ctx, db.RevokeTokenParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) {
			return nil // another call just did
		}
		if err != nil {
			return fmt.Errorf("revoke token %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "token.revoked", ObjectKind: "token", ObjectID: id, Before: map[string]any{"name": row.Name, "kind": row.Kind},
		})
	})
}
