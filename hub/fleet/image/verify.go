package image

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Nodes reach the registries, and the hub has the rules: a node reads the signatures of
// an image, and the hub verifies them before it has the image pulled, by the digest that
// it verified. The result is stored, and counts until the rule changes.

const (
	// keepVerified is for how long an image is not verified again by the same rule.
	keepVerified = 30 * 24 * time.Hour
	// maxSignatureRules bounds how many an organisation has.
	maxSignatureRules = 100
)

// SignatureRule returns the rule of a stored row.
func SignatureRule(row db.SignatureRule) signature.Rule {
	return signature.Rule{
		Pattern: row.Pattern, PublicKeys: row.PublicKeys, Issuer: row.Issuer, Identity: row.Identity, IdentityRegexp: row.IdentityRegexp,
		TrustedRoot: row.TrustedRoot,
	}
}

// ruleFor returns the rule that applies to a repository: of those that match, the most
// specific one. found is false if none matches.
func (i *Images) ruleFor(ctx context.Context, orgID, repository string) (rule signature.Rule, found bool, err error) {
	patterns := patternsOf(repository)
	rows, err := i.cfg.Store.SignatureRules(ctx, db.SignatureRulesParams{OrgID: orgID, Patterns: patterns})
	if err != nil {
		return signature.Rule{}, false, fmt.Errorf("load the signature rules for %s: %w", repository, err)
	}
	for _, pattern := range patterns {
		if at := slices.IndexFunc(rows, func(row db.SignatureRule) bool { return row.Pattern == pattern }); at >= 0 {
			return SignatureRule(rows[at]), true, nil
		}
	}
	return signature.Rule{}, false, nil
}

// patternsOf returns all patterns that match a repository, the most specific one first.
func patternsOf(repository string) []string {
	out := []string{repository}
	for at := strings.LastIndex(repository, "/"); at >= 0; at = strings.LastIndex(repository[:at], "/") {
		out = append(out, repository[:at]+"/*")
	}
	return out
}

// verify verifies the image of a request if a rule matches it, and returns the reference
// to pull: the one of the request, or the digest that was verified.
func (i *Images) verify(ctx context.Context, orgID string, link machine.Link, named imageref.Named, req *nodev1.PullImageRequest) (string, error) {
	rule, found, err := i.ruleFor(ctx, orgID, named.Name())
	if err != nil || !found {
		return req.GetReference(), err
	}
	asked, err := imageref.Pinned(req.GetReference())
	byDigest := err == nil
	if byDigest {
		if done, err := i.verified(ctx, orgID, rule, asked.Digest().String()); err != nil || done {
			return asked.String(), err
		}
	}
	res, err := link.Images().GetSignatures(ctx, &nodev1.GetSignaturesRequest{Reference: req.GetReference(), Logins: req.GetLogins(), Mirror: req.GetMirror()})
	if err := fault.FromGRPC(err); fault.Is(err, fault.Precondition) {
		return "", unreadable(rule, named, err)
	} else if err != nil {
		return "", err
	}
	pinned, err := imageref.Pinned(res.GetReference())
	if err != nil {
		return "", err
	}
	if pinned.Name() != named.Name() || byDigest && pinned.String() != asked.String() {
		return "", fault.New(fault.Internal, "the node returned the signatures of %s for image %s", pinned, req.GetReference())
	}
	if err := signature.Verify(rule, pinned.Digest().String(), res.GetSignatures()); err != nil {
		return "", refused(rule, pinned.String(), res, err)
	}
	if err := i.cfg.Store.PutVerifiedImage(ctx, db.PutVerifiedImageParams{OrgID: orgID, Digest: pinned.Digest().String(), Rule: rule.Fingerprint()}); err != nil {
		return "", fmt.Errorf("store that image %s is verified: %w", pinned, err)
	}
	return pinned.String(), nil
}

// verified reports whether an image is known to be signed as a rule asks.
func (i *Images) verified(ctx context.Context, orgID string, rule signature.Rule, digest string) (bool, error) {
	done, err := i.cfg.Store.IsVerifiedImage(ctx, db.IsVerifiedImageParams{
		OrgID: orgID, Digest: digest, Rule: rule.Fingerprint(), Since: time.Now().Add(-keepVerified),
	})
	if err != nil {
		return false, fmt.Errorf("look up whether image %s is verified: %w", digest, err)
	}
	return done, nil
}

// unreadable returns the error of an image whose signatures the node cannot read, also if
// it is tried again.
func unreadable(rule signature.Rule, named imageref.Named, err error) error {
	why := fault.As(err)
	return fault.New(fault.Denied, "image %s is not verified: the rule for %s asks for a signature by %s, and %s", named, rule.Pattern, rule.Signer(), why.Message).
		WithCode(fault.ImageUnavailable).WithObject(named.String()).WithFix("%s", why.Fix).WithCause(err)
}

// refused returns the error of an image that is not signed as a rule asks.
func refused(rule signature.Rule, reference string, res *nodev1.GetSignaturesResponse, found error) error {
	text := found.Error()
	if n := res.GetLeftOut(); n > 0 {
		text += fmt.Sprintf("; %d more were not read, because they are too many, too large or broken", n)
	}
	if why := res.GetIncomplete(); why != "" {
		text += "; others cannot be read: " + why
	}
	if res.GetRetryable() {
		return fault.New(fault.Unavailable, "not all signatures of image %s can be read now: the rule for %s asks for a signature by %s, and %s", reference, rule.Pattern, rule.Signer(), text).
			WithCode(fault.ImageUnavailable).WithObject(reference).WithFix("check that the node reaches the registry, and try again")
	}
	return fault.New(fault.Denied, "image %s is not signed as the organisation requires: the rule for %s asks for a signature by %s, and %s", reference, rule.Pattern, rule.Signer(), text).
		WithCode(fault.ImageUnavailable).WithObject(reference).
		WithFix("have the image signed, for example with cosign sign, or an administrator change the rule: deckhand registry verify list")
}

