package quota

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// modelsOptions are the flags of quota models.
type modelsOptions struct {
	all bool
}

func modelsCommand(e *env.Env) *cobra.Command {
	var o modelsOptions
	cmd := &cobra.Command{
		Use: "models (PROVIDER/MODEL... | --all)", Short: "Set which models may be called",
		Long: `* stands for any letters. A task whose agent runs with another model waits, and
one that is submitted with it is refused. Calls in progress are not cut off.`,
		Example: "deckhand quota models \"anthropic/*\" openai/gpt-5\ndeckhand quota models --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.all == (len(args) > 0) {
				return env.Usage(cmd, "name the models that may be called, or say --all")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.SetAllowedModels, &deckhandv1.SetAllowedModelsRequest{Models: args}, (*deckhandv1.SetAllowedModelsResponse).GetPlan)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "every model")
	return cmd
}
