package access

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List from where calls may come", Example: "deckhand access list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			rules, err := sdk.All(cmd.Context(), client.Access.ListAccessRules, func(token string) *deckhandv1.ListAccessRulesRequest {
				return &deckhandv1.ListAccessRulesRequest{PageToken: token}
			}, (*deckhandv1.ListAccessRulesResponse).GetRules)
			if err != nil {
				return err
			}
			if len(rules) == 0 {
				e.Notef("calls may come from everywhere")
			}
			return output.List(e.Printer(), noun, rules)
		},
	}
}
