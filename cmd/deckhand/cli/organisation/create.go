package organisation

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateOrganisationRequest{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an organisation and its administrator",
		Long: `The administrator's token is printed this once. With it they make other users, and
tokens for their workers: deckhand token create NAME --worker.`,
		Example: "deckhand organisation create research\ndeckhand organisation create research --admin alice", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Organisations.CreateOrganisation(cmd.Context(), request)
			if err != nil {
				return err
			}
			e.Notef("this is the administrator's token; it is not shown again:\n%s", res.GetToken())
			return output.Brief(e.Printer(), noun(e), res.GetOrganisation())
		},
	}
	cmd.Flags().StringVar(&request.Admin, "admin", "", "the administrator's name; admin by default")
	return cmd
}
