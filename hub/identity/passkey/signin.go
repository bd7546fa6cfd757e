package passkey

import (
	"encoding/hex"
	"time"

	"github.com/go-webauthn/webauthn/protocol"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// inSession refuses calls with API tokens: who has stolen one has no passkey made or
// removed with it.
func inSession(id auth.Identity) error {
	if id.SessionID != "" {
		return nil
	}
	return fault.New(fault.Denied, "an API token registers and removes no passkeys").WithCode(fault.PermissionDenied).
		WithFix("log in to the console, and do it there: Settings, Passkeys")
}

// signedIn refuses a session whose user has not proved who they are within lasts. It is
// asked of those without a passkey only: with one, a password is worth no more than to log
// in.
func signedIn(id auth.Identity, lasts time.Duration) error {
	if id.SignedIn(lasts) {
		return nil
	}
	return fault.New(fault.Precondition, "this takes a passkey, or a sign-in of the last %d minutes: a session made from an API token does not count", int(auth.SignInLasts.Minutes())).
		WithCode(fault.PermissionDenied).
		WithFix("log in again with your password or your identity provider, or with the link that `sudo deckhand open` prints on the hub's machine, and then do it")
}

// RegistrationStatement is what the registration of a passkey proves, where the user has
// another one: it names the key. credential is what the browser made.
func RegistrationStatement(credential string) (passkeyproof.Statement, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(credential))
	if err != nil {
		return passkeyproof.Statement{}, refused("registration_credential_json", err)
	}
	key := parsed.Response.AttestationObject.AuthData.AttData
	return registration(key.CredentialID, key.CredentialPublicKey), nil
}

func registration(credentialID, publicKey []byte) passkeyproof.Statement {
	return passkeyproof.Statement{Action: ActionCreated, CredentialID: hex.EncodeToString(credentialID), KeySHA256: passkeyproof.KeyDigest(publicKey)}
}
