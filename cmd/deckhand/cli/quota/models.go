package quota

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func modelsCommand(e *env.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "models (PROVIDER/MODEL... | --all)", Short: "Say which models may be called",
		Long: `* stands for any letters. A task whose agent runs with another model waits, and
one that is submitted with it is refused. Calls under way are not cut off.`,
		Example: "deckhand quota models \"anthropic/*\" openai/gpt-5\ndeckhand quota models --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return env.Usage(cmd, "name the models that may be called, or say --all")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Plans.SetAllowedModels(cmd.Context(), connect.NewRequest(&deckhandv1.SetAllowedModelsRequest{Models: args}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), noun(), res.Msg.GetPlan())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every model")
	return cmd
}
