// Package passkey keeps the passkeys of users: credentials of WebAuthn level 3, of which
// the hub has the public key only. Service is its type.
//
// A passkey logs a user in, and proves that a person was there when they decided
// something (package passkeyproof). Both want the authenticator to verify the person. The
// relying party is the host of the public URL: without a public URL that browsers accept
// there are no passkeys, and after a change of the host those of before cannot be used.
//
// A challenge is a row: any hub finishes what another began. It is deleted by the first
// attempt to use it, good or bad, and ends after Lasts.
package passkey

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

const (
	// Lasts is how long a challenge can be used.
	Lasts = 5 * time.Minute
	// Most is how many passkeys a user may have.
	Most = 20
	// required is the value of an organisation's setting.
	required = "passkey"

	forRegistration = "register"
	forLogin        = "login"
	forProof        = "proof"
)

// The actions of audit entries that a proof can be for, besides those of the inbox.
const (
	ActionCreated = "passkey.created"
	ActionDeleted = "passkey.deleted"
	ActionRules   = "passkey.rules_set"
)

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Public   auth.PublicURL
}

// Service keeps passkeys.
type Service struct {
	cfg     Config
	party   *webauthn.WebAuthn // nil if there are no passkeys
	missing string
}

// New creates a Service.
func New(cfg Config) (*Service, error) {
	s := &Service{cfg: cfg}
	ok, missing := cfg.Public.SecureContext()
	if !ok {
		s.missing = missing
		return s, nil
	}
	limit := webauthn.TimeoutConfig{Enforce: true, Timeout: Lasts, TimeoutUVD: Lasts}
	var err error
	s.party, err = webauthn.New(&webauthn.Config{
		RPID: cfg.Public.Host, RPDisplayName: "Deckhand", RPOrigins: []string{cfg.Public.Origin},
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: limit, Registration: limit},
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "public-url %s cannot have passkeys: %v", cfg.Public, err).WithFix("give a --public-url with a host name")
	}
	return s, nil
}

// Available reports whether there can be passkeys, and otherwise what is missing.
func (s *Service) Available() (ok bool, missing string) { return s.party != nil, s.missing }

func (s *Service) available() error {
	if s.party == nil {
		return fault.New(fault.Precondition, "there are no passkeys here: %s", s.missing).WithFix("see docs/phone.md")
	}
	return nil
}

// person is a user with their passkeys of this host, as the library wants it.
type person struct {
	id, name string
	rows     []db.Passkey
	keys     []webauthn.Credential
}

// WebAuthnID returns the user handle. It names nobody.
func (p *person) WebAuthnID() []byte { return []byte(p.id) }

// WebAuthnName returns the user's name.
func (p *person) WebAuthnName() string { return p.name }

// WebAuthnDisplayName returns the user's name.
func (p *person) WebAuthnDisplayName() string { return p.name }

// WebAuthnCredentials returns the user's passkeys.
func (p *person) WebAuthnCredentials() []webauthn.Credential { return p.keys }

// row returns the passkey of a credential.
func (p *person) row(credential []byte) db.Passkey {
	for _, row := range p.rows {
		if bytes.Equal(row.CredentialID, credential) {
			return row
		}
	}
	return db.Passkey{}
}

func (s *Service) person(ctx context.Context, q *db.Queries, orgID, userID, name string) (*person, error) {
	rows, err := q.ListPasskeys(ctx, db.ListPasskeysParams{OrgID: orgID, UserID: userID})
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	p := &person{id: userID, name: name}
	for _, row := range rows {
		if row.Passkey.RelyingParty != s.cfg.Public.Host {
			continue
		}
		var key webauthn.Credential
		if err := json.Unmarshal(row.Passkey.Record, &key); err != nil {
			return nil, fmt.Errorf("read passkey %s: %w", row.Passkey.ID, err)
		}
		p.rows, p.keys = append(p.rows, row.Passkey), append(p.keys, key)
	}
	return p, nil
}

// begin stores a challenge, and returns its id with the options for the browser.
func (s *Service) begin(ctx context.Context, purpose string, id *auth.Identity, options any, session *webauthn.SessionData, statement string) (string, string, error) {
	data, err := json.Marshal(session)
	if err != nil {
		return "", "", fmt.Errorf("encode a challenge: %w", err)
	}
	text, err := json.Marshal(options)
	if err != nil {
		return "", "", fmt.Errorf("encode options: %w", err)
	}
	p := db.CreatePasskeyChallengeParams{ID: ident.Secret("pkc"), Purpose: purpose, Session: data, Statement: statement, Lasts: Lasts}
	if id != nil {
		p.OrgID, p.UserID = &id.OrgID, &id.UserID
	}
	if err := s.cfg.Store.CreatePasskeyChallenge(ctx, p); err != nil {
		return "", "", fmt.Errorf("store a challenge: %w", err)
	}
	return p.ID, string(text), nil
}

// errChallenge is the error of a challenge that cannot be used.
func errChallenge(why string) error {
	return fault.New(fault.Precondition, "challenge_id: %s", why).WithFix("begin again")
}

// take uses up a challenge of a purpose and, except for logins, of a user.
func (s *Service) take(ctx context.Context, challenge, purpose string, id *auth.Identity) (session webauthn.SessionData, statement string, err error) {
	row, err := s.cfg.Store.TakePasskeyChallenge(ctx, challenge)
	switch {
	case store.IsNotFound(err):
		return session, "", errChallenge("it is not known, or was used")
	case err != nil:
		return session, "", fmt.Errorf("use a challenge: %w", err)
	case row.Purpose != purpose:
		return session, "", errChallenge("it is for something else")
	case id != nil && (row.OrgID == nil || row.UserID == nil || *row.OrgID != id.OrgID || *row.UserID != id.UserID):
		return session, "", errChallenge("it is another user's")
	case !row.Good:
		return session, "", errChallenge("it is older than " + Lasts.String())
	}
	if err := json.Unmarshal(row.Session, &session); err != nil {
		return session, "", fmt.Errorf("read a challenge: %w", err)
	}
	return session, row.Statement, nil
}

