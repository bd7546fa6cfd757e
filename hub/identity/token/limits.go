package token

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Limits are how long people's tokens may be used, whatever the tokens' own expiry.
// Package hub/identity/auth enforces them. A worker's token, and one that a hub keeps in
// its data folder, has no limits.
type Limits struct {
	// MaxTTL is the age at which a token expires; 0 for none.
	MaxTTL time.Duration
	// LoginWithin is how often people of the identity provider have to log in there;
	// 0 for auth.LoginWithin.
	LoginWithin time.Duration
}

// Limits returns an organisation's.
func (s *Service) Limits(ctx context.Context, orgID string) (Limits, error) {
	return limitsOf(ctx, s.store.Queries, orgID)
}

func limitsOf(ctx context.Context, q *db.Queries, orgID string) (Limits, error) {
	row, err := q.GetTokenLimits(ctx, orgID)
	if err != nil {
		return Limits{}, fmt.Errorf("load the limits of the tokens of %s: %w", orgID, err)
	}
	l := Limits{LoginWithin: auth.LoginWithin}
	if row.MaxTokenTtl != nil {
		l.MaxTTL = *row.MaxTokenTtl
	}
	if row.LoginWithin != nil {
		l.LoginWithin = *row.LoginWithin
	}
	return l, nil
}

// SetLimits changes an organisation's, also for the tokens that there are.
func (s *Service) SetLimits(ctx context.Context, orgID string, l Limits, by event.Actor) error {
	p := db.SetTokenLimitsParams{OrgID: orgID}
	if l.MaxTTL > 0 {
		p.MaxTokenTtl = &l.MaxTTL
	}
	if l.LoginWithin > 0 {
		p.LoginWithin = &l.LoginWithin
	}
	defer s.tokens.Forget()
	return s.recorder.Tx(ctx, func(tx *event.Tx) error {
		before, err := limitsOf(ctx, tx.Queries, orgID)
		if err != nil {
			return err
		}
		if err := tx.SetTokenLimits(ctx, p); err != nil {
			return fmt.Errorf("store the limits of the tokens of %s: %w", orgID, err)
		}
		after, err := limitsOf(ctx, tx.Queries, orgID)
		if err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "token.limits_set", ObjectKind: "organisation", ObjectID: orgID, Before: before.entry(), After: after.entry(),
		})
	})
}

func (l Limits) entry() map[string]any {
	return map[string]any{"max_ttl": l.MaxTTL.String(), "login_within": l.LoginWithin.String()}
}

// allows refuses a person's token that would live for longer than it may.
func (l Limits) allows(d Draft) error {
	if d.Kind != auth.User || l.MaxTTL == 0 || d.TTL > 0 && d.TTL <= l.MaxTTL {
		return nil
	}
	said := d.TTL.String()
	if d.TTL == 0 {
		said = "not given"
	}
	return fault.New(fault.Invalid, "ttl is %s, and tokens of this organisation live for at most %s", said, l.MaxTTL).WithFix("give a ttl of at most %s", l.MaxTTL)
}
