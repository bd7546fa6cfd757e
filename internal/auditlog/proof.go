package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// registered is a passkey as the entry of its registration has it.
type registered struct{ digest, userID string }

// passkeyCreated is the action of a registration.
const passkeyCreated = "passkey.created"

// proof verifies the signature that an entry's decision was proved with, if there is one:
// that it is of a passkey, about this entry and by its actor. Where the passkey's
// registration is in the export, before the entry, the key must be that one.
func (v *verifier) proof(line []byte) (why string) {
	if !bytes.Contains(line, []byte(`"proof":`)) && !bytes.Contains(line, []byte(`"`+passkeyCreated+`"`)) {
		return ""
	}
	var entry Entry
	var after struct {
		Proof     *passkeyproof.Evidence `json:"proof"`
		KeySHA256 string                 `json:"key_sha256"`
		UserID    string                 `json:"user_id"`
	}
	if json.Unmarshal(line, &entry) != nil || json.Unmarshal(entry.After, &after) != nil {
		return "" // entries of other actions have what they like there
	}
	if after.Proof != nil {
		if why := v.proved(entry, *after.Proof); why != "" {
			return why
		}
		v.report.Proofs++
	}
	if entry.Action == passkeyCreated {
		if v.keys == nil {
			v.keys = map[string]registered{}
		}
		v.keys[entry.ObjectID] = registered{after.KeySHA256, after.UserID}
	}
	return ""
}

func (v *verifier) proved(entry Entry, proof passkeyproof.Evidence) (why string) {
	statement, digest, err := proof.Verify()
	if err != nil {
		return fmt.Sprintf("its proof by a passkey is not good: %s", err)
	}
	object := entry.ObjectID
	if entry.Action == passkeyCreated {
		object = "" // it has an id only afterwards
	}
	var before struct {
		ShownDigest string `json:"shown_digest"`
	}
	_ = json.Unmarshal(entry.Before, &before) // entries without one have no digest
	switch {
	case statement.Organisation != v.header.Organisation || statement.Action != entry.Action || statement.Object != object || statement.ShownDigest != before.ShownDigest:
		return "its proof by a passkey is about something else"
	case statement.User != entry.ActorID:
		return "its proof is by another user's passkey"
	}
	if key, known := v.keys[proof.Passkey]; known && (key.digest != digest || key.userID != statement.UserID) {
		return "its proof is by another key than the passkey was registered with"
	}
	return ""
}
