package inbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/policy"
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

// NeedsPasskey reports whether letting an item's call run, or accepting a review, takes a
// passkey: something dangerous was recognised in a call that would be made, and the
// organisation asks for one.
func (s *Service) NeedsPasskey(ctx context.Context, item db.InboxItem) (bool, error) {
	if State(item.State) != Open || s.cfg.Passkeys == nil {
		return false, nil
	}
	var dangerous bool
	var err error
	switch Kind(item.Kind) {
	case Approval, Unknown:
		var d CallDecision
		d, err = DecisionOf(item)
		dangerous = len(d.Dangers) > 0
	case Review:
		dangerous, err = s.defersDanger(ctx, item)
	}
	if err != nil || !dangerous {
		return false, err
	}
	return s.cfg.Passkeys.DangerousApprovals(ctx, item.OrgID)
}

// defersDanger reports whether something dangerous is recognised in a deferred call of a
// reviewed task: accepting the review makes it.
func (s *Service) defersDanger(ctx context.Context, item db.InboxItem) (bool, error) {
	steps, err := s.cfg.Store.DeferredSteps(ctx, db.DeferredStepsParams{OrgID: item.OrgID, TaskID: item.TaskID})
	if err != nil {
		return false, fmt.Errorf("find the deferred calls of %s: %w", item.TaskID, err)
	}
	for _, step := range steps {
		var decided policy.Decision
		if err := json.Unmarshal(step.Decision, &decided); err != nil {
			return false, fmt.Errorf("read the decision about step %s: %w", step.ID, err)
		}
		if len(decided.Dangers) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// editNeedsPasskey is NeedsPasskey for an approval with other arguments: those are what is
// executed, so they are judged whatever was asked about.
func (s *Service) editNeedsPasskey(ctx context.Context, item db.InboxItem, argumentsJSON string) (bool, error) {
	if s.cfg.Passkeys == nil || Kind(item.Kind) != Approval {
		return false, nil // answerable refuses it
	}
	asked, err := s.cfg.Passkeys.DangerousApprovals(ctx, item.OrgID)
	if err != nil || !asked {
		return false, err
	}
	judged, err := s.Judge(ctx, item, argumentsJSON)
	return len(judged.Decision.Dangers) > 0, err
}

// prove verifies the passkey of a decision on an open item, where one is needed or given.
// Edited arguments need one if they are dangerous, or if those were that they replace.
func (s *Service) prove(ctx context.Context, item db.InboxItem, a *Answer) error {
	if State(item.State) != Open {
		return nil // Answer refuses it, or it is a repetition
	}
	needed := false
	if a.Verdict == Approve || a.Verdict == Retry || a.Verdict == Accept {
		var err error
		if needed, err = s.NeedsPasskey(ctx, item); err != nil {
			return err
		}
	}
	if !needed && a.Verdict == Approve && a.ArgumentsJSON != "" {
		var err error
		if needed, err = s.editNeedsPasskey(ctx, item, a.ArgumentsJSON); err != nil {
			return err
		}
	}
	if !needed && a.Proof == nil {
		return nil
	}
	if a.Proof == nil {
		return fault.New(fault.Precondition, "proof is missing: approving what is dangerous takes a passkey in this organisation").WithCode(fault.PermissionDenied).
			WithObject(item.ID).WithFix("approve it in the console, on a device with one of your passkeys")
	}
	evidence, err := s.cfg.Passkeys.Prove(ctx, a.Identity, a.Proof, Statement(item.ID, a.Verdict, a.ShownDigest, a.RequestDigest))
	a.evidence = &evidence
	return err
}
