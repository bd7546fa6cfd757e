package auditlog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// registered is a passkey as the entry of its registration has it.
type registered struct{ digest, userID string }

// created is what the entry of an action that was proved, or of a registration, has.
type created struct {
	Proof        *passkeyproof.Evidence `json:"proof"`
	UserID       string                 `json:"user_id"`
	CredentialID string                 `json:"credential_id"`
	PublicKey    string                 `json:"public_key"`
	KeySHA256    string                 `json:"key_sha256"`
}

// passkeyCreated is the action of a registration.
const passkeyCreated = "passkey.created"

// proof verifies the signature that an entry's decision was proved with, if there is one:
// that it is of a passkey, about this entry and by its actor. Where the passkey's
// registration is in the export, before the entry, the key must be that one; in an export
// from the beginning, the registration must be there. A registration names its key, and so
// does its proof.
func (v *verifier) proof(line []byte) (why string) {
	if !bytes.Contains(line, []byte(`"proof":`)) && !bytes.Contains(line, []byte(`"`+passkeyCreated+`"`)) {
		return ""
	}
	var entry Entry
	var after created
	if json.Unmarshal(line, &entry) != nil || json.Unmarshal(entry.After, &after) != nil {
		return "" // entries of other actions have what they like there
	}
	if after.Proof != nil {
		if why := v.proved(entry, after); why != "" {
			return why
		}
		v.report.Proofs++
	}
	if entry.Action == passkeyCreated {
		key, err := hex.DecodeString(after.PublicKey)
		if err != nil || after.CredentialID == "" || after.UserID == "" || passkeyproof.KeyDigest(key) != after.KeySHA256 {
			return "it registers a passkey, and does not name its key"
		}
		v.report.Passkeys = append(v.report.Passkeys, Passkey{
			ID: entry.ObjectID, User: entry.ActorID, UserID: after.UserID, KeySHA256: after.KeySHA256, Position: v.position + 1, Proved: after.Proof != nil,
		})
		if v.keys == nil {
			v.keys = map[string]registered{}
		}
		v.keys[entry.ObjectID] = registered{after.KeySHA256, after.UserID}
	}
	return ""
}

func (v *verifier) proved(entry Entry, after created) (why string) {
	proof := *after.Proof
	statement, digest, err := proof.Verify()
	if err != nil {
		return fmt.Sprintf("its proof by a passkey is not good: %s", err)
	}
	object, credential, key := entry.ObjectID, "", ""
	if entry.Action == passkeyCreated {
		// It has an id only afterwards, and is known by its key.
		object, credential, key = "", after.CredentialID, after.KeySHA256
	}
	var before struct {
		ShownDigest string `json:"shown_digest"`
	}
	_ = json.Unmarshal(entry.Before, &before) // entries without one have no digest
	switch {
	case statement.Organisation != v.header.Organisation || statement.Action != entry.Action || statement.Object != object || statement.ShownDigest != before.ShownDigest:
		return "its proof by a passkey is about something else"
	case statement.CredentialID != credential || statement.KeySHA256 != key:
		return "its proof by a passkey is about another key"
	case statement.User != entry.ActorID:
		return "its proof is by another user's passkey"
	}
	switch by, known := v.keys[proof.Passkey]; {
	case !known && v.header.Position == 0:
		return "its proof is by a passkey that was never registered"
	case known && (by.digest != digest || by.userID != statement.UserID):
		return "its proof is by another key than the passkey was registered with"
	}
	return ""
}
