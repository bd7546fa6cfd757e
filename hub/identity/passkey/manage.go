package passkey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// Synced reports whether a passkey can be on several devices of its user.
func Synced(row db.Passkey) bool {
	var key webauthn.Credential
	return json.Unmarshal(row.Record, &key) == nil && key.Flags.BackupEligible
}

// List returns a user's passkeys, oldest first.
func (s *Service) List(ctx context.Context, orgID, userID string) ([]db.ListPasskeysRow, error) {
	rows, err := s.cfg.Store.ListPasskeys(ctx, db.ListPasskeysParams{OrgID: orgID, UserID: userID})
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return rows, nil
}

// Get returns a passkey.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetPasskeyRow, error) {
	row, err := s.cfg.Store.GetPasskey(ctx, db.GetPasskeyParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, unknown(id)
	}
	return row, err
}

func unknown(id string) error {
	return fault.New(fault.NotFound, "there is no passkey %q", id).WithObject(id)
}

// Rename gives one of the caller's passkeys another name.
func (s *Service) Rename(ctx context.Context, who auth.Identity, id, name string, by event.Actor) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		before, err := tx.GetPasskey(ctx, db.GetPasskeyParams{OrgID: who.OrgID, ID: id})
		if store.IsNotFound(err) || err == nil && before.Passkey.UserID != who.UserID {
			return unknown(id)
		}
		if err != nil {
			return fmt.Errorf("load passkey %s: %w", id, err)
		}
		if _, err := tx.RenamePasskey(ctx, db.RenamePasskeyParams{OrgID: who.OrgID, UserID: who.UserID, ID: id, Name: name}); err != nil {
			return fmt.Errorf("rename passkey %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: who.OrgID, By: by, Action: "passkey.renamed", ObjectKind: "passkey", ObjectID: id,
			Before: map[string]any{"name": before.Passkey.Name}, After: map[string]any{"name": name},
		})
	})
}

// mayDelete reports whether a deletion takes a proof, or why it is refused. One's own
// passkey takes one of one's own. An administrator's session removes those of others, which
// were lost, with the administrator's passkey or, without one, after a sign-in. Where
// nobody can do either, the hub's own token can, on the hub's machine.
func (s *Service) mayDelete(ctx context.Context, who auth.Identity, of db.Passkey) (proof bool, err error) {
	admin := who.Role == "admin"
	switch {
	case of.UserID != who.UserID && !admin:
		return false, unknown(of.ID)
	case admin && who.OnMachine:
		return false, nil
	}
	if err := inSession(who); err != nil {
		return false, err
	}
	if of.UserID == who.UserID {
		if of.RelyingParty == s.cfg.Public.Host {
			return true, nil
		}
		// A passkey of another host can prove nothing here, but it counts again where the hub has
		// that host again.
		return false, signedIn(who, auth.SignInLasts)
	}
	p, err := s.person(ctx, s.cfg.Store.Queries, who.OrgID, who.UserID, who.UserName)
	if err != nil || len(p.keys) > 0 {
		return true, err
	}
	return false, signedIn(who, auth.SignInLasts)
}

// Delete removes a passkey, with the proof that mayDelete asks for.
func (s *Service) Delete(ctx context.Context, who auth.Identity, id string, proof *Proof, by event.Actor) error {
	row, err := s.Get(ctx, who.OrgID, id)
	if err != nil {
		return err
	}
	needed, err := s.mayDelete(ctx, who, row.Passkey)
	if err != nil {
		return err
	}
	after := map[string]any{}
	if needed {
		evidence, err := s.Prove(ctx, who, proof, passkeyproof.Statement{Action: ActionDeleted, Object: id})
		if err != nil {
			return err
		}
		after["proof"] = evidence.Map()
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.DeletePasskey(ctx, db.DeletePasskeyParams{OrgID: who.OrgID, ID: id})
		if err != nil {
			return fmt.Errorf("delete passkey %s: %w", id, err)
		}
		if n == 0 {
			return unknown(id)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: who.OrgID, By: by, Action: ActionDeleted, ObjectKind: "passkey", ObjectID: id, After: after,
			Before: map[string]any{"name": row.Passkey.Name, "user_id": row.Passkey.UserID, "user": row.UserName, "key_sha256": passkeyproof.KeyDigest(row.Passkey.PublicKey)},
		})
	})
}

// DangerousApprovals reports whether an organisation asks for a passkey to approve what
// is dangerous.
func (s *Service) DangerousApprovals(ctx context.Context, orgID string) (bool, error) {
	org, err := s.cfg.Store.GetOrganisation(ctx, orgID)
	if err != nil {
		return false, fmt.Errorf("load organisation %s: %w", orgID, err)
	}
	return org.DangerousApprovals == required, nil
}

// RulesStatement is what a change of the rules proves.
func RulesStatement(orgID string, dangerousApprovals bool) passkeyproof.Statement {
	sum := sha256.Sum256(fmt.Appendf(nil, "dangerous_approvals=%t", dangerousApprovals))
	return passkeyproof.Statement{Action: ActionRules, Object: orgID, RequestDigest: hex.EncodeToString(sum[:])}
}

// SetDangerousApprovals sets whether an organisation asks for a passkey to approve what
// is dangerous. The administrator who sets it must have a passkey, so that at least one person can approve.
func (s *Service) SetDangerousApprovals(ctx context.Context, who auth.Identity, on bool, proof *Proof, by event.Actor) error {
	evidence, err := s.Prove(ctx, who, proof, RulesStatement(who.OrgID, on))
	if err != nil {
		return err
	}
	value := ""
	if on {
		value = required
	}
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		before, err := tx.GetOrganisation(ctx, who.OrgID)
		if err != nil {
			return fmt.Errorf("load organisation %s: %w", who.OrgID, err)
		}
		if err := tx.SetDangerousApprovals(ctx, db.SetDangerousApprovalsParams{ID: who.OrgID, DangerousApprovals: value}); err != nil {
			return fmt.Errorf("store the rules of passkeys: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: who.OrgID, By: by, Action: ActionRules, ObjectKind: "organisation", ObjectID: who.OrgID,
			Before: map[string]any{"dangerous_approvals": before.DangerousApprovals},
			After:  map[string]any{"dangerous_approvals": value, "proof": evidence.Map()},
		})
	})
}

// Prune deletes challenges that nobody has answered.
func (s *Service) Prune(ctx context.Context) error { return s.cfg.Store.PrunePasskeyChallenges(ctx) }
