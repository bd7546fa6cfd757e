package hub_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const passkeyOrigin = "http://localhost:7800"

// authenticator is one in software that holds one passkey (WebAuthn level 3, 6.1 and 6.5).
type authenticator struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	id     []byte
	handle []byte
	origin string
	// unverified leaves out that it has verified its user.
	unverified bool
	count      uint32
}

func newAuthenticator(t *testing.T) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	id := make([]byte, 32)
	_, err = rand.Read(id)
	require.NoError(t, err)
	return &authenticator{t: t, key: key, id: id, origin: passkeyOrigin}
}

var b64 = base64.RawURLEncoding

func (a *authenticator) data(attested []byte) []byte {
	host := sha256.Sum256([]byte("localhost"))
	flags := byte(0x01)
	if !a.unverified {
		flags |= 0x04
	}
	if attested != nil {
		flags |= 0x40
	}
	a.count++
	out := binary.BigEndian.AppendUint32(append(host[:], flags), a.count)
	return append(out, attested...)
}

func (a *authenticator) client(kind, challenge string) []byte {
	data, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.origin, "crossOrigin": false})
	require.NoError(a.t, err)
	return data
}

// create makes the passkey that the options of a registration ask for.
func (a *authenticator) create(options string) string {
	var o struct {
		Challenge string
		RP        struct{ ID string }
		User      struct{ ID string }
	}
	require.NoError(a.t, json.Unmarshal([]byte(options), &o))
	require.Equal(a.t, "localhost", o.RP.ID)
	var err error
	a.handle, err = b64.DecodeString(o.User.ID)
	require.NoError(a.t, err)
	point, err := a.key.PublicKey.Bytes()
	require.NoError(a.t, err)
	mode, err := cbor.CTAP2EncOptions().EncMode()
	require.NoError(a.t, err)
	cose, err := mode.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	require.NoError(a.t, err)
	attested := append(make([]byte, 16), binary.BigEndian.AppendUint16(nil, uint16(len(a.id)))...) //nolint:gosec // 32
	attested = append(append(attested, a.id...), cose...)
	object, err := mode.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": a.data(attested)})
	require.NoError(a.t, err)
	return a.json(map[string]any{
		"clientDataJSON": b64.EncodeToString(a.client("webauthn.create", o.Challenge)), "attestationObject": b64.EncodeToString(object),
		"transports": []string{"internal"},
	})
}

// sign returns a signed response to the options that the hub gave for a login or a proof.
func (a *authenticator) sign(options string) string {
	var o struct{ Challenge string }
	require.NoError(a.t, json.Unmarshal([]byte(options), &o))
	data, client := a.data(nil), a.client("webauthn.get", o.Challenge)
	sum := sha256.Sum256(client)
	digest := sha256.Sum256(append(bytes.Clone(data), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, digest[:])
	require.NoError(a.t, err)
	return a.json(map[string]any{
		"clientDataJSON": b64.EncodeToString(client), "authenticatorData": b64.EncodeToString(data), "signature": b64.EncodeToString(signature),
		"userHandle": b64.EncodeToString(a.handle),
	})
}

func (a *authenticator) json(response map[string]any) string {
	data, err := json.Marshal(map[string]any{
		"id": b64.EncodeToString(a.id), "rawId": b64.EncodeToString(a.id), "type": "public-key", "clientExtensionResults": map[string]any{}, "response": response,
	})
	require.NoError(a.t, err)
	return string(data)
}

// register registers an authenticator's passkey. by, if not nil, has one of the user's
// passkeys, and proves it.
func (a *authenticator) register(c *sdk.Client, name string, by *authenticator) (*deckhandv1.Passkey, error) {
	a.t.Helper()
	begun, err := c.Passkeys.BeginPasskeyRegistration(a.t.Context(), &deckhandv1.BeginPasskeyRegistrationRequest{})
	if err != nil {
		return nil, err
	}
	made := a.create(begun.GetOptionsJson())
	var proof *deckhandv1.PasskeyProof
	if by != nil {
		proof = by.prove(c, aboutRegistration(made))
	}
	res, err := c.Passkeys.CreatePasskey(a.t.Context(), &deckhandv1.CreatePasskeyRequest{
		ChallengeId: begun.GetChallengeId(), CredentialJson: made, Name: name, Proof: proof,
	})
	if err != nil {
		return nil, err
	}
	return res.GetPasskey(), nil
}

// prove asks the hub for a challenge and returns the proof that signs it.
func (a *authenticator) prove(c *sdk.Client, req *deckhandv1.BeginPasskeyProofRequest) *deckhandv1.PasskeyProof {
	a.t.Helper()
	begun, err := c.Passkeys.BeginPasskeyProof(a.t.Context(), req)
	require.NoError(a.t, err)
	return &deckhandv1.PasskeyProof{ChallengeId: begun.GetChallengeId(), CredentialJson: a.sign(begun.GetOptionsJson())}
}

func (a *authenticator) login(ctx context.Context, c *sdk.Client) (*deckhandv1.PasskeyLogin, *deckhandv1.Session, error) {
	begun, err := c.Sessions.BeginPasskeyLogin(ctx, &deckhandv1.BeginPasskeyLoginRequest{})
	require.NoError(a.t, err)
	with := &deckhandv1.PasskeyLogin{ChallengeId: begun.GetChallengeId(), CredentialJson: a.sign(begun.GetOptionsJson())}
	session, err := loginWith(ctx, c, with)
	return with, session, err
}

func loginWith(ctx context.Context, c *sdk.Client, with *deckhandv1.PasskeyLogin) (*deckhandv1.Session, error) {
	res, err := c.Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Passkey{Passkey: with}})
	if err != nil {
		return nil, err
	}
	return res.GetSession(), nil
}

func aboutRegistration(credential string) *deckhandv1.BeginPasskeyProofRequest {
	return &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_RegistrationCredentialJson{RegistrationCredentialJson: credential}}
}

// enter returns the browser of a login.
func (r *rig) enter(with *deckhandv1.CreateSessionRequest) *sdk.Client {
	r.t.Helper()
	ctx, call := connect.NewClientContext(r.t.Context())
	_, err := r.Client(r.t, "").Sessions.CreateSession(ctx, with)
	require.NoError(r.t, err)
	set, err := http.ParseSetCookie(call.ResponseHeader().Get("Set-Cookie"))
	require.NoError(r.t, err)
	return browser(r.t, r.Hub, set.Name+"="+set.Value)
}

// byLink returns the browser of a login with a link that a client makes.
func (r *rig) byLink(c *sdk.Client) *sdk.Client {
	r.t.Helper()
	return r.enter(&deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Code{Code: do(r.t, c.Sessions.CreateLoginCode, &deckhandv1.CreateLoginCodeRequest{}).GetCode()}})
}

// aPassword is that of withPassword's users.
const aPassword = "correct horse battery"

// withPassword creates a user with a password.
func (r *rig) withPassword(name, role string) {
	r.t.Helper()
	r.as(name, role)
	do(r.t, r.user.Users.SetPassword, &deckhandv1.SetPasswordRequest{UserId: name, Password: aPassword})
}

// byPassword returns the browser of a login of such a user.
func (r *rig) byPassword(name string) *sdk.Client {
	r.t.Helper()
	return r.enter(&deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Password{Password: &deckhandv1.Password{Name: name, Password: aPassword}}})
}
