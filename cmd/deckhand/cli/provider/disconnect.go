package provider

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func disconnectCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "disconnect PROVIDER", Short: "Delete a provider's key",
		Long:    "Calls that are in progress are cut off within a second; tasks that need the provider pause.",
		Example: "deckhand provider disconnect openai", Args: env.Args("PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Providers.DisconnectProvider(cmd.Context(), &deckhandv1.DisconnectProviderRequest{Name: args[0]}); err != nil {
				return err
			}
			e.Notef("provider %s is disconnected, and its key is deleted", args[0])
			return nil
		},
	}
}
