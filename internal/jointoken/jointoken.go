// Package jointoken creates and parses join tokens: the single-use secrets with
// which a node enrols. A token is
//
//	dhj_<40 characters>.<32 hex digits>
//
// The part before the dot is the secret; the hub stores only its hash. The part
// after the dot is the beginning of the fingerprint of the hub's certificate
// authority, with which a node verifies the hub before it trusts its response.
package jointoken

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// kind begins every token.
const kind = "dhj"

// prefixLength is how many hex digits of the fingerprint a token contains: 128
// bits, for which no attacker can find a matching key.
const prefixLength = 32

var shape = regexp.MustCompile(`^(dhj_[0-9a-z]{40})\.([0-9a-f]{32})$`)

// Token is a join token taken apart. It is a secret: print Hash if anything.
type Token struct {
	secret   string
	caPrefix string
}

// New returns a fresh token for the hub whose CA has this fingerprint.
func New(caFingerprint string) Token {
	return Token{secret: ident.Secret(kind), caPrefix: caFingerprint[:prefixLength]}
}

// Parse takes a token apart. Its error does not repeat the token.
func Parse(s string) (Token, error) {
	parts := shape.FindStringSubmatch(strings.TrimSpace(s))
	if parts == nil {
		return Token{}, fault.New(fault.Invalid, "the join token is malformed").
			WithFix("copy it whole, as `deckhand node token` printed it: dhj_….…")
	}
	return Token{secret: parts[1], caPrefix: parts[2]}, nil
}

// Reveal returns the whole token, for the one who is to use it.
func (t Token) Reveal() string { return t.secret + "." + t.caPrefix }

// String hides the secret, so that no log shows it.
func (t Token) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (t Token) GoString() string { return t.String() }

// Hash is what the hub stores: the hash of the secret part.
func (t Token) Hash() []byte { return ident.Hash(t.secret) }

// Names reports whether the token was made by the hub whose CA has this
// fingerprint.
func (t Token) Names(caFingerprint string) bool {
	return strings.HasPrefix(caFingerprint, t.caPrefix)
}

// Fingerprint names a public key: the SHA-256, in hex, of its DER
// SubjectPublicKeyInfo (a certificate's RawSubjectPublicKeyInfo). It survives
// the renewal of the certificate.
func Fingerprint(subjectPublicKeyInfo []byte) string {
	sum := sha256.Sum256(subjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}
