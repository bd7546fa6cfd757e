// Package user manages the users of an organisation: their names, roles and passwords.
// Users is its service. A password is stored as a bcrypt hash. Checking one takes as
// long, and fails in the same way, whether or not the user exists.
package user

import (
	"context"
	"fmt"
	"runtime"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// passwordCost is bcrypt's: about a quarter of a second.
	passwordCost = 12
	// minPassword is in characters; maxPassword is in bytes, and bcrypt's.
	minPassword = 12
	maxPassword = 72
	// nobody is the hash that a password is compared with if the user does not exist: the
	// hash, at passwordCost, of a random password that was discarded.
	nobody = "$2a$12$.XvX5fpxMEVa9lA405CIG.ocQBqKT6xWNWl/TcVCGDW1LArnKPAuW"
)

// Config holds the dependencies of a Users.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
}

// Users keeps people.
type Users struct {
	cfg Config
	// hashing limits how many passwords are hashed at once: each occupies a processor.
	hashing chan struct{}
	// guesses queues the hashes of each account, so that repeated attempts on one account
	// occupy one processor at most, and yield it to others in between.
	guesses *fair.Lanes
	// roles are those of the last moment, by organisation and name.
	roles *ttlcache.Cache[string, string]
}

// New creates Users.
func New(cfg Config) *Users {
	return &Users{
		cfg: cfg, hashing: make(chan struct{}, max(1, runtime.NumCPU()-1)), guesses: fair.NewLanes(1, 1),
		roles: ttlcache.New[string, string](rememberedRoles, rememberRole),
	}
}

// Find returns the id of a user by an id, the beginning of one, or a name.
func (u *Users) Find(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := u.cfg.Store.FindUsers(ctx, db.FindUsersParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("user", ref)})
	return store.One("user", ref, rows, err)
}

// Get returns a user.
func (u *Users) Get(ctx context.Context, orgID, id string) (db.GetUserRow, error) {
	row, err := u.cfg.Store.GetUser(ctx, db.GetUserParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, missing(id)
	}
	return row, err
}

func missing(id string) error {
	return fault.New(fault.NotFound, "there is no user %q", id).WithFix("list what there is with: deckhand user list").WithObject(id)
}

// List returns at most limit users by name, after one.
func (u *Users) List(ctx context.Context, orgID, after string, limit int32) ([]db.ListUsersRow, error) {
	params := db.ListUsersParams{OrgID: orgID, AfterName: after, MaxRows: limit}
	u.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListUsers(ctx, all)
		return err
	})
	return u.cfg.Store.ListUsers(ctx, params)
}

// Create creates a user, who cannot log in before they have a token or a password.
func (u *Users) Create(ctx context.Context, orgID, name, role string, by event.Actor) (string, error) {
	id := ident.New("user")
	err := u.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		_, err := tx.InsertUser(ctx, db.InsertUserParams{ID: id, OrgID: orgID, Name: name, Role: role})
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is a user %q already", name).WithFix("choose another name")
		}
		if err != nil {
			return fmt.Errorf("store user %s: %w", name, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "user.created", ObjectKind: "user", ObjectID: id, After: map[string]any{"name": name, "role": role},
		})
	})
	return id, err
}

// Federation is what an identity provider reports about a person.
type Federation struct {
	OrgID, Issuer, Subject, Name, Role string
}

// provider is the actor of changes that come from an identity provider.
var provider = event.Actor{Kind: "hub", ID: "oidc"}

// Federated returns the user that an identity provider vouches for. It creates the user
// if there is none yet, and sets the role that the provider reports. An existing user of
// that name who does not come from the provider is not linked: the login is refused.
func (u *Users) Federated(ctx context.Context, f Federation) (db.User, error) {
	find := func() (db.User, error) {
		return u.cfg.Store.UserOfOIDC(ctx, db.UserOfOIDCParams{OrgID: f.OrgID, OidcIssuer: f.Issuer, OidcSubject: f.Subject})
	}
	found, err := find()
	if store.IsNotFound(err) {
		return u.federate(ctx, f)
	}
	switch {
	case err != nil:
		return found, fmt.Errorf("find who logs in: %w", err)
	case found.DisabledAt != nil:
		return found, fault.New(fault.Denied, "user %s is disabled", found.Name).WithFix("ask an administrator")
	case found.Role != f.Role:
		if err := u.Update(ctx, f.OrgID, found.ID, Change{Role: &f.Role}, provider); err != nil {
			return found, err
		}
	}
	if err := u.cfg.Store.VouchForUser(ctx, db.VouchForUserParams{OrgID: f.OrgID, ID: found.ID}); err != nil {
		return found, fmt.Errorf("record that user %s has logged in: %w", found.Name, err)
	}
	return find()
}

