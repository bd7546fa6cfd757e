package rotation

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
)

// ReplaceRoot encrypts the data keys with another root key. The data that they encrypt is
// not changed. Afterwards the old root does not open the database any more. It returns
// false if the new root opens the database already, for example after a first call that
// was interrupted.
func ReplaceRoot(ctx context.Context, recorder *event.Recorder, from, to vault.Root, reason string) (replaced bool, err error) {
	err = recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockKeyset(ctx)
		if err != nil {
			return fmt.Errorf("load the keyset: %w", err)
		}
		keys, err := vault.Rewrapped(row.Keys, from, to)
		if err != nil || keys == nil {
			return err
		}
		if err := tx.RewrapKeyset(ctx, keys); err != nil {
			return fmt.Errorf("store the keyset: %w", err)
		}
		replaced = true
		return audit.Append(tx, audit.Entry{
			OrgID: auth.Operators, By: event.Hub, Action: "vault.root_replaced", ObjectKind: "vault", ObjectID: "root", Reason: reason,
		})
	})
	return replaced, err
}
