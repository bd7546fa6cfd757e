// Package passkeyproof defines what a person signs with a passkey when they decide
// something, and verifies it without a hub. A Statement says what is decided; the
// challenge that the authenticator signs is its SHA-256, so that the signature is good
// for that decision only. Evidence is what the audit entry of the decision keeps.
package passkeyproof

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// version is that of the statement's format.
const version = 1

// Statement is what somebody decides.
type Statement struct {
	Version      int    `json:"deckhand_passkey"`
	Organisation string `json:"organisation"`
	// User is the name of who decides, and UserID the user's id.
	User   string `json:"user"`
	UserID string `json:"user_id"`
	// Action and Object are those of the audit entry.
	Action string `json:"action"`
	Object string `json:"object"`
	// CredentialID, in hexadecimal, and KeySHA256 name the key that a registration is of;
	// empty for other decisions.
	CredentialID string `json:"credential_id,omitempty"`
	KeySHA256    string `json:"key_sha256,omitempty"`
	// ShownDigest is the digest of what the person was shown; empty if nothing can change.
	ShownDigest string `json:"shown_digest"`
	// RequestDigest is the SHA-256 of the whole request in hexadecimal, with edited
	// arguments and reason.
	RequestDigest string `json:"request_digest"`
	// Nonce makes each challenge another one.
	Nonce string `json:"nonce"`
}

// Encode returns a statement's bytes.
func (s Statement) Encode() ([]byte, error) {
	s.Version = version
	return json.Marshal(s)
}

// Challenge returns what an authenticator signs for a statement's bytes.
func Challenge(statement []byte) []byte {
	sum := sha256.Sum256(statement)
	return sum[:]
}

// Evidence is a statement with its signature. Bytes are in hexadecimal, which never looks
// like a secret to what masks secrets.
type Evidence struct {
	Statement string `json:"statement"`
	// RelyingParty is the host that the passkey belongs to.
	RelyingParty      string `json:"relying_party"`
	AuthenticatorData string `json:"authenticator_data"`
	ClientData        string `json:"client_data"`
	Signature         string `json:"signature"`
	// PublicKey is in COSE.
	PublicKey string `json:"public_key"`
	Passkey   string `json:"passkey"`
}

// NewEvidence returns the evidence of what an authenticator has signed.
func NewEvidence(statement, relyingParty, passkey string, authenticatorData, clientData, signature, publicKey []byte) Evidence {
	return Evidence{
		Statement: statement, RelyingParty: relyingParty, Passkey: passkey, AuthenticatorData: hex.EncodeToString(authenticatorData),
		ClientData: hex.EncodeToString(clientData), Signature: hex.EncodeToString(signature), PublicKey: hex.EncodeToString(publicKey),
	}
}

// Map returns evidence for an audit entry.
func (e Evidence) Map() map[string]any {
	return map[string]any{
		"statement": e.Statement, "relying_party": e.RelyingParty, "passkey": e.Passkey, "authenticator_data": e.AuthenticatorData,
		"client_data": e.ClientData, "signature": e.Signature, "public_key": e.PublicKey,
	}
}

// KeyDigest returns the SHA-256 of a public key in hexadecimal.
func KeyDigest(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}

// The flags of authenticator data: somebody was there, and was verified by a PIN, a finger
// or a face (WebAuthn level 3, section 6.1).
const (
	userPresent  = 0x01
	userVerified = 0x04
	flagsAt      = sha256.Size
	leastData    = sha256.Size + 5
)

// Verify returns what was signed, and the digest of the key, if the signature is of it.
func (e Evidence) Verify() (Statement, string, error) {
	var s Statement
	fields := map[string][]byte{}
	for name, text := range map[string]string{"authenticator_data": e.AuthenticatorData, "client_data": e.ClientData, "signature": e.Signature, "public_key": e.PublicKey} {
		data, err := hex.DecodeString(text)
		if err != nil || len(data) == 0 {
			return s, "", fmt.Errorf("%s is not hexadecimal", name)
		}
		fields[name] = data
	}
	if err := json.Unmarshal([]byte(e.Statement), &s); err != nil || s.Version != version {
		return s, "", errors.New("the statement is not of this version")
	}
	var client struct{ Type, Challenge string }
	if err := json.Unmarshal(fields["client_data"], &client); err != nil || client.Type != "webauthn.get" {
		return s, "", errors.New("the client data is not of a login or proof")
	}
	if client.Challenge != base64.RawURLEncoding.EncodeToString(Challenge([]byte(e.Statement))) {
		return s, "", errors.New("the passkey signed another statement")
	}
	data := fields["authenticator_data"]
	host := sha256.Sum256([]byte(e.RelyingParty))
	switch {
	case len(data) < leastData || !bytes.Equal(data[:flagsAt], host[:]):
		return s, "", errors.New("the passkey belongs to another host")
	case data[flagsAt]&userPresent == 0 || data[flagsAt]&userVerified == 0:
		return s, "", errors.New("the authenticator did not verify a person")
	}
	key, err := webauthncose.ParsePublicKey(fields["public_key"])
	if err != nil {
		return s, "", fmt.Errorf("read the public key: %w", err)
	}
	sum := sha256.Sum256(fields["client_data"])
	good, err := webauthncose.VerifySignature(key, append(bytes.Clone(data), sum[:]...), fields["signature"])
	if err != nil || !good {
		return s, "", errors.New("the signature is not of the passkey")
	}
	return s, KeyDigest(fields["public_key"]), nil
}
