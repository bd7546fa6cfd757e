package provider

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List connected providers", Example: "deckhand provider list -o wide",
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "no provider is connected: deckhand provider connect anthropic --key-file key.txt", client.Providers.ListProviders, func(token string) *deckhandv1.ListProvidersRequest {
				return &deckhandv1.ListProvidersRequest{PageToken: token}
			}, (*deckhandv1.ListProvidersResponse).GetProviders)
		},
	}
}
