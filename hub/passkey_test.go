package hub_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

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
	methods, err := nobody.Sessions.GetLoginMethods(ctx, &deckhandv1.GetLoginMethodsRequest{})
	require.NoError(t, err)
	require.True(t, methods.GetPasskeys())
	require.Equal(t, passkeyOrigin, methods.GetPublicUrl())

	phone := newAuthenticator(t)
	admin := r.byLink(r.user)
	made, err := phone.register(admin, "phone", nil)
	require.NoError(t, err)
	require.Equal(t, "phone", made.GetName())
	with, session, err := phone.login(ctx, nobody)
	require.NoError(t, err)
	require.Equal(t, "passkey", session.GetMethod())
	require.Equal(t, "admin", session.GetUserName())
	require.NotNil(t, session.GetSignedInAt())
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

	// Another user sees none of it.
	other := r.as("other", "basic")
	list, err := other.Passkeys.ListPasskeys(ctx, &deckhandv1.ListPasskeysRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetPasskeys())
	_, err = other.Passkeys.ListPasskeys(ctx, &deckhandv1.ListPasskeysRequest{User: "admin"})
	refusedFor(t, err, fault.Denied, "administrators")
	_, err = other.Passkeys.RenamePasskey(ctx, &deckhandv1.RenamePasskeyRequest{PasskeyId: made.GetId(), Name: "mine"})
	refusedFor(t, err, fault.NotFound, "")
	_, err = other.Passkeys.DeletePasskey(ctx, &deckhandv1.DeletePasskeyRequest{PasskeyId: made.GetId()})
	refusedFor(t, err, fault.NotFound, "")
	renamed, err := r.user.Passkeys.RenamePasskey(ctx, &deckhandv1.RenamePasskeyRequest{PasskeyId: made.GetId(), Name: "old phone"})
	require.NoError(t, err)
	require.Equal(t, "old phone", renamed.GetPasskey().GetName())
	_, err = r.user.Passkeys.DeletePasskey(ctx, &deckhandv1.DeletePasskeyRequest{PasskeyId: made.GetId()})
	require.NoError(t, err, "the hub's own token, on its machine, removes passkeys that are lost")
	_, _, err = phone.login(ctx, nobody)
	refusedFor(t, err, fault.Unauthenticated, "")
}

