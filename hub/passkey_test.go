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
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
	"github.com/deckhand-sh/deckhand/node/nodetest"
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

// sign answers the options of a login or a proof.
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

// register registers an authenticator's passkey.
func (a *authenticator) register(c *sdk.Client, name string, proof *deckhandv1.PasskeyProof) (*deckhandv1.Passkey, error) {
	begun, err := c.Passkeys.BeginPasskeyRegistration(a.t.Context(), connect.NewRequest(&deckhandv1.BeginPasskeyRegistrationRequest{}))
	require.NoError(a.t, err)
	res, err := c.Passkeys.CreatePasskey(a.t.Context(), connect.NewRequest(&deckhandv1.CreatePasskeyRequest{
		ChallengeId: begun.Msg.GetChallengeId(), CredentialJson: a.create(begun.Msg.GetOptionsJson()), Name: name, Proof: proof,
	}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetPasskey(), nil
}

// prove answers the challenge of a proof.
func (a *authenticator) prove(c *sdk.Client, req *deckhandv1.BeginPasskeyProofRequest) *deckhandv1.PasskeyProof {
	a.t.Helper()
	begun, err := c.Passkeys.BeginPasskeyProof(a.t.Context(), connect.NewRequest(req))
	require.NoError(a.t, err)
	return &deckhandv1.PasskeyProof{ChallengeId: begun.Msg.GetChallengeId(), CredentialJson: a.sign(begun.Msg.GetOptionsJson())}
}

func (a *authenticator) login(ctx context.Context, c *sdk.Client) (*deckhandv1.PasskeyLogin, *deckhandv1.Session, error) {
	begun, err := c.Sessions.BeginPasskeyLogin(ctx, connect.NewRequest(&deckhandv1.BeginPasskeyLoginRequest{}))
	require.NoError(a.t, err)
	with := &deckhandv1.PasskeyLogin{ChallengeId: begun.Msg.GetChallengeId(), CredentialJson: a.sign(begun.Msg.GetOptionsJson())}
	session, err := loginWith(ctx, c, with)
	return with, session, err
}

func loginWith(ctx context.Context, c *sdk.Client, with *deckhandv1.PasskeyLogin) (*deckhandv1.Session, error) {
	res, err := c.Sessions.CreateSession(ctx, connect.NewRequest(&deckhandv1.CreateSessionRequest{With: &deckhandv1.CreateSessionRequest_Passkey{Passkey: with}}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetSession(), nil
}

func passkeyRig(t *testing.T) *rig {
	t.Helper()
	cfg := hubtest.Config(t)
	cfg.PublicURL = passkeyOrigin
	return newRig(t, hubtest.Start(t, cfg), nil)
}

func refusedFor(t *testing.T, err error, kind fault.Kind, says string) {
	t.Helper()
	require.True(t, fault.Is(fault.FromConnect(err), kind), "%v", err)
	require.ErrorContains(t, err, says)
}

func TestAPasskeyLogsInAndBelongsToItsUser(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	ctx, nobody := t.Context(), r.Client(t, "")
	methods, err := nobody.Sessions.GetLoginMethods(ctx, connect.NewRequest(&deckhandv1.GetLoginMethodsRequest{}))
	require.NoError(t, err)
	require.True(t, methods.Msg.GetPasskeys())
	require.Equal(t, passkeyOrigin, methods.Msg.GetPublicUrl())

	phone := newAuthenticator(t)
	made, err := phone.register(r.user, "phone", nil)
	require.NoError(t, err)
	require.Equal(t, "phone", made.GetName())
	with, session, err := phone.login(ctx, nobody)
	require.NoError(t, err)
	require.Equal(t, "passkey", session.GetMethod())
	require.Equal(t, "admin", session.GetUserName())
	_, err = loginWith(ctx, nobody, with)
	refusedFor(t, err, fault.Unauthenticated, "was used")

	phone.unverified = true
	_, _, err = phone.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "not verified")
	phone.unverified, phone.origin = false, "http://localhost.example:7800"
	_, _, err = phone.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "not good")
	phone.origin = passkeyOrigin
	stranger := newAuthenticator(t)
	stranger.handle = phone.handle
	_, _, err = stranger.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "")
	phone.count = 0
	_, _, err = phone.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "")
	phone.count = 100

	// Another passkey takes one that is there; so does the end of one, for a session.
	tablet := newAuthenticator(t)
	_, err = tablet.register(r.user, "tablet", nil)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	registration := &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Registration{Registration: true}}
	second, err := tablet.register(r.user, "tablet", phone.prove(r.user, registration))
	require.NoError(t, err)
	inBrowser := browser(t, r.Hub, login(t, r.Hub, r.AdminToken))
	remove := &deckhandv1.DeletePasskeyRequest{PasskeyId: second.GetId()}
	_, err = inBrowser.Passkeys.DeletePasskey(ctx, connect.NewRequest(remove))
	refusedFor(t, err, fault.Precondition, "proof is missing")
	remove.Proof = phone.prove(inBrowser, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_DeletePasskeyId{DeletePasskeyId: made.GetId()}})
	_, err = inBrowser.Passkeys.DeletePasskey(ctx, connect.NewRequest(remove))
	refusedFor(t, err, fault.Precondition, "another decision")
	remove.Proof = phone.prove(inBrowser, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_DeletePasskeyId{DeletePasskeyId: second.GetId()}})
	_, err = inBrowser.Passkeys.DeletePasskey(ctx, connect.NewRequest(remove))
	require.NoError(t, err)

	// Another user sees none of it.
	other := r.as("other", "basic")
	list, err := other.Passkeys.ListPasskeys(ctx, connect.NewRequest(&deckhandv1.ListPasskeysRequest{}))
	require.NoError(t, err)
	require.Empty(t, list.Msg.GetPasskeys())
	_, err = other.Passkeys.ListPasskeys(ctx, connect.NewRequest(&deckhandv1.ListPasskeysRequest{User: "admin"}))
	refusedFor(t, err, fault.Denied, "administrators")
	_, err = other.Passkeys.RenamePasskey(ctx, connect.NewRequest(&deckhandv1.RenamePasskeyRequest{PasskeyId: made.GetId(), Name: "mine"}))
	refusedFor(t, err, fault.NotFound, "")
	_, err = other.Passkeys.DeletePasskey(ctx, connect.NewRequest(&deckhandv1.DeletePasskeyRequest{PasskeyId: made.GetId()}))
	refusedFor(t, err, fault.NotFound, "")
	renamed, err := r.user.Passkeys.RenamePasskey(ctx, connect.NewRequest(&deckhandv1.RenamePasskeyRequest{PasskeyId: made.GetId(), Name: "old phone"}))
	require.NoError(t, err)
	require.Equal(t, "old phone", renamed.Msg.GetPasskey().GetName())
	_, err = r.user.Passkeys.DeletePasskey(ctx, connect.NewRequest(&deckhandv1.DeletePasskeyRequest{PasskeyId: made.GetId()}))
	require.NoError(t, err, "an administrator's token removes passkeys that are lost")
	_, _, err = phone.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "")
}

