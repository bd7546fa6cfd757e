package session

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Logout is a login that has ended at an identity provider.
type Logout struct {
	OrgID, Issuer string
	// Subject is the provider's id of the person, and SID that of the login. One of them
	// may be empty: without SID all logins of the person have ended.
	Subject, SID string
	// At is when it ended. Sessions that were created later stay.
	At time.Time
}

// logoutSkew is how far the provider's clock may be behind the database's.
const logoutSkew = time.Minute

// EndByProvider ends the sessions that came from a login that has ended at the
// identity provider, and returns how many there were. API tokens stay.
func (s *Sessions) EndByProvider(ctx context.Context, l Logout, by event.Actor) (ended int, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		rows, err := tx.EndSessionsOfProvider(ctx, db.EndSessionsOfProviderParams{
			OrgID: l.OrgID, Issuer: l.Issuer, Subject: l.Subject, Sid: l.SID, MadeBefore: l.At.Add(logoutSkew),
		})
		if err != nil {
			return fmt.Errorf("end the sessions of a login: %w", err)
		}
		ended = len(rows)
		tx.AfterCommit(s.found.Purge)
		for _, row := range rows {
			if err := audit.Append(tx, audit.Entry{
				OrgID: l.OrgID, By: by, Action: "session.ended", ObjectKind: "session", ObjectID: row.ID,
				Reason: "the login has ended at the identity provider", After: map[string]any{"user_id": row.UserID},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return ended, err
}

// Attempt counts an attempt of a stranger from an address to be believed, as those to
// log in are counted, and refuses one too many. For a token that was believed, forgive is called.
func (s *Sessions) Attempt(ctx context.Context, address string) (forgive func(context.Context), err error) {
	counted, err := s.count(ctx, address, "")
	return counted.forgive, err
}
