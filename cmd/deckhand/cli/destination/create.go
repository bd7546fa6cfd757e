package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateDestinationRequest{Spec: &deckhandv1.DestinationSpec{}}
	flags := &specFlags{}
	cmd := &cobra.Command{
		Use: "create NAME (--webhook URL | --slack | --email ADDRESS | --nats)", Short: "Create a destination",
		Long: eventsHelp + "\n\nThe secret that a webhook's messages are signed with is shown this once.",
		Example: `deckhand destination create hooks --webhook https://hooks.example.com/deckhand --events lifecycle
deckhand destination create chat --slack --secret-file slack-url --agent log-triage
deckhand destination create mail --email ops@example.com --smtp-host smtp.example.com --smtp-user deckhand --secret-file password --from deckhand@example.com
deckhand destination create bus --nats --events "agent.*,task.*"`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if err := flags.apply(cmd, request.GetSpec()); err != nil {
				return err
			}
			if request.GetSpec().GetTo() == nil {
				return env.Usage(cmd, "give one of --webhook URL, --slack, --email ADDRESS and --nats")
			}
			var err error
			if request.Secret, err = env.ReadSecret(e, flags.key); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Destinations.CreateDestination(cmd.Context(), request)
			if err != nil {
				return err
			}
			if secret := res.GetSecret(); secret != "" {
				e.Notef("give the receiver this secret; it is not shown again:\n%s", secret)
			}
			return output.Brief(e.Printer(), noun(), res.GetDestination())
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&request.Disabled, "disabled", false, "make it without anything being sent")
	return cmd
}