func TestWithoutHTTPSThereAreNoPasskeysAndTheHubSaysWhy(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	res, err := h.Client(t, "").Sessions.GetLoginMethods(t.Context(), connect.NewRequest(&deckhandv1.GetLoginMethodsRequest{}))
	require.NoError(t, err)
	require.False(t, res.Msg.GetPasskeys())
	require.Contains(t, res.Msg.GetPasskeysMissing(), "--public-url")
	_, err = h.Client(t, h.AdminToken).Passkeys.BeginPasskeyRegistration(t.Context(), connect.NewRequest(&deckhandv1.BeginPasskeyRegistrationRequest{}))
	refusedFor(t, err, fault.Precondition, "--public-url")
}

// The proof of a decision is for that decision by that person once, and the export of the
// audit proves it to anybody.
func TestADangerousCallIsApprovedWithAPasskeyForWhatWasShown(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	ctx := t.Context()
	phone := newAuthenticator(t)
	_, err := phone.register(r.user, "phone", nil)
	require.NoError(t, err)
	rules := &deckhandv1.PasskeyRules{DangerousApprovals: true}
	set := &deckhandv1.SetPasskeyRulesRequest{Rules: rules}
	_, err = r.user.Passkeys.SetPasskeyRules(ctx, connect.NewRequest(set))
	refusedFor(t, err, fault.Precondition, "proof is missing")
	set.Proof = phone.prove(r.user, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Rules{Rules: rules}})
	_, err = r.user.Passkeys.SetPasskeyRules(ctx, connect.NewRequest(set))
	require.NoError(t, err)

	// One each, since an agent runs one task at a time.
	for _, name := range []string{"calm", "asker", "again"} {
		r.apply(name, asking(name, "tools: [shell_exec]"))
	}
	_, _, harmless := r.park("calm", "shell_exec", `{"command":"make deploy"}`)
	require.False(t, harmless.GetNeedsPasskey())
	_, step, item := r.park("asker", "shell_exec", `{"command":"rm -rf /"}`)
	require.True(t, item.GetNeedsPasskey())
	require.True(t, r.inboxItem(item.GetId()).GetNeedsPasskey())
	send := func(c *sdk.Client, req *deckhandv1.AnswerInboxItemRequest) error {
		_, err := c.Inbox.AnswerInboxItem(ctx, connect.NewRequest(req))
		return err
	}
	answer := approve(item.GetId(), "")
	answer.ShownDigest, answer.Reason = item.GetShownDigest(), "I have looked"
	refusedFor(t, send(r.user, answer), fault.Precondition, "proof is missing")
	about := func(a *deckhandv1.AnswerInboxItemRequest) *deckhandv1.BeginPasskeyProofRequest {
		return &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Answer{Answer: a}}
	}
	with := func(proof *deckhandv1.PasskeyProof) *deckhandv1.AnswerInboxItemRequest {
		a := proto.CloneOf(answer)
		a.Proof = proof
		return a
	}

	// For another digest, another item, other arguments.
	other := proto.CloneOf(answer)
	other.ShownDigest = strings.Repeat("0", 64)
	refusedFor(t, send(r.user, with(phone.prove(r.user, about(other)))), fault.Precondition, "another decision")
	elsewhere := proto.CloneOf(answer)
	elsewhere.ItemId = harmless.GetId()
	refusedFor(t, send(r.user, with(phone.prove(r.user, about(elsewhere)))), fault.Precondition, "another decision")
	edited := proto.CloneOf(answer)
	edited.GetApprove().ArgumentsJson = `{"command":"rm -rf /tmp"}`
	refusedFor(t, send(r.user, with(phone.prove(r.user, about(edited)))), fault.Precondition, "another decision")
	rejects := &deckhandv1.AnswerInboxItemRequest{ItemId: item.GetId(), ShownDigest: item.GetShownDigest(), Reason: answer.GetReason(), Answer: &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}}}
	refusedFor(t, send(r.user, with(phone.prove(r.user, about(rejects)))), fault.Precondition, "another decision")

	// By nobody, by another person, and by another person's passkey.
	phone.unverified = true
	refusedFor(t, send(r.user, with(phone.prove(r.user, about(answer)))), fault.Invalid, "proof.credential_json")
	phone.unverified = false
	second := r.as("second", "admin")
	theirs := newAuthenticator(t)
	_, err = theirs.register(second, "theirs", nil)
	require.NoError(t, err)
	refusedFor(t, send(second, with(phone.prove(r.user, about(answer)))), fault.Precondition, "another user's")
	refusedFor(t, send(r.user, with(theirs.prove(r.user, about(answer)))), fault.Invalid, "proof.credential_json")
	refusedFor(t, send(second, with(phone.prove(second, about(answer)))), fault.Invalid, "proof.credential_json")

	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState(), "nothing was granted")
	good := with(phone.prove(r.user, about(answer)))
	require.NoError(t, send(r.user, good))
	require.NoError(t, send(r.user, good), "a repetition of one's own answer is harmless")
	require.False(t, r.inboxItem(item.GetId()).GetNeedsPasskey())
	_, _, again := r.park("again", "shell_exec", `{"command":"rm -rf /"}`)
	replayed := proto.CloneOf(good)
	replayed.ItemId, replayed.ShownDigest = again.GetId(), again.GetShownDigest()
	refusedFor(t, send(r.user, replayed), fault.Precondition, "was used")

	allSealed(t, r.Hub)
	data := exportAudit(t, r.user, 0)
	report, err := auditlog.Verify(bytes.NewReader(data), nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Proofs, "the rules, and the approval")
	var entry auditlog.Entry
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(`"inbox.approve"`)) {
			require.NoError(t, json.Unmarshal(line, &entry))
		}
	}
	var after struct{ Proof passkeyproof.Evidence }
	require.NoError(t, json.Unmarshal(entry.After, &after))
	said, _, err := after.Proof.Verify()
	require.NoError(t, err)
	require.Equal(t, item.GetId(), said.Object)
	require.Equal(t, item.GetShownDigest(), said.ShownDigest)
	for what, change := range map[string]func(*passkeyproof.Evidence){
		"another statement": func(e *passkeyproof.Evidence) {
			e.Statement = strings.Replace(e.Statement, item.GetId(), again.GetId(), 1)
		},
		"another host":      func(e *passkeyproof.Evidence) { e.RelyingParty = "example.com" },
		"another signature": func(e *passkeyproof.Evidence) { e.Signature = strings.Repeat("00", len(e.Signature)/2) },
		"another user's state": func(e *passkeyproof.Evidence) {
			raw, err := hex.DecodeString(e.AuthenticatorData)
			require.NoError(t, err)
			raw[32] &^= 0x04
			e.AuthenticatorData = hex.EncodeToString(raw)
		},
	} {
		forged := after.Proof
		change(&forged)
		_, _, err := forged.Verify()
		require.Error(t, err, what)
	}
}

