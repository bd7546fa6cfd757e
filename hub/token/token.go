// Package token keeps API tokens: makes, lists and revokes them. Who may use one
// is hub/auth's. The hub keeps the hash of a token only.
package token

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/audit"
	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Service keeps tokens.
type Service struct {
	store    *store.Store
	recorder *event.Recorder
	tokens   *auth.Tokens
}

// New makes a Service.
func New(s *store.Store, recorder *event.Recorder, tokens *auth.Tokens) *Service {
	return &Service{s, recorder, tokens}
}

// Draft is a token to be made.
type Draft struct {
	OrgID string
	Kind  auth.Kind
	Name  string
	// UserID is whose it is; empty for a worker's.
	UserID string
	Scope  auth.Scope
	// TTL is 0 for one that does not expire.
	TTL time.Duration
	By  event.Actor
}

// Create makes a token, and answers its id and the token itself.
func (s *Service) Create(ctx context.Context, d Draft) (id, secret string, err error) {
	if err := d.Scope.Check(); err != nil {
		return "", "", err
	}
	if d.Kind == auth.Worker && !d.Scope.All() {
		return "", "", fault.New(fault.Invalid, "a worker's token has no scope").WithFix("leave out role, read_only and services: it does a worker's part only; pools bounds which pool")
	}
	if d.Kind != auth.Worker && len(d.Scope.Pools) > 0 {
		return "", "", fault.New(fault.Invalid, "pools is given, and only a worker is of a pool").WithFix("leave it out, or make a worker's token")
	}
	id, secret = ident.New("token"), auth.NewSecret(d.Kind)
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
		return audit.Append(tx, audit.Entry{OrgID: d.OrgID, By: d.By, Action: "token.created", ObjectKind: "token", ObjectID: id, After: after})
	})
}

// List answers a user's tokens that are not revoked, newest first; "" for
// everybody's.
func (s *Service) List(ctx context.Context, orgID, userID string) ([]db.ListTokensRow, error) {
	return s.store.ListTokens(ctx, db.ListTokensParams{OrgID: orgID, UserID: userID})
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
			return nil // somebody else just did
		}
		if err != nil {
			return fmt.Errorf("revoke token %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "token.revoked", ObjectKind: "token", ObjectID: id, Before: map[string]any{"name": row.Name, "kind": row.Kind},
		})
	})
}
