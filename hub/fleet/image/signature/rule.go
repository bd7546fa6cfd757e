package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Rule says who must have signed the images of some repositories: the owner of a key, or
// an identity that an authority of a trusted root has certified.
type Rule struct {
	// Pattern names the repositories. Verify does not read it.
	Pattern string
	// PublicKeys are keys in PEM, of which one must have signed. With keys, the fields
	// below are empty.
	PublicKeys string
	// Issuer is where the identity logged in: the URL of an OpenID Connect provider.
	Issuer string
	// Identity is a mail address or a URI; IdentityRegexp is an expression that must match
	// all of it. One of them is set.
	Identity, IdentityRegexp string
	// TrustedRoot is sigstore's TrustedRoot in JSON: the authorities that certify
	// identities, and the logs and timestamp authorities that say when.
	TrustedRoot []byte
}

const (
	// maxKeys bounds the keys of one rule.
	maxKeys = 10
	// maxRSABits bounds the work of one verification.
	maxRSABits = 8192
)

// Check returns an error that says what is wrong with a rule, and how to write it.
func (r Rule) Check() error {
	if r.PublicKeys != "" {
		if r.Issuer+r.Identity+r.IdentityRegexp != "" || len(r.TrustedRoot) > 0 {
			return fault.New(fault.Invalid, "the rule has public_keys and an identity").WithFix("give either public_keys, or issuer, identity and trusted_root")
		}
		_, err := r.keys()
		return err
	}
	switch {
	case r.Issuer == "" && r.Identity == "" && r.IdentityRegexp == "" && len(r.TrustedRoot) == 0:
		return fault.New(fault.Invalid, "the rule names nobody who must have signed").WithFix("give public_keys, or issuer, identity and trusted_root")
	case r.Issuer == "":
		return fault.New(fault.Invalid, "issuer is missing").WithFix("give the URL at which the identity logs in, such as https://token.actions.githubusercontent.com")
	case (r.Identity == "") == (r.IdentityRegexp == ""):
		return fault.New(fault.Invalid, "the rule needs either identity or identity_regexp").
			WithFix("give one: a mail address, the URI of a workflow, or an expression that matches all of it")
	case len(r.TrustedRoot) == 0:
		return fault.New(fault.Invalid, "trusted_root is missing").
			WithFix("give the trusted_root.json of the sigstore instance that certifies the identity; for the public one, cosign trusted-root create writes it")
	}
	if _, err := wholeMatch(r.IdentityRegexp); err != nil {
		return fault.New(fault.Invalid, "identity_regexp is not a regular expression: %s", err).WithFix("write it as Go's package regexp reads it; dots are escaped as \\.")
	}
	_, err := r.root()
	return err
}

// wholeMatch returns an expression that must match a whole text.
func wholeMatch(expression string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// keys returns the rule's public keys.
func (r Rule) keys() ([]crypto.PublicKey, error) {
	invalid := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "public_keys "+format, args...).
			WithFix("give public keys in PEM, as cosign.pub has one: ECDSA, Ed25519, or RSA with at least 2048 bits")
	}
	var out []crypto.PublicKey
	for rest := []byte(r.PublicKeys); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if strings.TrimSpace(string(rest)) != "" {
				return nil, invalid("has text that is not PEM")
			}
			break
		}
		if block.Type != "PUBLIC KEY" {
			return nil, invalid("has a block %q", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, invalid("has a key that cannot be read: %s", err)
		}
		if !secure(key) {
			return nil, invalid("has a key that is not secure")
		}
		out = append(out, key)
	}
	if len(out) == 0 || len(out) > maxKeys {
		return nil, invalid("has %d keys, and a rule has 1 to %d", len(out), maxKeys)
	}
	return out, nil
}

// secure reports whether a key is of a kind and length that is used for signatures.
func secure(key crypto.PublicKey) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize >= 256
	case *rsa.PublicKey:
		return key.N.BitLen() >= 2048 && key.N.BitLen() <= maxRSABits
	case ed25519.PublicKey:
		return true
	}
	return false
}

// root returns the rule's trusted root.
func (r Rule) root() (*root.TrustedRoot, error) {
	invalid := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "trusted_root "+format, args...).
			WithFix("give the trusted_root.json of the sigstore instance that certifies the identity; for the public one, cosign trusted-root create writes it")
	}
	trusted, err := root.NewTrustedRootFromJSON(r.TrustedRoot)
	switch {
	case err != nil:
		return nil, invalid("cannot be read: %s", err)
	case len(trusted.FulcioCertificateAuthorities()) == 0:
		return nil, invalid("has no certificate authority")
	case len(trusted.RekorLogs()) == 0 && len(trusted.TimestampingAuthorities()) == 0:
		return nil, invalid("has neither a transparency log nor a timestamp authority, so that nothing says when an image was signed")
	}
	return trusted, nil
}

// Fingerprint is different for rules that may decide differently.
func (r Rule) Fingerprint() []byte {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and bytes only
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// Signer describes who must have signed.
func (r Rule) Signer() string {
	switch {
	case r.PublicKeys != "":
		keys, err := r.keys()
		if err != nil {
			return "a key that cannot be read"
		}
		names := make([]string, len(keys))
		for i, key := range keys {
			names[i] = keyName(key)
		}
		return "key " + strings.Join(names, " or ")
	case r.Identity != "":
		return fmt.Sprintf("%s of %s", r.Identity, r.Issuer)
	}
	return fmt.Sprintf("an identity like %s of %s", r.IdentityRegexp, r.Issuer)
}

// keyName returns the beginning of the SHA-256 of a public key's DER form.
func keyName(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// TrustedRootDigest returns the SHA-256 of the rule's trusted root; "" if it has none.
func (r Rule) TrustedRootDigest() string {
	if len(r.TrustedRoot) == 0 {
		return ""
	}
	sum := sha256.Sum256(r.TrustedRoot)
	return "sha256:" + hex.EncodeToString(sum[:])
}
