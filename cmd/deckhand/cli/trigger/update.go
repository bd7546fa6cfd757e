package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func updateCommand(e *env.Env) *cobra.Command {
	flags := &specFlags{}
	cmd := &cobra.Command{
		Use: "update TRIGGER", Short: "Update a trigger",
		Long:    "Changes what the flags name; the rest stays as it is. Its kind and its agent stay.",
		Example: `deckhand trigger update reviews --filter "payload.action in ['opened', 'reopened']"`,
		Args:    env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			is, err := client.Triggers.GetTrigger(cmd.Context(), &deckhandv1.GetTriggerRequest{TriggerId: args[0]})
			if err != nil {
				return err
			}
			spec := is.GetTrigger().GetSpec()
			if err := flags.apply(cmd, spec); err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Triggers.UpdateTrigger, &deckhandv1.UpdateTriggerRequest{
				TriggerId: is.GetTrigger().GetId(), Spec: spec,
			}, (*deckhandv1.UpdateTriggerResponse).GetTrigger)
		},
	}
	flags.register(cmd)
	return cmd
}
