// Package organisation creates organisations. Service creates one in a single
// transaction; a name that exists is refused. Each organisation has its own users,
// agents, nodes, keys and audit log, and sees nothing of another one's.
package organisation

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// DefaultAdmin is the default name of an organisation's first administrator.
const DefaultAdmin = "admin"

// Service keeps organisations.
type Service struct {
	store    *store.Store
	recorder *event.Recorder
}

// New creates a Service.
func New(s *store.Store, recorder *event.Recorder) *Service { return &Service{s, recorder} }

// operator is the actor of an organisation's creation in its own audit log: the user
// names of another organisation mean nothing there.
var operator = event.Actor{Kind: "hub", ID: "operator"}

// Create creates an organisation with an administrator, and returns the administrator's
// token. It is audited in both organisations, the creator's and the new one.
func (s *Service) Create(ctx context.Context, name, admin string, byOrg string, by event.Actor) (org db.Organisation, token string, err error) {
	if admin == "" {
		admin = DefaultAdmin
	}
	token = auth.NewSecret(auth.User)
	userID, tokenID := ident.New("user"), ident.New("token")
	err = s.recorder.Tx(ctx, func(tx *event.Tx) error {
		org, err = tx.InsertOrganisation(ctx, db.InsertOrganisationParams{ID: ident.New("org"), Name: name})
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is an organisation %q already", name).WithFix("choose another name")
		}
		if err != nil {
			return fmt.Errorf("store organisation %s: %w", name, err)
		}
		if _, err = tx.InsertUser(ctx, db.InsertUserParams{ID: userID, OrgID: org.ID, Name: admin, Role: "admin"}); err != nil {
			return fmt.Errorf("store the administrator of %s: %w", name, err)
		}
		if err = tx.CreateToken(ctx, db.CreateTokenParams{
			ID: tokenID, OrgID: org.ID, Kind: string(auth.User), UserID: &userID, Name: "first", Hash: ident.Hash(token),
			Scope: auth.Scope{}.Encode(), CreatedBy: operator.ID,
		}); err != nil {
			return fmt.Errorf("store the token of the administrator of %s: %w", name, err)
		}
		for _, e := range []audit.Entry{
			{OrgID: byOrg, By: by, Action: "organisation.created", ObjectKind: "organisation", ObjectID: org.ID, After: map[string]any{"name": name}},
			{OrgID: org.ID, By: operator, Action: "organisation.created", ObjectKind: "organisation", ObjectID: org.ID, After: map[string]any{"name": name}},
			{OrgID: org.ID, By: operator, Action: "user.created", ObjectKind: "user", ObjectID: userID, After: map[string]any{"name": admin, "role": "admin"}},
			{OrgID: org.ID, By: operator, Action: "token.created", ObjectKind: "token", ObjectID: tokenID, After: map[string]any{"name": "first", "user_id": userID}},
		} {
			if err := audit.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	return org, token, err
}

// List returns a page of all by name, and the next page's token.
func (s *Service) List(ctx context.Context, page string, size int32) ([]db.ListOrganisationsRow, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.store.ListOrganisations(ctx, db.ListOrganisationsParams{AfterName: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list organisations: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListOrganisationsRow) string { return store.NameToken(last.Organisation.Name, "") })
	return rows, next, nil
}

// Get returns the one of a name.
func (s *Service) Get(ctx context.Context, name string) (db.ListOrganisationsRow, error) {
	rows, err := s.store.ListOrganisations(ctx, db.ListOrganisationsParams{Name: name, MaxRows: 1})
	if err != nil {
		return db.ListOrganisationsRow{}, fmt.Errorf("find organisation %s: %w", name, err)
	}
	if len(rows) == 0 {
		return db.ListOrganisationsRow{}, fault.New(fault.NotFound, "there is no organisation %q", name)
	}
	return rows[0], nil
}
