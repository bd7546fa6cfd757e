package user

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List users", Example: "deckhand user list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Users.ListUsers, func(token string) *deckhandv1.ListUsersRequest {
				return &deckhandv1.ListUsersRequest{PageToken: token}
			}, (*deckhandv1.ListUsersResponse).GetUsers)
		},
	}
}
