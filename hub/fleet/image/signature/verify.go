// Package signature verifies the signatures of container images with sigstore's library
// (https://github.com/sigstore/sigstore-go). A Rule says who must have signed; Verify
// returns an error unless one of an image's signatures is by them.
//
// Signatures come from a registry by way of a node, so nothing in them is trusted. A
// signature counts if it is of the image's own digest, and if
//
//   - with a key, the key verifies it; or
//   - without a key, its certificate is from an authority of the rule's trusted root and
//     names the rule's issuer and identity, and it was made while the certificate was
//     valid: a transparency log of the trusted root has an entry of it or, if the root
//     has none, a timestamp authority of the root says so. If the root names logs of
//     certificates, the certificate must be in one of them.
//
// Two forms are read: the layers that cosign stores under the tag sha256-DIGEST.sig
// (https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md), and sigstore
// bundles with an in-toto statement of the type that cosign gives to signatures. Other
// statements, such as a list of what is in an image, are no signatures.
//
// Nothing is fetched: what verification needs is in the rule and in the signature.
package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	sigstore "github.com/sigstore/sigstore/pkg/signature"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// cosignType is the type of the in-toto statement that is a signature of an image.
const cosignType = "https://sigstore.dev/cosign/sign/v1"

// Verify returns nil if one of the signatures is of the image with a digest
// (sha256:HEX), by whom the rule asks for. Otherwise the error says what was found, one
// reason for each kind of signature.
func Verify(rule Rule, digest string, signatures []*nodev1.ImageSignature) error {
	v, err := newVerifier(rule, digest)
	if err != nil {
		return err
	}
	if len(signatures) == 0 {
		return errors.New("the registry has no signature of it")
	}
	var reasons []string
	for _, one := range signatures {
		err := v.verify(one)
		if err == nil {
			return nil
		}
		if reason := shown(err.Error()); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return errors.New(listed(reasons))
}

const (
	// maxReasons and maxReason bound what is shown of signatures, whose text anybody may
	// have chosen.
	maxReasons = 5
	maxReason  = 300
)

func shown(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

func listed(reasons []string) string {
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "; ")
}

// verifier verifies signatures of one image by one rule.
type verifier struct {
	rule   Rule
	digest string // sha256:HEX
	sum    []byte
	keys   []*verify.Verifier // for a rule with keys
	// For a rule with an identity:
	certified *verify.Verifier
	identity  verify.CertificateIdentity
	logged    bool // the trusted root has transparency logs
}

func newVerifier(rule Rule, digest string) (*verifier, error) {
	algorithm, sum, _ := strings.Cut(digest, ":")
	raw, err := hex.DecodeString(sum)
	if err != nil || algorithm != "sha256" || len(raw) != 32 {
		return nil, fmt.Errorf("the digest %q is not a SHA-256", digest)
	}
	v := &verifier{rule: rule, digest: digest, sum: raw}
	if rule.PublicKeys != "" {
		keys, err := rule.keys()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if err := v.addKey(key); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	trusted, err := rule.root()
	if err != nil {
		return nil, err
	}
	v.logged = len(trusted.RekorLogs()) > 0
	options := []verify.VerifierOption{verify.WithoutStatementPredicate()}
	if v.logged {
		options = append(options, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	} else {
		options = append(options, verify.WithSignedTimestamps(1))
	}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	if v.certified, err = verify.NewVerifier(trusted, options...); err != nil {
		return nil, fmt.Errorf("prepare the verification: %w", err)
	}
	expression := ""
	if rule.IdentityRegexp != "" {
		whole, err := wholeMatch(rule.IdentityRegexp)
		if err != nil {
			return nil, fmt.Errorf("read the identity: %w", err)
		}
		expression = whole.String()
	}
	if v.identity, err = verify.NewShortCertificateIdentity(rule.Issuer, "", rule.Identity, expression); err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	return v, nil
}

// addKey adds a key. Signatures by ECDSA keys on larger curves may be of a SHA-256, as
// cosign makes them, or of the hash that belongs to the curve.
func (v *verifier) addKey(key crypto.PublicKey) error {
	usual, err := sigstore.LoadDefaultVerifier(key)
	if err != nil {
		return fmt.Errorf("use key %s: %w", keyName(key), err)
	}
	all := []sigstore.Verifier{usual}
	if _, is := key.(*ecdsa.PublicKey); is {
		short, err := sigstore.LoadVerifier(key, crypto.SHA256)
		if err != nil {
			return fmt.Errorf("use key %s: %w", keyName(key), err)
		}
		all = append(all, short)
	}
	for _, one := range all {
		// Whatever key a signature names: this one is tried.
		material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(one, time.Time{}, time.Time{}), nil
		})
		verifier, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps(), verify.WithoutStatementPredicate())
		if err != nil {
			return fmt.Errorf("use key %s: %w", keyName(key), err)
		}
		v.keys = append(v.keys, verifier)
	}
	return nil
}