// RequireVerified returns an error if a rule asks for the signature of an image that is
// on a node, and the image was not verified by that rule.
func (i *Images) RequireVerified(ctx context.Context, orgID, reference string) error {
	named, err := imageref.Parse(reference)
	if err != nil {
		return err
	}
	rule, found, err := i.ruleFor(ctx, orgID, named.Name())
	if err != nil || !found {
		return err
	}
	pinned, err := imageref.Pinned(reference)
	if err != nil {
		return err
	}
	if done, err := i.verified(ctx, orgID, rule, pinned.Digest().String()); err != nil || done {
		return err
	}
	return fault.New(fault.Denied, "image %s was not verified by the organisation's rule for %s, which asks for a signature by %s", pinned, rule.Pattern, rule.Signer()).
		WithCode(fault.ImageUnavailable).WithObject(pinned.String()).
		WithFix("have it verified: deckhand node image pull NODE %s", pinned)
}

// refuseImport returns an error if a rule asks for the signature of an image that is to
// be imported.
func (i *Images) refuseImport(ctx context.Context, orgID string, named imageref.Named) error {
	rule, found, err := i.ruleFor(ctx, orgID, named.Name())
	if err != nil || !found {
		return err
	}
	return fault.New(fault.Denied, "image %s cannot be imported: the rule for %s asks for a signature by %s, and an archive has no signatures", named, rule.Pattern, rule.Signer()).
		WithCode(fault.ImageUnavailable).WithObject(named.String()).
		WithFix("have the node pull it from a registry that it reaches, import it under a name that no rule matches, or have an administrator change the rule: deckhand registry verify list")
}

// SetSignatureRule stores a rule. It replaces the rule with the same pattern. All images
// are verified again before their next pull.
func (i *Images) SetSignatureRule(ctx context.Context, orgID string, rule signature.Rule, by event.Actor) (db.SignatureRule, error) {
	if err := checkPattern("pattern", rule.Pattern); err != nil {
		return db.SignatureRule{}, err
	}
	if err := rule.Check(); err != nil {
		return db.SignatureRule{}, err
	}
	var row db.SignatureRule
	err := i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		before, err := tx.SignatureRules(ctx, db.SignatureRulesParams{OrgID: orgID, Patterns: []string{rule.Pattern}})
		if err != nil {
			return fmt.Errorf("load the signature rule for %s: %w", rule.Pattern, err)
		}
		if row, err = tx.PutSignatureRule(ctx, db.PutSignatureRuleParams{
			OrgID: orgID, Pattern: rule.Pattern, PublicKeys: rule.PublicKeys, Issuer: rule.Issuer, Identity: rule.Identity,
			IdentityRegexp: rule.IdentityRegexp, TrustedRoot: append([]byte{}, rule.TrustedRoot...), SetBy: by.ID,
		}); err != nil {
			return fmt.Errorf("store the signature rule for %s: %w", rule.Pattern, err)
		}
		n, err := tx.CountSignatureRules(ctx, orgID)
		if err != nil {
			return fmt.Errorf("count signature rules: %w", err)
		}
		if n > maxSignatureRules {
			return fault.New(fault.Exhausted, "the organisation has %d signature rules, which is as many as there can be", maxSignatureRules).
				WithFix("delete one: deckhand registry verify delete PATTERN")
		}
		if err := tx.DeleteVerifiedImages(ctx, orgID); err != nil {
			return fmt.Errorf("forget which images are verified: %w", err)
		}
		entry := audit.Entry{OrgID: orgID, By: by, Action: "signature_rule.set", ObjectKind: "signature_rule", ObjectID: rule.Pattern, After: recorded(rule)}
		if len(before) == 1 {
			entry.Before = recorded(SignatureRule(before[0]))
		}
		return audit.Append(tx, entry)
	})
	return row, err
}

// ListSignatureRules returns a page of an organisation's rules by pattern.
func (i *Images) ListSignatureRules(ctx context.Context, orgID, page string, size int32) ([]db.SignatureRule, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := i.cfg.Store.ListSignatureRules(ctx, db.ListSignatureRulesParams{OrgID: orgID, AfterPattern: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list signature rules: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.SignatureRule) string { return store.NameToken(last.Pattern, "") })
	return rows, next, nil
}

// DeleteSignatureRule deletes the rule with a pattern.
func (i *Images) DeleteSignatureRule(ctx context.Context, orgID, pattern string, by event.Actor) error {
	return i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.DeleteSignatureRule(ctx, db.DeleteSignatureRuleParams{OrgID: orgID, Pattern: pattern})
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "no signature rule has the pattern %q", pattern).WithFix("see: deckhand registry verify list")
		}
		if err != nil {
			return fmt.Errorf("delete the signature rule for %s: %w", pattern, err)
		}
		if err := tx.DeleteVerifiedImages(ctx, orgID); err != nil {
			return fmt.Errorf("forget which images are verified: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "signature_rule.deleted", ObjectKind: "signature_rule", ObjectID: pattern, Before: recorded(SignatureRule(row)),
		})
	})
}

// recorded returns what the audit has of a rule.
func recorded(rule signature.Rule) map[string]any {
	out := map[string]any{"pattern": rule.Pattern, "signer": rule.Signer()}
	if rule.PublicKeys != "" {
		out["public_keys"] = rule.PublicKeys
	}
	if len(rule.TrustedRoot) > 0 {
		out["trusted_root"] = rule.TrustedRootDigest()
	}
	return out
}
