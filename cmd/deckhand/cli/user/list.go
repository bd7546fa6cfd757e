package user

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List users", Example: "deckhand user list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			var users []*deckhandv1.User
			if err := sdk.Pages(func(token string) (string, error) {
				res, err := client.Users.ListUsers(cmd.Context(), connect.NewRequest(&deckhandv1.ListUsersRequest{PageToken: token}))
				if err != nil {
					return "", err
				}
				users = append(users, res.Msg.GetUsers()...)
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), users)
		},
	}
}
