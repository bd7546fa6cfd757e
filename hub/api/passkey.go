package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/passkeyproof"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Passkeys serves PasskeyService.
type Passkeys struct {
	Passkeys *passkey.Service
	Users    *user.Users
	Inbox    *inbox.Service
}

func passkeyMessage(row db.Passkey, userName string) *deckhandv1.Passkey {
	return &deckhandv1.Passkey{
		Id: row.ID, Name: row.Name, CreatedAt: timestamppb.New(row.CreatedAt), UsedAt: timestamp(row.UsedAt), Synced: passkey.Synced(row),
		UserId: row.UserID, UserName: userName, KeySha256: passkeyproof.KeyDigest(row.PublicKey),
	}
}

func proofOf(m *deckhandv1.PasskeyProof) *passkey.Proof {
	if m == nil {
		return nil
	}
	return &passkey.Proof{Challenge: m.GetChallengeId(), Credential: m.GetCredentialJson()}
}

// requestDigest returns the digest of an answer without its proof.
func requestDigest(m *deckhandv1.AnswerInboxItemRequest) (string, error) {
	m = proto.CloneOf(m)
	m.Proof = nil
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("encode an answer: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// BeginPasskeyRegistration begins to register a passkey.
func (h *Passkeys) BeginPasskeyRegistration(ctx context.Context, _ *deckhandv1.BeginPasskeyRegistrationRequest) (*deckhandv1.BeginPasskeyRegistrationResponse, error) {
	challenge, options, err := h.Passkeys.BeginRegistration(ctx, auth.From(ctx))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.BeginPasskeyRegistrationResponse{ChallengeId: challenge, OptionsJson: options}, nil
}

// CreatePasskey stores a passkey.
func (h *Passkeys) CreatePasskey(ctx context.Context, req *deckhandv1.CreatePasskeyRequest) (*deckhandv1.CreatePasskeyResponse, error) {
	id, m := auth.From(ctx), req
	row, err := h.Passkeys.Register(ctx, id, passkey.Proof{Challenge: m.GetChallengeId(), Credential: m.GetCredentialJson()}, m.GetName(), proofOf(m.GetProof()), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CreatePasskeyResponse{Passkey: passkeyMessage(row.Passkey, row.UserName)}, nil
}

// ListPasskeys returns the caller's passkeys or, for administrators, a user's.
func (h *Passkeys) ListPasskeys(ctx context.Context, req *deckhandv1.ListPasskeysRequest) (*deckhandv1.ListPasskeysResponse, error) {
	id := auth.From(ctx)
	of := id.UserID
	if ref := req.GetUser(); ref != "" && ref != id.UserID && ref != id.UserName {
		if id.Role != "admin" {
			return nil, fault.New(fault.Denied, "user: only administrators may list the passkeys of others").WithCode(fault.PermissionDenied).WithFix("leave it out for your own")
		}
		var err error
		if of, err = h.Users.Find(ctx, id.OrgID, ref); err != nil {
			return nil, err
		}
	}
	rows, err := h.Passkeys.List(ctx, id.OrgID, of)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListPasskeysResponse{}
	rows, res.NextPageToken, err = store.PageOf(rows, cmp.Or(req.GetPageSize(), listPage), req.GetPageToken(), func(row db.ListPasskeysRow) string {
		return timeKey(row.Passkey.CreatedAt, row.Passkey.ID)
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		res.Passkeys = append(res.Passkeys, passkeyMessage(row.Passkey, row.UserName))
	}
	return res, nil
}

// RenamePasskey gives a passkey another name.
func (h *Passkeys) RenamePasskey(ctx context.Context, req *deckhandv1.RenamePasskeyRequest) (*deckhandv1.RenamePasskeyResponse, error) {
	id := auth.From(ctx)
	if err := h.Passkeys.Rename(ctx, id, req.GetPasskeyId(), req.GetName(), actor(id)); err != nil {
		return nil, err
	}
	row, err := h.Passkeys.Get(ctx, id.OrgID, req.GetPasskeyId())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RenamePasskeyResponse{Passkey: passkeyMessage(row.Passkey, row.UserName)}, nil
}

// DeletePasskey removes a passkey.
func (h *Passkeys) DeletePasskey(ctx context.Context, req *deckhandv1.DeletePasskeyRequest) (*deckhandv1.DeletePasskeyResponse, error) {
	id := auth.From(ctx)
	if err := h.Passkeys.Delete(ctx, id, req.GetPasskeyId(), proofOf(req.GetProof()), actor(id)); err != nil {
		return nil, err
	}
	return &deckhandv1.DeletePasskeyResponse{}, nil
}

// BeginPasskeyProof begins to prove a decision.
func (h *Passkeys) BeginPasskeyProof(ctx context.Context, req *deckhandv1.BeginPasskeyProofRequest) (*deckhandv1.BeginPasskeyProofResponse, error) {
	id := auth.From(ctx)
	var statement passkeyproof.Statement
	switch of := req.GetDecision().(type) {
	case *deckhandv1.BeginPasskeyProofRequest_Answer:
		item, err := h.Inbox.Find(ctx, viewer(ctx), of.Answer.GetItemId())
		if err != nil {
			return nil, err
		}
		verdict, err := verdictOf(of.Answer)
		if err != nil {
			return nil, err
		}
		digest, err := requestDigest(of.Answer)
		if err != nil {
			return nil, err
		}
		statement = inbox.Statement(item, verdict, of.Answer.GetShownDigest(), digest)
	case *deckhandv1.BeginPasskeyProofRequest_Rules:
		statement = passkey.RulesStatement(id.OrgID, of.Rules.GetDangerousApprovals())
	case *deckhandv1.BeginPasskeyProofRequest_RegistrationCredentialJson:
		var err error
		if statement, err = passkey.RegistrationStatement(of.RegistrationCredentialJson); err != nil {
			return nil, err
		}
	case *deckhandv1.BeginPasskeyProofRequest_DeletePasskeyId:
		statement = passkeyproof.Statement{Action: passkey.ActionDeleted, Object: of.DeletePasskeyId}
	}
	challenge, options, err := h.Passkeys.BeginProof(ctx, id, statement)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.BeginPasskeyProofResponse{ChallengeId: challenge, OptionsJson: options}, nil
}

// GetPasskeyRules returns what the organisation asks a passkey for.
func (h *Passkeys) GetPasskeyRules(ctx context.Context, _ *deckhandv1.GetPasskeyRulesRequest) (*deckhandv1.GetPasskeyRulesResponse, error) {
	on, err := h.Passkeys.DangerousApprovals(ctx, auth.From(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetPasskeyRulesResponse{Rules: &deckhandv1.PasskeyRules{DangerousApprovals: on}}, nil
}

// SetPasskeyRules sets what the organisation asks a passkey for.
func (h *Passkeys) SetPasskeyRules(ctx context.Context, req *deckhandv1.SetPasskeyRulesRequest) (*deckhandv1.SetPasskeyRulesResponse, error) {
	id := auth.From(ctx)
	on := req.GetRules().GetDangerousApprovals()
	if err := h.Passkeys.SetDangerousApprovals(ctx, id, on, proofOf(req.GetProof()), actor(id)); err != nil {
		return nil, err
	}
	return &deckhandv1.SetPasskeyRulesResponse{Rules: &deckhandv1.PasskeyRules{DangerousApprovals: on}}, nil
}
