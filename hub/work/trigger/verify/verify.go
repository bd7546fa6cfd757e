// Package verify verifies that a webhook was sent by a holder of its secret. A Rule
// checks the raw bytes of the body, compares in constant time, and fails closed: what is
// missing, repeated or not understood is not verified.
//
// Sources of the schemes: GitHub "Validating webhook deliveries", GitLab "Webhooks:
// secret token", standardwebhooks.com, Slack "Verifying requests from Slack", Atlassian
// "Securing webhooks", Stripe "Verify webhook signatures manually".
package verify

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some senders know no other
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scheme is how a sender proves itself.
type Scheme string

// The schemes.
const (
	// Token is a secret in the URL (?token=) or in X-Deckhand-Token.
	Token Scheme = "token"
	// GitHub signs in X-Hub-Signature-256.
	GitHub Scheme = "github"
	// GitLab sends its secret in X-Gitlab-Token.
	GitLab Scheme = "gitlab"
	// Standard is standardwebhooks.com: Webhook-Id, -Timestamp and -Signature.
	Standard Scheme = "standard"
	// Slack signs in X-Slack-Signature, version v0.
	Slack Scheme = "slack"
	// Jira signs in X-Hub-Signature.
	Jira Scheme = "jira"
	// Stripe signs in Stripe-Signature.
	Stripe Scheme = "stripe"
	// HMAC signs the body in a header that the rule names.
	HMAC Scheme = "hmac"
)

// DefaultTolerance is how old what was signed with a time may be.
const DefaultTolerance = 5 * time.Minute

// Rule is what a webhook asks of its senders.
type Rule struct {
	Scheme Scheme
	// Header, Prefix, Encoding (hex or base64) and Hash (sha256, sha1 or sha512)
	// are for HMAC; empty for X-Signature, none, hex and sha256.
	Header, Prefix, Encoding, Hash string
	// Tolerance is how far a signed time may be from now, either way; 0 for
	// DefaultTolerance.
	Tolerance time.Duration
}

// Request is what was sent.
type Request struct {
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Errors. None reveals what would have been right.
var (
	// ErrMissing: the signature is missing, or there is more than one.
	ErrMissing = errors.New("the signature is missing")
	// ErrWrong: no secret fits.
	ErrWrong = errors.New("the signature is wrong")
	// ErrOld: it was signed too long ago, or for later.
	ErrOld = errors.New("the signature is too old, or of the future")
)

// Check returns nil if the request was sent by a holder of one of the secrets. An empty
// secret matches nothing.
func (r Rule) Check(req Request, now time.Time, secrets ...string) error {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "" })
	switch r.Scheme {
	case Token:
		given := append(slices.Clone(req.Query["token"]), req.Header.Values("X-Deckhand-Token")...)
		return plain(given, secrets)
	case GitLab:
		return plain(req.Header.Values("X-Gitlab-Token"), secrets)
	case GitHub:
		return signed(req.Header.Values("X-Hub-Signature-256"), "sha256=", hex.DecodeString, sha256.New, secrets, req.Body)
	case Jira:
		return signed(req.Header.Values("X-Hub-Signature"), "sha256=", hex.DecodeString, sha256.New, secrets, req.Body)
	case HMAC:
		return r.hmac(req, secrets)
	case Standard:
		return r.standard(req, now, secrets)
	case Slack:
		return r.slack(req, now, secrets)
	case Stripe:
		return r.stripe(req, now, secrets)
	}
	return fmt.Errorf("there is no scheme %q", r.Scheme)
}

// only returns the one value that there must be.
func only(values []string) (string, error) {
	if len(values) != 1 || values[0] == "" {
		return "", ErrMissing
	}
	return values[0], nil
}

// plain compares a secret that is sent as it is.
func plain(given, secrets []string) error {
	value, err := only(given)
	if err != nil {
		return err
	}
	fits := 0
	for _, s := range secrets {
		// The hashes have the same length: comparing them reveals nothing of the
		// secret's.
		a, b := sha256.Sum256([]byte(value)), sha256.Sum256([]byte(s))
		fits |= subtle.ConstantTimeCompare(a[:], b[:])
	}
	if fits != 1 {
		return ErrWrong
	}
	return nil
}

