package role

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
)

// NewKeysetCommand returns the command "deckhand vault new-keyset".
func NewKeysetCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "new-keyset", Short: "Print a new root key, for hubs that have it in the environment",
		Long: `Prints a new root key, a Tink keyset as JSON. Hubs read it from a variable with
--keyset-key env://NAME, as in a container; a hub with a data folder makes one there
by itself. Nothing keeps it: store it as a secret, and a copy apart from the backups
of the database. Without it, what the vault sealed cannot be read.`,
		Example: "deckhand vault new-keyset", Args: env.Args(),
		RunE: func(*cobra.Command, []string) error {
			made, err := vault.NewKeyset()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.Out, "%s\n", made)
			return err
		},
	}
}
