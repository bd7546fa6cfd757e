package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/taskplan"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func replanCommand(e *env.Env) *cobra.Command {
	var file string
	var revision int32
	cmd := &cobra.Command{
		Use: "replan ID --plan FILE [TEXT]", Short: "Leave a call out, and replace the agent's plan",
		Long: `The call is not made, and the agent goes on with the plan in the file. TEXT is what it
is told besides. With --revision, the answer is refused if the plan is not at that
revision any more; without it, the plan that there is now is replaced.

` + taskplan.Form,
		Example: `# the plan as it is, to edit it
deckhand task plan show task_3q9 -o yaml
deckhand inbox replan inbox_3q9 --plan plan.yaml "first a backup"`,
		Args: env.Args("ID", "[TEXT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return env.Usage(cmd, "give the new plan with --plan FILE")
			}
			plan, err := taskplan.ReadPlan(e, cmd, file)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("revision") {
				client, err := e.Client()
				if err != nil {
					return err
				}
				item, err := getItem(cmd.Context(), client, args[0])
				if err != nil {
					return err
				}
				now, err := taskplan.Get(cmd, e, item.GetTaskId())
				if err != nil {
					return err
				}
				revision = now.GetRevision()
			}
			return send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{ItemId: args[0], Answer: &deckhandv1.AnswerInboxItemRequest_Replan_{
				Replan: &deckhandv1.AnswerInboxItemRequest_Replan{Text: env.Optional(args, 1), Items: plan.GetItems(), Revision: revision},
			}})
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "the file of the new plan, YAML or JSON; - for standard input")
	cmd.Flags().Int32Var(&revision, "revision", 0, "the revision of the plan that it replaces; 0 for none")
	return cmd
}
