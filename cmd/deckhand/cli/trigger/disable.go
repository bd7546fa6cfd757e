package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func disableCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DisableTriggerRequest{}
	cmd := &cobra.Command{
		Use: "disable TRIGGER", Short: "Disable a trigger",
		Long: "What it has started goes on. To end that too: deckhand kill trigger.", Example: `deckhand trigger disable nightly --reason "the disk is full"`,
		Args: env.Args("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.TriggerId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Triggers.DisableTrigger, request, (*deckhandv1.DisableTriggerResponse).GetTrigger)
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for others to read")
	return cmd
}
