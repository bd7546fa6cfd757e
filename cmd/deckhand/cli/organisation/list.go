package organisation

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List organisations by name", Example: "deckhand organisation list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Organisations.ListOrganisations, func(token string) *deckhandv1.ListOrganisationsRequest {
				return &deckhandv1.ListOrganisationsRequest{PageToken: token}
			}, (*deckhandv1.ListOrganisationsResponse).GetOrganisations)
		},
	}
}