// requirePasskeys has the rig's organisation ask for a passkey, and returns the admin's.
func (r *rig) requirePasskeys() *authenticator {
	r.t.Helper()
	phone := newAuthenticator(r.t)
	_, err := phone.register(r.user, "phone", nil)
	require.NoError(r.t, err)
	rules := &deckhandv1.PasskeyRules{DangerousApprovals: true}
	proof := phone.prove(r.user, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Rules{Rules: rules}})
	_, err = r.user.Passkeys.SetPasskeyRules(r.t.Context(), connect.NewRequest(&deckhandv1.SetPasskeyRulesRequest{Rules: rules, Proof: proof}))
	require.NoError(r.t, err)
	return phone
}

func aboutAnswer(a *deckhandv1.AnswerInboxItemRequest) *deckhandv1.BeginPasskeyProofRequest {
	return &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Answer{Answer: a}}
}

// Who edits a harmless call into a dangerous one executes the dangerous one.
func TestAHarmlessCallEditedIntoADangerousOneTakesAPasskey(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	phone := r.requirePasskeys()
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	_, step, item := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	require.False(t, item.GetNeedsPasskey())

	wipe := approve(item.GetId(), `{"command":"rm -rf /"}`)
	_, err := r.answer(wipe)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState(), "nothing was granted")

	wipe.Proof = phone.prove(r.user, aboutAnswer(wipe))
	_, err = r.answer(wipe)
	require.NoError(t, err)
	require.NotEqual(t, stepWaiting, r.step(step.GetId()).GetState())
}

