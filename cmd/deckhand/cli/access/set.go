package access

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func setCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.SetAccessRuleRequest{}
	cmd := &cobra.Command{
		Use: "set WHAT NETWORK...", Short: "Restrict API calls to some networks",
		Long: `WHAT is "*" for every call of users, admin for those that need an administrator, a
service such as NodeExecService, or one procedure such as
NodeExecService/StartNodeExec. A call has to be within every rule that is about
it. A rule that would refuse yourself needs --force.`,
		Example: "deckhand access set admin 10.20.0.0/16 192.0.2.7", Args: env.Args("WHAT", "NETWORK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return env.Usage(cmd, "NETWORK is missing")
			}
			request.What, request.Networks = args[0], args[1:]
			client, err := e.Client()
			if err != nil {
				return err
			}
			_, err = client.Access.SetAccessRule(cmd.Context(), request)
			return err
		},
	}
	cmd.Flags().BoolVar(&request.Force, "force", false, "even if it refuses yourself")
	return cmd
}
