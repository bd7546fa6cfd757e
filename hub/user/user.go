// Package user is the people of an organisation: their names, roles and
// passwords. A password is kept as bcrypt's hash of it, and looked at for as
// long, with the same answer, whether or not there is such a user.
package user

import (
	"context"
	"fmt"
	"runtime"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/deckhand-sh/deckhand/hub/audit"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// passwordCost is bcrypt's: about a quarter of a second.
	passwordCost = 12
	// minPassword is in characters; maxPassword is in bytes, and bcrypt's.
	minPassword = 12
	maxPassword = 72
	// nobody's password is compared where there is no user: the hash, at
	// passwordCost, of a password that was thrown away.
	nobody = "$2a$12$.XvX5fpxMEVa9lA405CIG.ocQBqKT6xWNWl/TcVCGDW1LArnKPAuW"
)

// Config says what a Users works with.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
}

// Users keeps people.
type Users struct {
	cfg Config
	// hashing bounds how many passwords are looked at at once: each keeps a
	// processor busy.
	hashing chan struct{}
}

// New makes Users.
func New(cfg Config) *Users {
	return &Users{cfg: cfg, hashing: make(chan struct{}, max(1, runtime.NumCPU()-1))}
}

func (u *Users) hash(ctx context.Context, fn func() error) error {
	select {
	case u.hashing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.hashing }()
	return fn()
}

// SetPassword gives a user a password, and ends all sessions of theirs but one;
// keep is empty for none.
func (u *Users) SetPassword(ctx context.Context, orgID, userID, password, keep string, by event.Actor) error {
	switch {
	case utf8.RuneCountInString(password) < minPassword:
		return fault.New(fault.Invalid, "password has %d characters", utf8.RuneCountInString(password)).WithFix("use %d or more", minPassword)
	case len(password) > maxPassword:
		return fault.New(fault.Invalid, "password has %d bytes", len(password)).WithFix("use at most %d", maxPassword)
	}
	var hash []byte
	if err := u.hash(ctx, func() (err error) {
		hash, err = bcrypt.GenerateFromPassword([]byte(password), passwordCost)
		return err
	}); err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	return u.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.SetPassword(ctx, db.SetPasswordParams{OrgID: orgID, ID: userID, PasswordHash: string(hash)})
		if err != nil {
			return fmt.Errorf("store a password: %w", err)
		}
		if n == 0 {
			return fault.New(fault.NotFound, "there is no user %q", userID).WithObject(userID)
		}
		if _, err := tx.EndSessions(ctx, db.EndSessionsParams{OrgID: orgID, UserID: userID, Keep: keep}); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "user.password_set", ObjectKind: "user", ObjectID: userID})
	})
}

// Verify answers the user whose name and password these are, and false for
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
	if err := u.hash(ctx, func() error {
		same = bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
		return nil
	}); err != nil {
		return db.User{}, false, err
	}
	return row.User, able && same, nil
}
