package token

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func revokeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN...", Short: "Revoke tokens", Long: "Ends them within two seconds, and the sessions that were made with them. Tokens\nare named by their ids, see deckhand token list.",
		Example: "deckhand token revoke token_3q9", Args: env.Args("TOKEN..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			for _, id := range args {
				if _, err := client.Tokens.RevokeToken(cmd.Context(), &deckhandv1.RevokeTokenRequest{TokenId: id}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
