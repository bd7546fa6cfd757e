package vault

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the vault's keys and the progress of a rotation", Example: "deckhand vault show\ndeckhand vault show -o json", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			vault, err := get(cmd.Context(), client)
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun, vault)
		},
	}
}
