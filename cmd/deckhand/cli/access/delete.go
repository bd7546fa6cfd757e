package access

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete WHAT", Short: "Remove an access rule", Example: "deckhand access delete admin", Args: env.Args("WHAT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			_, err = client.Access.DeleteAccessRule(cmd.Context(), &deckhandv1.DeleteAccessRuleRequest{What: args[0]})
			return err
		},
	}
}
