package access

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the networks that API calls may come from", Example: "deckhand access list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun, "calls may come from everywhere", client.Access.ListAccessRules, func(token string) *deckhandv1.ListAccessRulesRequest {
				return &deckhandv1.ListAccessRulesRequest{PageToken: token}
			}, (*deckhandv1.ListAccessRulesResponse).GetRules)
		},
	}
}