func (u *Users) federate(ctx context.Context, f Federation) (made db.User, err error) {
	err = u.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		made, err = tx.InsertOIDCUser(ctx, db.InsertOIDCUserParams{
			ID: ident.New("user"), OrgID: f.OrgID, Name: f.Name, Role: f.Role, OidcIssuer: f.Issuer, OidcSubject: f.Subject,
		})
		if store.IsNotFound(err) {
			return fault.New(fault.Denied, "there is a user %q already, who is not of the identity provider", f.Name).
				WithFix("ask an administrator: one of the two needs another name")
		}
		if err != nil {
			return fmt.Errorf("store user %s: %w", f.Name, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: f.OrgID, By: provider, Action: "user.created", ObjectKind: "user", ObjectID: made.ID,
			After: map[string]any{"name": f.Name, "role": f.Role, "issuer": f.Issuer, "subject": f.Subject},
		})
	})
	return made, err
}

// Change is what to change of a user; nil leaves it.
type Change struct {
	Role     *string
	Disabled *bool
}

// Update changes a user. Who is disabled has no sessions and tokens that work,
// and starts no tasks.
func (u *Users) Update(ctx context.Context, orgID, id string, c Change, by event.Actor) error {
	return u.Guarded(ctx, orgID, func(tx *event.Tx) error {
		is, err := tx.GetUser(ctx, db.GetUserParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) {
			return missing(id)
		}
		if err != nil {
			return fmt.Errorf("look for user %s: %w", id, err)
		}
		p := db.UpdateUserParams{OrgID: orgID, ID: id, Role: is.User.Role, Disabled: is.User.DisabledAt != nil}
		before, after := map[string]any{}, map[string]any{}
		if c.Role != nil && *c.Role != p.Role {
			before["role"], after["role"], p.Role = p.Role, *c.Role, *c.Role
		}
		if c.Disabled != nil && *c.Disabled != p.Disabled {
			before["disabled"], after["disabled"], p.Disabled = p.Disabled, *c.Disabled, *c.Disabled
		}
		if len(after) == 0 {
			return nil
		}
		if _, err := tx.UpdateUser(ctx, p); err != nil {
			return fmt.Errorf("change user %s: %w", id, err)
		}
		if p.Disabled {
			if _, err := tx.EndSessions(ctx, db.EndSessionsParams{OrgID: orgID, UserID: id}); err != nil {
				return fmt.Errorf("end sessions: %w", err)
			}
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "user.changed", ObjectKind: "user", ObjectID: id, Before: before, After: after,
		})
	})
}

// Guarded runs a change of users' rights, one at a time in an organisation. It is refused
// if no administrator would be left.
func (u *Users) Guarded(ctx context.Context, orgID string, fn func(tx *event.Tx) error) error {
	err := u.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockPeople(ctx, orgID); err != nil {
			return fmt.Errorf("lock the people of %s: %w", orgID, err)
		}
		if err := fn(tx); err != nil {
			return err
		}
		n, err := tx.CountAdmins(ctx, orgID)
		if err == nil && n == 0 {
			err = fault.New(fault.Precondition, "no administrator would be left").WithFix("give another user the role admin first")
		}
		return err
	})
	u.roles.Purge()
	u.cfg.Recorder.Publish(change.RightsChanged{})
	return err
}

