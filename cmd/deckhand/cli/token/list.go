package token

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens that are not revoked, newest first", Example: "deckhand token list --all -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := cmd.Flags().GetBool("all")
			if err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Tokens.ListTokens, func(token string) *deckhandv1.ListTokensRequest {
				return &deckhandv1.ListTokensRequest{All: all, PageToken: token}
			}, (*deckhandv1.ListTokensResponse).GetTokens)
		},
	}
	cmd.Flags().Bool("all", false, "everybody's, as an administrator")
	return cmd
}
