package stop

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// The reasons why a provider or a credential cannot be used; see Detail.Reason.
const (
	Refused      = "refused"
	Expired      = "expired"
	NotConnected = "not_connected"
	Quota        = "quota"
	Outage       = "outage"
)

// OpenProvider opens the item of a provider that cannot be called, for a reason of
// Detail.
//
// taskID is the task that it stopped, empty for none.
func OpenProvider(ctx context.Context, tx *event.Tx, orgID, taskID, name, reason, message string) error {
	c, err := tx.GetCredential(ctx, db.GetCredentialParams{OrgID: orgID, Provider: name})
	if err != nil && !store.IsNotFound(err) {
		return fmt.Errorf("load the credential of %s: %w", name, err)
	}
	s := Stop{OrgID: orgID, Kind: Provider, Subject: name, ToldTo: taskID, Why: message, Detail: Detail{Provider: name, Reason: reason, Login: c.Login}}
	if err == nil {
		s.Cause = c.ConnectedAt.UTC().Format(time.RFC3339Nano)
		if reason == Refused && !c.Login && c.ExpiresAt != nil && !c.ExpiresAt.After(time.Now()) {
			s.Detail.Reason = Expired
		}
	}
	switch s.Detail.Reason {
	case Expired:
		s.Title = fmt.Sprintf("The key of %s has expired", name)
	case NotConnected:
		s.Title = fmt.Sprintf("Provider %s is not connected", name)
	case Quota:
		s.Title = fmt.Sprintf("The quota at %s is used up", name)
	default:
		s.Title = fmt.Sprintf("%s refuses the key", name)
	}
	_, err = Open(ctx, tx, s)
	return err
}

// OutageSubject is the subject of the item about a provider that does not answer, which is
// another one than that about its key.
func OutageSubject(provider string) string { return "outage/" + provider }

// OpenOutage opens the item of a provider that has not answered since a time: one, however
// many tasks and models wait for it. taskID is one of them, whose row is locked.
func OpenOutage(ctx context.Context, tx *event.Tx, orgID, taskID, provider, message string, since time.Time) error {
	_, err := Open(ctx, tx, Stop{
		OrgID: orgID, Kind: Provider, Subject: OutageSubject(provider), Cause: since.UTC().Format(time.RFC3339Nano), ToldTo: taskID,
		Title:  fmt.Sprintf("%s does not answer", provider),
		Why:    fmt.Sprintf("Since %s: %s. Tasks that need it wait, and go on by themselves when it answers.", since.UTC().Format("2006-01-02 15:04:05 UTC"), message),
		Detail: Detail{Provider: provider, Reason: Outage},
	})
	return err
}

// OpenCredential opens the item of a credential of the egress that has expired, or that
// its server refuses.
func OpenCredential(ctx context.Context, tx *event.Tx, s Stop) error {
	s.Kind, s.Subject = Credential, s.Detail.Credential
	switch s.Detail.Reason {
	case Expired:
		s.Title = fmt.Sprintf("Credential %s has expired", s.Subject)
	default:
		s.Title = fmt.Sprintf("%s refuses credential %s (HTTP %d)", s.Detail.Host, s.Subject, s.Detail.Status)
	}
	_, err := Open(ctx, tx, s)
	return err
}

// sweepBatch is how many items one sweep opens or closes of each kind.
const sweepBatch = 200

// Sweep opens the stops of keys and credentials that have expired, and withdraws those
// that no task waits for any more. Any number of hubs may call it at once.
func Sweep(ctx context.Context, s *store.Store, r *event.Recorder) error {
	keys, err := s.EndedProviderKeys(ctx, sweepBatch)
	if err != nil {
		return fmt.Errorf("find expired keys of providers: %w", err)
	}
	for _, k := range keys {
		if err := r.Tx(ctx, func(tx *event.Tx) error {
			return OpenProvider(ctx, tx, k.OrgID, "", k.Provider, Expired, fmt.Sprintf("It expired at %s.", k.ExpiresAt.UTC().Format(time.RFC3339)))
		}); err != nil {
			return err
		}
	}
	credentials, err := s.ExpiredEgressCredentials(ctx, sweepBatch)
	if err != nil {
		return fmt.Errorf("find expired credentials: %w", err)
	}
	for _, c := range credentials {
		if err := r.Tx(ctx, func(tx *event.Tx) error {
			return OpenCredential(ctx, tx, Stop{
				OrgID: c.OrgID, Cause: c.Version, Why: fmt.Sprintf("It expired at %s. Requests that need it are refused.", c.ExpiresAt.UTC().Format(time.RFC3339)),
				Detail: Detail{Credential: c.Name, Reason: Expired},
			})
		}); err != nil {
			return err
		}
	}
	rest, err := s.UnwaitedStops(ctx, sweepBatch)
	if err != nil {
		return fmt.Errorf("find inbox items that no task waits for: %w", err)
	}
	for _, u := range rest {
		if err := Withdraw(ctx, s.Queries, u.OrgID, Kind(u.Kind), u.Subject, "no task waits for it"); err != nil {
			return err
		}
	}
	return nil
}
