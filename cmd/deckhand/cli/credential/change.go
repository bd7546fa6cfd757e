package credential

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the credentials", Example: "deckhand credential list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "", client.Credentials.ListCredentials, func(token string) *deckhandv1.ListCredentialsRequest {
				return &deckhandv1.ListCredentialsRequest{PageToken: token}
			}, (*deckhandv1.ListCredentialsResponse).GetCredentials)
		},
	}
}

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a credential", Long: "Its value is never shown.", Example: "deckhand credential show github", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(e), client.Credentials.GetCredential, &deckhandv1.GetCredentialRequest{Name: args[0]}, (*deckhandv1.GetCredentialResponse).GetCredential)
		},
	}
}

func rotateCommand(e *env.Env) *cobra.Command {
	flags := &valueFlags{}
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Replace the value of a credential",
		Long: valueHelp + `

Requests that begin from now on are sent with the new value; nodes forget what they had
of the one before. Revoke that at its server as well.`,
		Example: `deckhand credential rotate api --from-env API_TOKEN
pass show api-token | deckhand credential rotate api --value-file -`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			before, err := client.Credentials.GetCredential(cmd.Context(), &deckhandv1.GetCredentialRequest{Name: args[0]})
			if err != nil {
				return err
			}
			request := &deckhandv1.RotateCredentialRequest{Name: args[0]}
			if request.Value, request.ExpiresAt, err = flags.read(e, cmd, before.GetCredential().GetKind()); err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Credentials.RotateCredential, request, (*deckhandv1.RotateCredentialResponse).GetCredential)
		},
	}
	flags.register(cmd)
	return cmd
}

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a credential",
		Long: `Nodes forget it at once, and close the connections on which it was used. Tasks that
begin fail as long as their personas list it. A token that was issued stays valid at its
server until it expires.`,
		Example: "deckhand credential delete api", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Credentials.DeleteCredential(cmd.Context(), &deckhandv1.DeleteCredentialRequest{Name: args[0]}); err != nil {
				return err
			}
			e.Notef("credential %s is deleted", args[0])
			return nil
		},
	}
}
