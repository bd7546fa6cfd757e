package inbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// Passkeys verifies that a person was there.
type Passkeys interface {
	// DangerousApprovals reports whether an organisation asks for a passkey to approve
	// what is dangerous.
	DangerousApprovals(ctx context.Context, orgID string) (bool, error)
	Prove(ctx context.Context, id auth.Identity, with *passkey.Proof, st passkeyproof.Statement) (passkeyproof.Evidence, error)
}

// Statement is what a person proves with a passkey who decides an item.
func Statement(item string, verdict Verdict, shownDigest, requestDigest string) passkeyproof.Statement {
	return passkeyproof.Statement{Action: "inbox." + string(verdict), Object: item, ShownDigest: shownDigest, RequestDigest: requestDigest}
}

// PasskeyRule reports whether an organisation asks for a passkey to approve what is
// dangerous.
func (s *Service) PasskeyRule(ctx context.Context, orgID string) (bool, error) {
	if s.cfg.Passkeys == nil {
		return false, nil
	}
	return s.cfg.Passkeys.DangerousApprovals(ctx, orgID)
}

// NeedsPasskey reports whether letting an item's call run, or accepting a review, takes a
// passkey: a rule of the policies takes one for a call that would be made, or rule is the
// organisation's PasskeyRule, and something dangerous was recognised in such a call.
func NeedsPasskey(item db.InboxItem, rule bool) (bool, error) {
	if State(item.State) != Open {
		return false, nil
	}
	switch Kind(item.Kind) {
	case Approval, Unknown:
		d, err := DecisionOf(item)
		return d.Passkey || rule && len(d.Dangers) > 0, err
	case Review:
		var detail struct {
			Deferred []struct {
				Passkey bool     `json:"passkey"`
				Dangers []string `json:"dangers"`
			} `json:"deferred"`
		}
		if err := json.Unmarshal(item.Detail, &detail); err != nil {
			return false, fmt.Errorf("read the review %s: %w", item.ID, err)
		}
		for _, call := range detail.Deferred {
			if call.Passkey || rule && len(call.Dangers) > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// answerNeedsPasskey reports whether an answer takes a passkey: one by which something
// would run that is dangerous, or that a rule takes one for. Other arguments are judged,
// since those would run.
func (s *Service) answerNeedsPasskey(ctx context.Context, item db.InboxItem, a *Answer) (bool, error) {
	if a.Verdict != Approve && a.Verdict != Retry && a.Verdict != Accept {
		return false, nil
	}
	rule, err := s.PasskeyRule(ctx, item.OrgID)
	if err != nil {
		return false, err
	}
	if needed, err := NeedsPasskey(item, rule); err != nil || needed {
		return needed, err
	}
	if a.Verdict != Approve || a.ArgumentsJSON == "" || Kind(item.Kind) != Approval {
		return false, nil
	}
	judged, err := s.Judge(ctx, item, a.ArgumentsJSON)
	return judged.Decision.Passkey || rule && len(judged.Decision.Dangers) > 0, err
}

// prove verifies the passkey of a decision on an open item, where one is needed or given.
// Edited arguments need one if they are dangerous, or if those were that they replace.
func (s *Service) prove(ctx context.Context, item db.InboxItem, a *Answer) error {
	if State(item.State) != Open {
		return nil // Answer refuses it, or it is a repetition
	}
	if a.Proof == nil {
		needed, err := s.answerNeedsPasskey(ctx, item, a)
		if err != nil || !needed {
			return err
		}
		return fault.New(fault.Precondition, "proof is missing: a rule of the policy, or of the organisation for what is dangerous, takes a passkey to let this run").WithCode(fault.PermissionDenied).
			WithObject(item.ID).WithFix("approve it in the console, on a device with one of your passkeys")
	}
	evidence, err := s.cfg.Passkeys.Prove(ctx, a.Identity, a.Proof, Statement(item.ID, a.Verdict, a.ShownDigest, a.RequestDigest))
	a.evidence = &evidence
	return err
}
