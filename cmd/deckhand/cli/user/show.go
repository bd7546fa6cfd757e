package user

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show USER", Short: "Show a user", Example: "deckhand user show alice", Args: env.Args("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(e), client.Users.GetUser, &deckhandv1.GetUserRequest{UserId: args[0]}, (*deckhandv1.GetUserResponse).GetUser)
		},
	}
}
