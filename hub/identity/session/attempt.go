package session

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Failed logins are counted in the database, so that trying each hub does not help: those
// from an address, and those to an account from an address. No one elsewhere can lock an
// account's owner out: after many failures from all addresses together, each further
// attempt is only delayed.
const (
	attemptSpan = 10 * time.Minute
	perAddress  = 30
	perAccount  = 10
	// slowFrom is from how many failures on logins to an account are slowed, and
	// slow by how much.
	slowFrom = 50
	slow     = 2 * time.Second
)

// counted is an attempt.
type counted struct {
	store            *store.Store
	address, account []byte // keys; account is nil where none is named
	everywhere       []byte // the account's from all addresses
}

// count counts an attempt before the password is checked, and refuses it after too many.
func (s *Sessions) count(ctx context.Context, address, account string) (counted, error) {
	c := counted{store: s.cfg.Store, address: ident.Hash("address " + auth.RateKey(address))}
	if err := s.within(ctx, c.address, perAddress, "from your address"); err != nil {
		return c, err
	}
	if account != "" {
		network := auth.RateKey(address)
		c.account, c.everywhere = ident.Hash("account "+account+" from "+network), ident.Hash("account "+account)
		if err := s.within(ctx, c.account, perAccount, "to this account from your address"); err != nil {
			return c, err
		}
		row, err := s.cfg.Store.CountLogin(ctx, db.CountLoginParams{Key: c.everywhere, Span: attemptSpan})
		if err != nil {
			return c, fmt.Errorf("count a login: %w", err)
		}
		if row.Attempts > slowFrom {
			return c, backoff.Wait(ctx, slow)
		}
	}
	return c, nil
}

func (s *Sessions) within(ctx context.Context, key []byte, most int32, what string) error {
	row, err := s.cfg.Store.CountLogin(ctx, db.CountLoginParams{Key: key, Span: attemptSpan})
	if err != nil {
		return fmt.Errorf("count a login: %w", err)
	}
	if row.Attempts <= most {
		return nil
	}
	wait := max(row.Since.Add(attemptSpan).Sub(row.Clock), time.Second)
	return fault.New(fault.Exhausted, "too many logins %s have failed", what).WithCode(fault.RateLimited).
		WithFix("wait %s", wait.Round(time.Second)).WithRetryAfter(wait)
}

// forgive removes an attempt that succeeded from the count. If that fails, the user has
// one attempt less.
func (c counted) forgive(ctx context.Context) {
	_ = c.store.ForgiveLogin(ctx, c.address)
	if c.account != nil {
		_ = c.store.ForgetLogins(ctx, c.account)
		_ = c.store.ForgiveLogin(ctx, c.everywhere)
	}
}

// Guess counts an attempt of a logged-in user to enter their password, like a login;
// right takes the count back.
func (s *Sessions) Guess(ctx context.Context, id auth.Identity) (right func(), err error) {
	c := counted{store: s.cfg.Store, account: ident.Hash("password of " + id.UserID)}
	if err := s.within(ctx, c.account, perAccount, "to set a password"); err != nil {
		return nil, err
	}
	return func() { _ = c.store.ForgetLogins(ctx, c.account) }, nil
}
