package user

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// passwordOptions are the flags of user password.
type passwordOptions struct {
	request *deckhandv1.SetPasswordRequest
	file    string
	current string
}

func passwordCommand(e *env.Env) *cobra.Command {
	o := passwordOptions{request: &deckhandv1.SetPasswordRequest{}}
	cmd := &cobra.Command{
		Use: "password [USER]", Short: "Set your password, or as an administrator that of any user",
		Long: "Set a password of 12 characters or more. It is read from a file, so that it is on no\ncommand line. All other sessions of that user end; with --revoke-tokens their tokens,\ntoo, also the one that calls.",
		Example: `deckhand user password alice --password-file alice-password
deckhand user password --password-file new --current-file old`, Args: env.Args("[USER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.UserId = strings.Join(args, "")
			var err error
			if o.request.Password, err = env.ReadSecret(e, o.file); err != nil {
				return err
			}
			if o.request.Password == "" {
				return env.Usage(cmd, "give --password-file FILE, or - for standard input")
			}
			if o.request.CurrentPassword, err = env.ReadSecret(e, o.current); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Users.SetPassword(cmd.Context(), o.request); err != nil {
				return err
			}
			e.Notef("the password is set")
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.request.RevokeTokens, "revoke-tokens", false, "end all API tokens of that user, too")
	cmd.Flags().StringVar(&o.file, "password-file", "", "file that holds the password; - for standard input")
	cmd.Flags().StringVar(&o.current, "current-file", "", "file that holds your password so far, where you have one")
	return cmd
}