// verify returns an error, which is a clause about the signature, unless the signature is
// what the rule asks for.
func (v *verifier) verify(one *nodev1.ImageSignature) error {
	if simple := one.GetSimpleSigning(); simple != nil {
		entity, err := entityOf(simple)
		if err != nil {
			return fmt.Errorf("one is not valid: %w", err)
		}
		artifact := func() verify.ArtifactPolicyOption { return verify.WithArtifact(bytes.NewReader(simple.GetPayload())) }
		if _, err := v.check(entity, artifact, simple.GetPayload()); err != nil {
			return err
		}
		return v.names(simple.GetPayload())
	}
	entity := &bundle.Bundle{}
	if err := entity.UnmarshalJSON(one.GetBundle()); err != nil {
		return fmt.Errorf("one is not a valid bundle: %w", err)
	}
	statement, is := entity.GetContent().(*protobundle.Bundle_DsseEnvelope)
	if !is {
		return errors.New("one bundle has no statement about an image")
	}
	artifact := func() verify.ArtifactPolicyOption { return verify.WithArtifactDigest("sha256", v.sum) }
	result, err := v.check(entity, artifact, statement.DsseEnvelope.GetPayload())
	if err != nil {
		return err
	}
	if got := result.Statement.GetPredicateType(); got != cosignType {
		return fmt.Errorf("one is no signature but a statement of type %q", got)
	}
	return nil
}

// check verifies that somebody whom the rule asks for has signed. artifact returns what
// must have been signed, for one verification; signed is what the signature says of that.
func (v *verifier) check(entity *bundle.Bundle, artifact func() verify.ArtifactPolicyOption, signed []byte) (*verify.VerificationResult, error) {
	by, err := entity.VerificationContent()
	if err != nil {
		return nil, fmt.Errorf("one is not valid: %w", err)
	}
	leaf := by.Certificate()
	if v.certified == nil {
		if leaf != nil {
			return nil, fmt.Errorf("one is by %s and not by a key", holder(leaf))
		}
		return v.checkKeys(entity, artifact, signed)
	}
	if leaf == nil {
		return nil, errors.New("one is by a key and not by an identity")
	}
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return nil, fmt.Errorf("one has a certificate that names no identity: %w", err)
	}
	if err := v.identity.Verify(summary); err != nil {
		return nil, fmt.Errorf("one is by %s", holder(leaf))
	}
	if entries, err := entity.TlogEntries(); v.logged && err == nil && len(entries) == 0 {
		return nil, fmt.Errorf("one by %s has no entry in a transparency log", holder(leaf))
	}
	result, err := v.certified.Verify(entity, verify.NewPolicy(artifact(), verify.WithCertificateIdentity(v.identity)))
	if err == nil {
		return result, nil
	}
	if v.ofAnother(signed) {
		return nil, fmt.Errorf("one by %s is of another image", holder(leaf))
	}
	return nil, fmt.Errorf("one by %s is not valid by the trusted root: %w", holder(leaf), err)
}

// checkKeys verifies a signature with each of the rule's keys.
func (v *verifier) checkKeys(entity *bundle.Bundle, artifact func() verify.ArtifactPolicyOption, signed []byte) (*verify.VerificationResult, error) {
	for _, key := range v.keys {
		if result, err := key.Verify(entity, verify.NewPolicy(artifact(), verify.WithKey())); err == nil {
			return result, nil
		}
	}
	if v.ofAnother(signed) {
		return nil, errors.New("one is of another image")
	}
	return nil, errors.New("one is by another key, or was changed")
}

// names returns an error unless a payload of cosign names the image.
func (v *verifier) names(payload []byte) error {
	var is simplePayload
	if err := json.Unmarshal(payload, &is); err != nil {
		return fmt.Errorf("one has a payload that cannot be read: %w", err)
	}
	if !slices.Contains([]string{"cosign container image signature", "atomic container signature", cosignType}, is.Critical.Type) {
		return fmt.Errorf("one is no signature of an image but of type %q", is.Critical.Type)
	}
	if is.Critical.Image.Digest != v.digest {
		return fmt.Errorf("one is of another image, %s", is.Critical.Image.Digest)
	}
	return nil
}

// ofAnother reports whether what was signed does not name the image, for the text of an
// error.
func (v *verifier) ofAnother(signed []byte) bool {
	return !bytes.Contains(signed, []byte(hex.EncodeToString(v.sum)))
}

// holder describes whom a certificate names, in its own words: it may be anybody's.
func holder(leaf *x509.Certificate) string {
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return "somebody whose certificate names no identity"
	}
	return fmt.Sprintf("%q of %q", summary.SubjectAlternativeName, summary.Issuer)
}