// A person who has stolen a token or a session can neither register nor remove a passkey with
// it, nor with a session, a login link or a password that they first make from it.
func TestAStolenTokenOrSessionMakesNoPasskeyAndRemovesNone(t *testing.T) {
	if testing.Short() {
		t.Skip("hashing passwords takes minutes with the race detector, and there is no race in it")
	}
	t.Parallel()
	r := passkeyRig(t)
	ctx := t.Context()
	thief := newAuthenticator(t)
	stolen := do(t, r.user.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "stolen"}).GetSecret()
	token := r.Client(t, stolen)
	_, err := thief.register(token, "theirs", nil)
	refusedFor(t, err, fault.Denied, "API token")
	_, err = thief.register(r.user, "theirs", nil)
	refusedFor(t, err, fault.Denied, "API token")
	session := browser(t, r.Hub, login(t, r.Hub, stolen))
	for what, c := range map[string]*sdk.Client{
		"a session made with the token": session, "a link made with the token": r.byLink(token), "a link made in that session": r.byLink(session),
	} {
		_, err = thief.register(c, "theirs", nil)
		refusedFor(t, err, fault.Precondition, "a sign-in of the last 10 minutes")
		require.Nil(t, do(t, c.Sessions.GetSession, &deckhandv1.GetSessionRequest{}).GetSession().GetSignedInAt(), what)
	}
	// Nor do they make a password to sign in with.
	for _, c := range []*sdk.Client{token, session} {
		_, err = c.Users.SetPassword(ctx, &deckhandv1.SetPasswordRequest{Password: "correct horse battery"})
		refusedFor(t, err, fault.Precondition, "a first password")
	}

	// A sign-in does, and is over after ten minutes.
	r.withPassword("alice", "basic")
	late := r.byPassword("alice")
	shift(t, r.Hub, `UPDATE sessions SET signed_in_at = now() - interval '11 minutes' WHERE method = 'password'`)
	_, err = newAuthenticator(t).register(late, "late", nil)
	refusedFor(t, err, fault.Precondition, "a sign-in of the last 10 minutes")
	alice := r.byPassword("alice")
	shift(t, r.Hub, `UPDATE sessions SET signed_in_at = now() - interval '9 minutes' WHERE method = 'password' AND signed_in_at > now() - interval '1 minute'`)
	hers := newAuthenticator(t)
	first, err := hers.register(alice, "phone", nil)
	require.NoError(t, err)

	// From then on only a passkey makes and removes one: the password is not enough.
	tablet := newAuthenticator(t)
	_, err = tablet.register(alice, "tablet", nil)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	begun := do(t, alice.Passkeys.BeginPasskeyRegistration, &deckhandv1.BeginPasskeyRegistrationRequest{})
	made := tablet.create(begun.GetOptionsJson())
	another := hers.prove(alice, aboutRegistration(thief.create(begun.GetOptionsJson())))
	_, err = alice.Passkeys.CreatePasskey(ctx, &deckhandv1.CreatePasskeyRequest{ChallengeId: begun.GetChallengeId(), CredentialJson: made, Name: "tablet", Proof: another})
	refusedFor(t, err, fault.Precondition, "another decision")
	second, err := tablet.register(alice, "tablet", hers)
	require.NoError(t, err)
	remove := &deckhandv1.DeletePasskeyRequest{PasskeyId: second.GetId()}
	about := func(id string) *deckhandv1.BeginPasskeyProofRequest {
		return &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_DeletePasskeyId{DeletePasskeyId: id}}
	}
	for _, c := range []*sdk.Client{alice, session} {
		_, err = c.Passkeys.DeletePasskey(ctx, remove)
		require.Error(t, err)
	}
	_, err = token.Passkeys.DeletePasskey(ctx, remove)
	refusedFor(t, err, fault.Denied, "API token")
	remove.Proof = hers.prove(alice, about(first.GetId()))
	_, err = alice.Passkeys.DeletePasskey(ctx, remove)
	refusedFor(t, err, fault.Precondition, "another decision")
	remove.Proof = hers.prove(alice, about(second.GetId()))
	do(t, alice.Passkeys.DeletePasskey, remove)

	// An administrator removes what somebody has lost after a sign-in, and with their own
	// passkey as soon as they have one.
	admin := r.byLink(r.user)
	mine := newAuthenticator(t)
	third, err := tablet.register(alice, "tablet", hers)
	require.NoError(t, err)
	do(t, admin.Passkeys.DeletePasskey, &deckhandv1.DeletePasskeyRequest{PasskeyId: third.GetId()})
	_, err = mine.register(admin, "mine", nil)
	require.NoError(t, err)
	lost := &deckhandv1.DeletePasskeyRequest{PasskeyId: first.GetId()}
	_, err = admin.Passkeys.DeletePasskey(ctx, lost)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	lost.Proof = mine.prove(admin, about(first.GetId()))
	do(t, admin.Passkeys.DeletePasskey, lost)

	// The export says offline whose keys were registered, and which.
	allSealed(t, r.Hub)
	report, err := auditlog.Verify(bytes.NewReader(exportAudit(t, r.user, 0)), nil)
	require.NoError(t, err)
	require.Len(t, report.Passkeys, 4)
	for i, want := range []struct {
		user, digest string
		proved       bool
	}{{"alice", first.GetKeySha256(), false}, {"alice", second.GetKeySha256(), true}, {"alice", second.GetKeySha256(), true}, {"admin", "", false}} {
		require.Equal(t, want.user, report.Passkeys[i].User)
		require.Equal(t, want.proved, report.Passkeys[i].Proved)
		if want.digest != "" {
			require.Equal(t, want.digest, report.Passkeys[i].KeySHA256)
		}
	}
}

func TestWithoutHTTPSThereAreNoPasskeysAndTheHubSaysWhy(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	res, err := h.Client(t, "").Sessions.GetLoginMethods(t.Context(), &deckhandv1.GetLoginMethodsRequest{})
	require.NoError(t, err)
	require.False(t, res.GetPasskeys())
	require.Contains(t, res.GetPasskeysMissing(), "--public-url")
	_, err = browser(t, h, login(t, h, h.AdminToken)).Passkeys.BeginPasskeyRegistration(t.Context(), &deckhandv1.BeginPasskeyRegistrationRequest{})
	refusedFor(t, err, fault.Precondition, "--public-url")
}