// hash waits for a processor to hash a password with. The hashes of one account wait for
// each other first; account is empty for a login, which is counted by address.
func (u *Users) hash(ctx context.Context, account string, fn func() error) error {
	if account != "" {
		done, err := u.guesses.Take(ctx, account)
		if err != nil {
			return err
		}
		defer done()
	}
	select {
	case u.hashing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.hashing }()
	return fn()
}

// PasswordChange is a password that a user is to have, and what ends with the one
// before.
type PasswordChange struct {
	OrgID, UserID, Password string
	// Keep is the session that stays; empty for none.
	Keep string
	// RevokeTokens ends the user's API tokens, too.
	RevokeTokens bool
	By           event.Actor
}

// SetPassword gives a user a password.
func (u *Users) SetPassword(ctx context.Context, c PasswordChange) error {
	password := c.Password
	switch {
	case utf8.RuneCountInString(password) < minPassword:
		return fault.New(fault.Invalid, "password has %d characters", utf8.RuneCountInString(password)).WithFix("use %d or more", minPassword)
	case len(password) > maxPassword:
		return fault.New(fault.Invalid, "password has %d bytes", len(password)).WithFix("use at most %d", maxPassword)
	}
	var hash []byte
	if err := u.hash(ctx, c.By.ID, func() (err error) {
		hash, err = bcrypt.GenerateFromPassword([]byte(password), passwordCost)
		return err
	}); err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	defer u.cfg.Recorder.Publish(change.RightsChanged{})
	return u.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.SetPassword(ctx, db.SetPasswordParams{OrgID: c.OrgID, ID: c.UserID, PasswordHash: string(hash)})
		if err != nil {
			return fmt.Errorf("store a password: %w", err)
		}
		if n == 0 {
			return missing(c.UserID)
		}
		if _, err := tx.EndSessions(ctx, db.EndSessionsParams{OrgID: c.OrgID, UserID: c.UserID, Keep: c.Keep}); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		after := map[string]any{}
		if c.RevokeTokens {
			if after["revoked_tokens"], err = tx.RevokeTokensOfUser(ctx, db.RevokeTokensOfUserParams{OrgID: c.OrgID, UserID: &c.UserID}); err != nil {
				return fmt.Errorf("revoke tokens: %w", err)
			}
		}
		return audit.Append(tx, audit.Entry{OrgID: c.OrgID, By: c.By, Action: "user.password_set", ObjectKind: "user", ObjectID: c.UserID, After: after})
	})
}

// CheckPassword returns an error unless the password is the user's. A user without one may
// set their first if they have just signed in: a stolen token must not make a login that
// outlives it.
func (u *Users) CheckPassword(ctx context.Context, orgID, userID, password string, signedIn bool) error {
	row, err := u.Get(ctx, orgID, userID)
	switch {
	case err != nil:
		return err
	case row.User.PasswordHash == "" && signedIn:
		return nil
	case row.User.PasswordHash == "":
		return fault.New(fault.Precondition, "a first password takes a sign-in of the last 10 minutes, and not an API token").
			WithFix("log in by your identity provider or a passkey first, or have another administrator set it; on the hub's machine: sudo deckhand user password %s", row.User.Name)
	}
	return u.hash(ctx, userID, func() error {
		if bcrypt.CompareHashAndPassword([]byte(row.User.PasswordHash), []byte(password)) != nil {
			return fault.New(fault.Denied, "current_password is wrong").WithFix("an administrator can set another one for you")
		}
		return nil
	})
}

// Verify returns the user whose name and password these are, and false for
// anybody else: one that is not there, has no password, or is disabled.
func (u *Users) Verify(ctx context.Context, organisation, name, password string) (db.User, bool, error) {
	row, err := u.cfg.Store.UserForLogin(ctx, db.UserForLoginParams{Organisation: organisation, Name: name})
	if err != nil && !store.IsNotFound(err) {
		return db.User{}, false, fmt.Errorf("look for a user: %w", err)
	}
	hash := row.User.PasswordHash
	able := err == nil && hash != "" && row.User.DisabledAt == nil
	if hash == "" {
		hash = nobody
	}
	same := false
	if err := u.hash(ctx, "", func() error {
		same = bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
		return nil
	}); err != nil {
		return db.User{}, false, err
	}
	return row.User, able && same, nil
}