// BeginRegistration begins to register a passkey of the caller. The first one takes a
// session that was signed in within auth.SignInLasts.
func (s *Service) BeginRegistration(ctx context.Context, id auth.Identity) (challenge, options string, err error) {
	if err := s.available(); err != nil {
		return "", "", err
	}
	if err := inSession(id); err != nil {
		return "", "", err
	}
	p, err := s.person(ctx, s.cfg.Store.Queries, id.OrgID, id.UserID, id.UserName)
	if err != nil {
		return "", "", err
	}
	if len(p.keys) == 0 {
		if err := signedIn(id, auth.SignInLasts); err != nil {
			return "", "", err
		}
	}
	creation, session, err := s.party.BeginRegistration(p, webauthn.WithExclusions(webauthn.Credentials(p.keys).CredentialDescriptors()),
		webauthn.WithConveyancePreference(protocol.PreferNoAttestation))
	if err != nil {
		return "", "", fmt.Errorf("begin a registration: %w", err)
	}
	return s.begin(ctx, forRegistration, &id, creation.Response, session, "")
}

// Proof is what a browser made of a challenge.
type Proof struct{ Challenge, Credential string }

// Register stores the passkey that a browser has made. If the user has another one, proof
// is that one's, about this very key.
func (s *Service) Register(ctx context.Context, id auth.Identity, made Proof, name string, proof *Proof, by event.Actor) (db.GetPasskeyRow, error) {
	var none db.GetPasskeyRow
	if err := s.available(); err != nil {
		return none, err
	}
	if err := inSession(id); err != nil {
		return none, err
	}
	session, _, err := s.take(ctx, made.Challenge, forRegistration, &id)
	if err != nil {
		return none, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(made.Credential))
	if err != nil {
		return none, refused("credential_json", err)
	}
	before, err := s.person(ctx, s.cfg.Store.Queries, id.OrgID, id.UserID, id.UserName)
	if err != nil {
		return none, err
	}
	key, err := s.party.CreateCredential(before, session, parsed)
	if err != nil {
		return none, refused("credential_json", err)
	}
	statement := registration(key.ID, key.PublicKey)
	after := map[string]any{
		"name": name, "user_id": id.UserID, "user": id.UserName, "relying_party": s.cfg.Public.Host,
		"credential_id": statement.CredentialID, "public_key": hex.EncodeToString(key.PublicKey), "key_sha256": statement.KeySHA256,
	}
	if len(before.keys) == 0 {
		// A registration that began in time may end until its challenge expires.
		if err := signedIn(id, auth.SignInLasts+Lasts); err != nil {
			return none, err
		}
		after["signed_in_at"] = id.SignedInAt.UTC().Format(time.RFC3339)
	} else {
		evidence, err := s.Prove(ctx, id, proof, statement)
		if err != nil {
			return none, err
		}
		after["proof"] = evidence.Map()
	}
	// What its maker attests is not looked at: it would be kept for nothing.
	key.Attestation = webauthn.CredentialAttestation{}
	record, err := json.Marshal(key)
	if err != nil {
		return none, fmt.Errorf("encode a passkey: %w", err)
	}
	p := db.CreatePasskeyParams{
		ID: ident.New("passkey"), OrgID: id.OrgID, UserID: id.UserID, Name: name, RelyingParty: s.cfg.Public.Host,
		CredentialID: key.ID, PublicKey: key.PublicKey, Record: record,
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockUser(ctx, db.LockUserParams{OrgID: id.OrgID, UserID: id.UserID}); err != nil {
			return fmt.Errorf("lock user %s: %w", id.UserID, err)
		}
		have, err := tx.ListPasskeys(ctx, db.ListPasskeysParams{OrgID: id.OrgID, UserID: id.UserID})
		switch {
		case err != nil:
			return fmt.Errorf("list passkeys: %w", err)
		case len(have) >= Most:
			return fault.New(fault.Exhausted, "you have %d passkeys, and that is the most", len(have)).WithFix("remove one first")
		case len(before.keys) == 0 && len(have) > 0:
			if now, err := s.person(ctx, tx.Queries, id.OrgID, id.UserID, id.UserName); err != nil || len(now.keys) > 0 {
				return errors.Join(err, errNoProof())
			}
		}
		if _, err := tx.CreatePasskey(ctx, p); store.IsNotFound(err) {
			return fault.New(fault.Exists, "this passkey is registered already").WithFix("use it, or register another one")
		} else if err != nil {
			return fmt.Errorf("store a passkey: %w", err)
		}
		return audit.Append(tx, audit.Entry{OrgID: id.OrgID, By: by, Action: ActionCreated, ObjectKind: "passkey", ObjectID: p.ID, After: after})
	})
	if err != nil {
		return none, err
	}
	return s.Get(ctx, id.OrgID, p.ID)
}

// refused is the error of what a browser has sent and is not what it should be.
func refused(field string, err error) error {
	var detail *protocol.Error
	if errors.As(err, &detail) && detail.Details != "" {
		err = errors.New(detail.Details)
	}
	return fault.New(fault.Invalid, "%s is refused: %v", field, err).WithFix("try again, with an authenticator that verifies you by PIN, finger or face")
}
