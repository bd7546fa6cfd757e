package vault

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Secrets keeps the installation's own secrets sealed in the database, so that
// all hubs share them.
type Secrets struct {
	store *store.Store
	vault *Vault
}

// NewSecrets creates Secrets that are sealed by a vault.
func NewSecrets(s *store.Store, v *Vault) Secrets { return Secrets{s, v} }

// LoadSecret returns a secret's value, or fault.NotFound.
func (s Secrets) LoadSecret(ctx context.Context, name string) ([]byte, error) {
	sealed, err := s.store.LoadSecret(ctx, name)
	if store.IsNotFound(err) {
		return nil, fault.New(fault.NotFound, "there is no secret %q", name)
	}
	if err != nil {
		return nil, fmt.Errorf("load secret %s: %w", name, err)
	}
	return s.vault.Open(sealed, "secret "+name)
}

// CreateSecret stores a value unless the name is taken, and returns what is stored
// afterwards.
func (s Secrets) CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error) {
	sealed, err := s.vault.Seal(value, "secret "+name)
	if err != nil {
		return nil, err
	}
	if _, err := s.store.CreateSecret(ctx, db.CreateSecretParams{Name: name, Sealed: sealed}); err != nil {
		return nil, fmt.Errorf("store secret %s: %w", name, err)
	}
	return s.LoadSecret(ctx, name)
}