// The proof of a decision is for that decision by that person once, and the export of the
// audit proves it to anybody.
func TestADangerousCallIsApprovedWithAPasskeyForWhatWasShown(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	ctx := t.Context()
	phone := newAuthenticator(t)
	_, err := phone.register(r.byLink(r.user), "phone", nil)
	require.NoError(t, err)
	rules := &deckhandv1.PasskeyRules{DangerousApprovals: true}
	set := &deckhandv1.SetPasskeyRulesRequest{Rules: rules}
	_, err = r.user.Passkeys.SetPasskeyRules(ctx, set)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	set.Proof = phone.prove(r.user, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Rules{Rules: rules}})
	_, err = r.user.Passkeys.SetPasskeyRules(ctx, set)
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
		_, err := c.Inbox.AnswerInboxItem(ctx, req)
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
	r.withPassword("second", "admin")
	second := r.byPassword("second")
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
	_, err := phone.register(r.byLink(r.user), "phone", nil)
	require.NoError(r.t, err)
	rules := &deckhandv1.PasskeyRules{DangerousApprovals: true}
	proof := phone.prove(r.user, &deckhandv1.BeginPasskeyProofRequest{Decision: &deckhandv1.BeginPasskeyProofRequest_Rules{Rules: rules}})
	_, err = r.user.Passkeys.SetPasskeyRules(r.t.Context(), &deckhandv1.SetPasskeyRulesRequest{Rules: rules, Proof: proof})
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

// A rule of the policy takes a passkey for what it asks about, dangerous or not, whether
// the organisation asks for one elsewhere or not.
func TestARuleTakesAPasskeyForWhatItAsksAbout(t *testing.T) {
	t.Parallel()
	r := passkeyRig(t)
	phone := newAuthenticator(t)
	admin := r.byLink(r.user)
	_, err := phone.register(admin, "phone", nil)
	require.NoError(t, err)
	do(t, r.user.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{File: "policy.yaml", Yaml: `
rules:
  - {name: deploys, effect: ask, command: make deploy, approve: passkey}
`})
	for _, name := range []string{"deployer", "checker"} {
		r.apply(name, asking(name, "tools: [shell_exec]"))
	}
	_, step, item := r.park("deployer", "shell_exec", `{"command":"make deploy"}`)
	require.True(t, item.GetNeedsPasskey())
	shown := r.inboxItem(item.GetId())
	require.True(t, shown.GetNeedsPasskey())
	require.True(t, shown.GetDecision().GetPasskey())
	require.Contains(t, shown.GetWhy(), "takes a passkey")
	answer := approve(item.GetId(), "")
	answer.ShownDigest = shown.GetShownDigest()
	_, err = r.answer(answer)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	// Another call than that which was asked about takes none, but it replaces one that does.
	_, err = r.answer(approve(item.GetId(), `{"command":"make check"}`))
	refusedFor(t, err, fault.Precondition, "proof is missing")
	require.Equal(t, stepWaiting, r.step(step.GetId()).GetState(), "nothing was granted")
	answer.Proof = phone.prove(admin, aboutAnswer(answer))
	_, err = r.answer(answer)
	require.NoError(t, err)
	require.NotEqual(t, stepWaiting, r.step(step.GetId()).GetState())

	// A call that is edited into one of the rule takes one.
	_, other, harmless := r.park("checker", "shell_exec", `{"command":"make check"}`)
	require.False(t, harmless.GetNeedsPasskey())
	edited := approve(harmless.GetId(), `{"command":"true && make deploy"}`)
	_, err = r.answer(edited)
	refusedFor(t, err, fault.Precondition, "proof is missing")
	edited.Proof = phone.prove(admin, aboutAnswer(edited))
	_, err = r.answer(edited)
	require.NoError(t, err)
	require.NotEqual(t, stepWaiting, r.step(other.GetId()).GetState())

	allSealed(t, r.Hub)
	report, err := auditlog.Verify(bytes.NewReader(exportAudit(t, r.user, 0)), nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Proofs)
}
