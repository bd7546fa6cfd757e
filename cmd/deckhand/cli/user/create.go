package user

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateUserRequest{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a user",
		Long:    "Make a user, who gets in with a token, a password, or by the organisation's single sign-on.\n\n" + RoleHelp,
		Example: "deckhand user create alice --role basic", Args: env.Args("NAME"),
		RunE: run(e, func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error) {
			request.Name = args[0]
			res, err := client.Users.CreateUser(cmd.Context(), request)
			if err != nil {
				return nil, err
			}
			e.Notef("give them a token: deckhand token create NAME --user %s, or a password: deckhand user password %s", args[0], args[0])
			return res.GetUser(), nil
		}),
	}
	cmd.Flags().StringVar(&request.Role, "role", "", "viewer (the default), basic, advanced or admin")
	return cmd
}