// mac returns the HMAC of the parts, one after the other.
func mac(h func() hash.Hash, secret []byte, parts ...[]byte) []byte {
	m := hmac.New(h, secret)
	for _, p := range parts {
		_, _ = m.Write(p) // never fails
	}
	return m.Sum(nil)
}

// anyFits reports whether one of the signatures was made with one of the secrets.
func anyFits(h func() hash.Hash, signatures [][]byte, secrets []string, parts ...[]byte) error {
	fits := false
	for _, s := range secrets {
		want := mac(h, []byte(s), parts...)
		for _, got := range signatures {
			if hmac.Equal(got, want) {
				fits = true
			}
		}
	}
	if !fits {
		return ErrWrong
	}
	return nil
}

func signed(values []string, prefix string, decode func(string) ([]byte, error), h func() hash.Hash, secrets []string, parts ...[]byte) error {
	value, err := only(values)
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return ErrWrong
	}
	signature, err := decode(rest)
	if err != nil {
		return ErrWrong
	}
	return anyFits(h, [][]byte{signature}, secrets, parts...)
}

// header is where HMAC has its signature.
func (r Rule) header() string {
	if r.Header == "" {
		return "X-Signature"
	}
	return textproto.CanonicalMIMEHeaderKey(r.Header)
}

func (r Rule) hmac(req Request, secrets []string) error {
	decode, h := hex.DecodeString, sha256.New
	if r.Encoding == "base64" {
		decode = base64.StdEncoding.DecodeString
	}
	switch r.Hash {
	case "sha1":
		h = sha1.New
	case "sha512":
		h = sha512.New
	}
	return signed(req.Header.Values(r.header()), r.Prefix, decode, h, secrets, req.Body)
}

// fresh reads a time in seconds and refuses what is too far from now.
func (r Rule) fresh(text string, now time.Time) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return ErrWrong
	}
	tolerance := r.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return ErrOld
	}
	return nil
}

// Signature is the Standard Webhooks signature of a message; the secret is the
// base64 text after whsec_.
func Signature(secret, id, timestamp string, body []byte) (string, error) {
	key, err := StandardKey(secret)
	if err != nil {
		return "", err
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, key, []byte(id+"."+timestamp+"."), body)), nil
}

// StandardKey returns the key that a Standard Webhooks secret encodes.
func StandardKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("a secret of Standard Webhooks is whsec_ and base64")
	}
	return key, nil
}

func (r Rule) standard(req Request, now time.Time, secrets []string) error {
	id, err1 := only(req.Header.Values("Webhook-Id"))
	at, err2 := only(req.Header.Values("Webhook-Timestamp"))
	list, err3 := only(req.Header.Values("Webhook-Signature"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return ErrMissing
	}
	var signatures [][]byte
	for _, one := range strings.Fields(list) {
		version, text, _ := strings.Cut(one, ",")
		if signature, err := base64.StdEncoding.DecodeString(text); version == "v1" && err == nil {
			signatures = append(signatures, signature)
		}
	}
	var keys []string
	for _, s := range secrets {
		if key, err := StandardKey(s); err == nil {
			keys = append(keys, string(key))
		}
	}
	if err := anyFits(sha256.New, signatures, keys, []byte(id+"."+at+"."), req.Body); err != nil {
		return err
	}
	return r.fresh(at, now)
}

func (r Rule) slack(req Request, now time.Time, secrets []string) error {
	at, err := only(req.Header.Values("X-Slack-Request-Timestamp"))
	if err != nil {
		return err
	}
	if err := signed(req.Header.Values("X-Slack-Signature"), "v0=", hex.DecodeString, sha256.New, secrets, []byte("v0:"+at+":"), req.Body); err != nil {
		return err
	}
	return r.fresh(at, now)
}

func (r Rule) stripe(req Request, now time.Time, secrets []string) error {
	list, err := only(req.Header.Values("Stripe-Signature"))
	if err != nil {
		return err
	}
	var at []string
	var signatures [][]byte
	for part := range strings.SplitSeq(list, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			at = append(at, value)
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	when, err := only(at)
	if err != nil {
		return err
	}
	if err := anyFits(sha256.New, signatures, secrets, []byte(when+"."), req.Body); err != nil {
		return err
	}
	return r.fresh(when, now)
}
