package token

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
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
			var tokens []*deckhandv1.Token
			if err := sdk.Pages(func(token string) (string, error) {
				res, err := client.Tokens.ListTokens(cmd.Context(), connect.NewRequest(&deckhandv1.ListTokensRequest{All: all, PageToken: token}))
				if err != nil {
					return "", err
				}
				tokens = append(tokens, res.Msg.GetTokens()...)
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), tokens)
		},
	}
	cmd.Flags().Bool("all", false, "everybody's, as an administrator")
	return cmd
}