// Edits that stay harmless take none.
func TestAHarmlessEditTakesNoPasskey(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	r.requirePasskeys()
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	_, step, item := r.park("asker", "shell_exec", `{"command":"make deploy"}`)
	_, err := r.answer(approve(item.GetId(), `{"command":"make check"}`))
	require.NoError(t, err)
	require.NotEqual(t, stepWaiting, r.step(step.GetId()).GetState())
}

// A proof that nobody would verify or keep is not taken silently.
func TestAStopTakesNoProof(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	phone := r.requirePasskeys()
	task := r.submit("walker")
	r.end(r.begin(task.GetId(), 1), taskPaused, fault.MaxIterations, "iterations")
	answer := raise(r.stop(stopLimit).GetId(), 40)
	answer.Proof = phone.prove(r.user, aboutAnswer(answer))
	_, err := r.answer(answer)
	refusedFor(t, err, fault.Invalid, "proof")
	require.Equal(t, taskPaused, r.task(task.GetId()).GetState())
	answer.Proof = nil
	_, err = r.answer(answer)
	require.NoError(t, err)
}

// Accepting a review makes its deferred calls: that takes a passkey where something
// dangerous was recognised in one of them when it was proposed.
func TestAcceptingADangerousDeferredCallTakesAPasskey(t *testing.T) {
	t.Parallel()
	sent := &requests{}
	cfg := hubtest.Config(t)
	cfg.PublicURL = passkeyOrigin
	r := newRig(t, hubtest.Start(t, cfg), sent.run)
	sent.node = func() *nodetest.Node { return r.node }
	r.apply("careful", reviewed("careful"))
	phone := r.requirePasskeys()
	_, _, harmless := r.review()
	require.False(t, r.inboxItem(harmless.GetId()).GetNeedsPasskey())
	// The tool is not dangerous, but what it sends is if somebody runs it.
	r.apply("sender", reviewed("sender"))
	_, deferred, item := r.reviewOf("sender", `{"url":"https://hooks.example.org/run","body":"{\"script\": \"rm -rf --no-preserve-root /\"}"}`)
	item = r.inboxItem(item.GetId())
	require.True(t, item.GetNeedsPasskey())
	require.Equal(t, []string{"wipe"}, item.GetReview().GetDeferred()[0].GetDangers())
	require.Equal(t, deferred[0].GetId(), item.GetReview().GetDeferred()[0].GetStepId())

	answer := accept(item.GetId())
	_, err := r.answer(answer)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	answer.Proof = phone.prove(r.user, aboutAnswer(answer))
	_, err = r.answer(answer)
	require.NoError(t, err)
}
