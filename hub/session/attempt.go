package session

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/auth"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Logins that fail are counted in the database, so that it does not help to
// try each hub. Whoever tries the passwords of one account from many addresses
// keeps its owner from logging in with a password, too; tokens, codes and OIDC
// go on working for them.
const (
	attemptSpan = 10 * time.Minute
	perAddress  = 30
	perAccount  = 10
)

// counted is an attempt.
type counted struct {
	store            *store.Store
	address, account []byte // keys; account is nil where none is named
}

// count counts an attempt before it is looked at, and refuses it when there
// were too many.
func (s *Sessions) count(ctx context.Context, address, account string) (counted, error) {
	c := counted{store: s.cfg.Store, address: ident.Hash("address " + auth.Network(address))}
	if err := s.within(ctx, c.address, perAddress, "from your address"); err != nil {
		return c, err
	}
	if account != "" {
		c.account = ident.Hash("account " + account)
		return c, s.within(ctx, c.account, perAccount, "to this account")
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

// forgive takes back an attempt that succeeded. An error costs its owner a bit
// of what they may try.
func (c counted) forgive(ctx context.Context) {
	_ = c.store.ForgiveLogin(ctx, c.address)
	if c.account != nil {
		_ = c.store.ForgetLogins(ctx, c.account)
	}
}
