package passkey

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
)

// BeginLogin begins a login of anybody.
func (s *Service) BeginLogin(ctx context.Context) (challenge, options string, err error) {
	if err := s.available(); err != nil {
		return "", "", err
	}
	assertion, session, err := s.party.BeginDiscoverableLogin()
	if err != nil {
		return "", "", fmt.Errorf("begin a login: %w", err)
	}
	return s.begin(ctx, forLogin, nil, assertion.Response, session, "")
}

// Login returns whose passkey has answered a challenge of BeginLogin. An answer that is
// not good is no error: ok is false, and the owner is set as far as it is known.
func (s *Service) Login(ctx context.Context, with Proof) (owner db.PasskeyOwnerRow, why string, err error) {
	if err := s.available(); err != nil {
		return owner, "", err
	}
	session, _, err := s.take(ctx, with.Challenge, forLogin, nil)
	if fault.Is(err, fault.Precondition) {
		return owner, "its challenge is not known, was used, or is too old", nil
	}
	if err != nil {
		return owner, "", err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(with.Credential))
	if err != nil {
		return owner, "it cannot be read", nil //nolint:nilerr // it is the answer
	}
	var broken error
	who, key, err := s.party.ValidatePasskeyLogin(func(rawID, handle []byte) (webauthn.User, error) {
		var err error
		owner, err = s.cfg.Store.PasskeyOwner(ctx, db.PasskeyOwnerParams{CredentialID: rawID, UserID: string(handle), RelyingParty: s.cfg.Public.Host})
		if store.IsNotFound(err) {
			return nil, errors.New("it is not known here")
		}
		if err != nil {
			broken = fmt.Errorf("look up a passkey: %w", err)
			return nil, broken
		}
		p, err := s.person(ctx, s.cfg.Store.Queries, owner.OrgID, owner.ID, owner.Name)
		if err != nil {
			broken = err
		}
		return p, err
	}, session, parsed)
	if broken != nil {
		return owner, "", broken
	}
	if err == nil {
		err = cloned(key)
	}
	if err != nil {
		return owner, "its signature is not good, or its user was not verified", nil
	}
	p, _ := who.(*person)
	return owner, "", s.used(ctx, owner.OrgID, p.row(key.ID), key)
}

// cloned refuses a passkey whose counter went back: there are two of it.
func cloned(key *webauthn.Credential) error {
	if key.Authenticator.CloneWarning {
		return fault.New(fault.Denied, "the passkey's counter has gone back: it may have been copied").WithCode(fault.PermissionDenied).
			WithFix("remove that passkey, and register another one")
	}
	return nil
}

func (s *Service) used(ctx context.Context, orgID string, row db.Passkey, key *webauthn.Credential) error {
	record, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("encode a passkey: %w", err)
	}
	if _, err := s.cfg.Store.UsePasskey(ctx, db.UsePasskeyParams{OrgID: orgID, ID: row.ID, Record: record}); err != nil {
		return fmt.Errorf("store the use of passkey %s: %w", row.ID, err)
	}
	return nil
}

// fill completes a statement with who makes it.
func fill(id auth.Identity, st passkeyproof.Statement) passkeyproof.Statement {
	st.Organisation, st.User, st.UserID = id.OrgID, id.UserName, id.UserID
	return st
}

// BeginProof begins to prove that the caller makes a statement, of which who makes it and
// the nonce are set here.
func (s *Service) BeginProof(ctx context.Context, id auth.Identity, st passkeyproof.Statement) (challenge, options string, err error) {
	if err := s.available(); err != nil {
		return "", "", err
	}
	p, err := s.person(ctx, s.cfg.Store.Queries, id.OrgID, id.UserID, id.UserName)
	if err != nil {
		return "", "", err
	}
	if len(p.keys) == 0 {
		return "", "", errNone()
	}
	st = fill(id, st)
	st.Nonce = rand.Text()
	statement, err := st.Encode()
	if err != nil {
		return "", "", fmt.Errorf("encode a statement: %w", err)
	}
	assertion, session, err := s.party.BeginLogin(p, webauthn.WithChallenge(passkeyproof.Challenge(statement)))
	if err != nil {
		return "", "", fmt.Errorf("begin a proof: %w", err)
	}
	return s.begin(ctx, forProof, &id, assertion.Response, session, string(statement))
}

func errNone() error {
	return fault.New(fault.Precondition, "you have no passkey for this hub").WithFix("register one in the console: Settings, Passkeys")
}

func errNoProof() error {
	return fault.New(fault.Precondition, "proof is missing: this takes one of your passkeys").WithCode(fault.PermissionDenied).
		WithFix("do it in the console, on a device with one of your passkeys")
}

// Prove returns the evidence that the caller has made a statement. What was signed must
// be what st says; the nonce is the challenge's own.
func (s *Service) Prove(ctx context.Context, id auth.Identity, with *Proof, st passkeyproof.Statement) (passkeyproof.Evidence, error) {
	var none passkeyproof.Evidence
	if with == nil || with.Challenge == "" {
		return none, errNoProof()
	}
	if err := s.available(); err != nil {
		return none, err
	}
	session, signed, err := s.take(ctx, with.Challenge, forProof, &id)
	if err != nil {
		return none, err
	}
	var was passkeyproof.Statement
	if err := json.Unmarshal([]byte(signed), &was); err != nil {
		return none, fmt.Errorf("read a statement: %w", err)
	}
	want := fill(id, st)
	want.Nonce, want.Version = was.Nonce, was.Version
	if was != want {
		return none, fault.New(fault.Precondition, "proof is of another decision than this one").WithCode(fault.PermissionDenied).
			WithFix("look at it again, and confirm it with your passkey again")
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(with.Credential))
	if err != nil {
		return none, refused("proof.credential_json", err)
	}
	p, err := s.person(ctx, s.cfg.Store.Queries, id.OrgID, id.UserID, id.UserName)
	if err != nil {
		return none, err
	}
	key, err := s.party.ValidateLogin(p, session, parsed)
	if err != nil {
		return none, refused("proof.credential_json", err)
	}
	if err := cloned(key); err != nil {
		return none, err
	}
	row := p.row(key.ID)
	evidence := passkeyproof.NewEvidence(signed, row.RelyingParty, row.ID, parsed.Raw.AssertionResponse.AuthenticatorData,
		parsed.Raw.AssertionResponse.ClientDataJSON, parsed.Raw.AssertionResponse.Signature, row.PublicKey)
	// What is stored must be what anybody can verify.
	if _, _, err := evidence.Verify(); err != nil {
		return none, refused("proof.credential_json", err)
	}
	return evidence, s.used(ctx, id.OrgID, row, key)
}
