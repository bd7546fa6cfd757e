package cli

import (
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const roleHelp = `Roles are viewer (reads), basic (safe tools), advanced (safe and moderate tools)
and admin (all). A user has the highest of their own role and those of their
teams.`

func (a *app) userCommand() *cobra.Command {
	cmd := group("user", "Keep the people who use this hub", roleHelp, `
deckhand user create alice --role basic
deckhand user password alice --password-file alice-password
deckhand user disable alice
`)
	cmd.AddCommand(a.userCreateCommand(), a.userListCommand(), a.userShowCommand(), a.userRoleCommand(),
		a.userDisableCommand(true), a.userDisableCommand(false), a.userPasswordCommand())
	return cmd
}

// userRun returns a command's run: a call of the API that answers a user.
func (a *app) userRun(call func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := a.connect()
		if err != nil {
			return err
		}
		user, err := call(cmd, client, args)
		if err != nil {
			return err
		}
		return output.Brief(a.printer(), a.userNoun(), user)
	}
}

func (a *app) userCreateCommand() *cobra.Command {
	request := &deckhandv1.CreateUserRequest{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a user",
		Long:    "Make a user, who gets in with a token, a password, or by the organisation's single sign-on.\n\n" + roleHelp,
		Example: "deckhand user create alice --role basic", Args: takes("NAME"),
		RunE: a.userRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error) {
			request.Name = args[0]
			res, err := client.Users.CreateUser(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return nil, err
			}
			a.notef("give them a token: deckhand token create NAME --user %s, or a password: deckhand user password %s", args[0], args[0])
			return res.Msg.GetUser(), nil
		}),
	}
	cmd.Flags().StringVar(&request.Role, "role", "", "viewer (the default), basic, advanced or admin")
	return cmd
}

func (a *app) userListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List users", Example: "deckhand user list -o wide", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
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
			return output.List(a.printer(), a.userNoun(), users)
		},
	}
}

func (a *app) userShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show USER", Short: "Show a user", Example: "deckhand user show alice", Args: takes("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Users.GetUser(cmd.Context(), connect.NewRequest(&deckhandv1.GetUserRequest{UserId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.userNoun(), res.Msg.GetUser())
		},
	}
}

func (a *app) userUpdate(request func(args []string) *deckhandv1.UpdateUserRequest) func(*cobra.Command, []string) error {
	return a.userRun(func(cmd *cobra.Command, client *sdk.Client, args []string) (*deckhandv1.User, error) {
		res, err := client.Users.UpdateUser(cmd.Context(), connect.NewRequest(request(args)))
		if err != nil {
			return nil, err
		}
		return res.Msg.GetUser(), nil
	})
}

func (a *app) userRoleCommand() *cobra.Command {
	return &cobra.Command{
		Use: "role USER ROLE", Short: "Give a user another role", Long: roleHelp, Example: "deckhand user role alice advanced", Args: takes("USER", "ROLE"),
		RunE: a.userUpdate(func(args []string) *deckhandv1.UpdateUserRequest {
			return &deckhandv1.UpdateUserRequest{UserId: args[0], Role: args[1]}
		}),
	}
}

func (a *app) userDisableCommand(disabled bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: "enable USER", Short: "Let somebody in again", Long: "Their tokens work again; sessions have ended for good.",
		Example: "deckhand user enable alice", Args: takes("USER"),
		RunE: a.userUpdate(func(args []string) *deckhandv1.UpdateUserRequest {
			return &deckhandv1.UpdateUserRequest{UserId: args[0], Disabled: &disabled}
		}),
	}
	if disabled {
		cmd.Use, cmd.Short, cmd.Example = "disable USER", "Let somebody in no more", "deckhand user disable alice"
		cmd.Long = "Ends their sessions, and within two seconds their tokens. Tasks that run go on;\nwhat their triggers would start is refused."
	}
	return cmd
}

func (a *app) userPasswordCommand() *cobra.Command {
	request := &deckhandv1.SetPasswordRequest{}
	var file, current string
	cmd := &cobra.Command{
		Use: "password [USER]", Short: "Set a password, your own or as an administrator anybody's",
		Long: "Set a password of 12 characters or more. It is read from a file, so that it is on no\ncommand line. All other sessions of that user end; with --revoke-tokens their tokens,\ntoo, also the one that calls.",
		Example: `deckhand user password alice --password-file alice-password
deckhand user password --password-file new --current-file old`, Args: takes("[USER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.UserId = strings.Join(args, "")
			var err error
			if request.Password, err = a.readKey(file); err != nil {
				return err
			}
			if request.Password == "" {
				return usage(cmd, "give --password-file FILE, or - for standard input")
			}
			if request.CurrentPassword, err = a.readKey(current); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := client.Users.SetPassword(cmd.Context(), connect.NewRequest(request)); err != nil {
				return err
			}
			a.notef("the password is set")
			return nil
		},
	}
	cmd.Flags().BoolVar(&request.RevokeTokens, "revoke-tokens", false, "end all API tokens of that user, too")
	cmd.Flags().StringVar(&file, "password-file", "", "file that holds the password; - for standard input")
	cmd.Flags().StringVar(&current, "current-file", "", "file that holds your password so far, where you have one")
	return cmd
}

func (a *app) userNoun() output.Noun[*deckhandv1.User] {
	return output.Noun[*deckhandv1.User]{
		Name: (*deckhandv1.User).GetName,
		Columns: []output.Column[*deckhandv1.User]{
			{Header: "name", Value: (*deckhandv1.User).GetName},
			{Header: "role", Value: (*deckhandv1.User).GetEffectiveRole},
			{Header: "teams", Value: func(x *deckhandv1.User) string { return strings.Join(x.GetTeams(), ", ") }},
			{Header: "state", Value: func(x *deckhandv1.User) string {
				if x.GetDisabled() {
					return "disabled"
				}
				return "enabled"
			}},
			{Header: "age", Value: func(x *deckhandv1.User) string { return a.age(x.GetCreatedAt()) }},
			{Header: "own role", Value: (*deckhandv1.User).GetRole, Wide: true},
			{Header: "id", Value: (*deckhandv1.User).GetId, Wide: true},
		},
	}
}
