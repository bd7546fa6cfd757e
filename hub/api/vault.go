package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/maintenance/rotation"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Vault serves VaultService.
type Vault struct{ Rotation *rotation.Rotation }

// GetVault returns which key seals.
func (h *Vault) GetVault(ctx context.Context, _ *deckhandv1.GetVaultRequest) (*deckhandv1.GetVaultResponse, error) {
	state, err := h.Rotation.Get(ctx)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetVaultResponse{Vault: vaultMessage(state)}, nil
}

// RotateVault starts to encrypt with a new key.
func (h *Vault) RotateVault(ctx context.Context, _ *deckhandv1.RotateVaultRequest) (*deckhandv1.RotateVaultResponse, error) {
	who := auth.From(ctx)
	state, err := h.Rotation.Begin(ctx, who.OrgID, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RotateVaultResponse{Vault: vaultMessage(state)}, nil
}

func vaultMessage(s rotation.State) *deckhandv1.Vault {
	return &deckhandv1.Vault{
		PrimaryKey: s.Primary, Keys: int32(s.Keys), //nolint:gosec // a handful
		Version: s.Version, ChangedAt: timestamppb.New(s.ChangedAt), RotatingSince: timestamp(s.RotatingSince), RotatedBy: s.RotatedBy,
	}
}
