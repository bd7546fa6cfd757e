package vault

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// pollInterval is how often --wait asks whether the rotation has ended.
const pollInterval = time.Second

// rotateOptions are the flags of vault rotate.
type rotateOptions struct {
	wait bool
}

func rotateCommand(e *env.Env) *cobra.Command {
	var o rotateOptions
	cmd := &cobra.Command{
		Use: "rotate", Short: "Replace the keys that encrypt secrets",
		Long: `Creates a new key, with which every hub encrypts from now on. What the old keys
encrypted is encrypted again in the background, and then they are deleted, after a
minute at the earliest. The hub stays in service, and if it dies in between, the
rotation continues and nothing is lost.`,
		Example: "deckhand vault rotate\ndeckhand vault rotate --wait", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Vault.RotateVault(cmd.Context(), &deckhandv1.RotateVaultRequest{})
			if err != nil {
				return err
			}
			vault := res.GetVault()
			if !o.wait {
				e.Notef("a new key seals; deckhand vault show says when the old ones are gone")
			}
			for o.wait && vault.GetRotatingSince() != nil {
				if err := backoff.Wait(cmd.Context(), pollInterval); err != nil {
					return err
				}
				if vault, err = get(cmd.Context(), client); err != nil {
					return err
				}
			}
			return output.One(e.Printer(), noun, vault)
		},
	}
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until the old keys are deleted")
	return cmd
}
