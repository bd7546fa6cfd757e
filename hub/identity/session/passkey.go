package session

import (
	"context"
	"errors"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// perAddressBegun is how many logins with passkeys an address may begin in attemptSpan:
// each is a challenge that is stored.
const perAddressBegun = 200

// Begin counts the beginning of a login with a passkey, and refuses it after too many.
func (s *Sessions) Begin(ctx context.Context, address string) error {
	return s.within(ctx, ident.Hash("passkey challenges of "+auth.RateKey(address)), perAddressBegun, "from your address were begun or")
}

// ByPasskey logs in the user whose passkey check has verified. check returns why it is
// refused, with its owner as far as that is known.
func (s *Sessions) ByPasskey(ctx context.Context, from From, check func(ctx context.Context) (owner db.PasskeyOwnerRow, why string, err error)) (string, db.GetSessionRow, error) {
	return s.login(ctx, from, "", func() (draft, error) {
		owner, why, err := check(ctx)
		if err == nil && why != "" {
			err = errors.Join(wrong("the passkey is not accepted, "+why), s.Refused(ctx, owner.OrgID, "passkey", why, owner.Name, from))
		}
		return draft{method: "passkey", org: owner.OrgID, user: owner.ID, name: owner.Name, scope: auth.Scope{}.Encode(), signedIn: true}, err
	})
}
