package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// reorderOptions are the flags of task reorder.
type reorderOptions struct {
	first    bool
	before   string
	priority int32
}

func reorderCommand(e *env.Env) *cobra.Command {
	var o reorderOptions
	cmd := &cobra.Command{
		Use: "reorder TASK", Short: "Move a queued task",
		Long: `
The queue goes by priority, 10 first. Within one priority users take turns:
the user with the fewest running tasks is next.
`,
		Example: `deckhand task reorder task_3q9 --first
deckhand task reorder task_3q9 --before task_7bc
deckhand task reorder task_3q9 --priority 8`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.ReorderTaskRequest{TaskId: args[0]}
			given := 0
			if o.first {
				request.Place, given = &deckhandv1.ReorderTaskRequest_First{First: true}, given+1
			}
			if o.before != "" {
				request.Place, given = &deckhandv1.ReorderTaskRequest_Before{Before: o.before}, given+1
			}
			if o.priority != 0 {
				request.Place, given = &deckhandv1.ReorderTaskRequest_Priority{Priority: o.priority}, given+1
			}
			if given != 1 {
				return env.Usage(cmd, "give one of --first, --before TASK and --priority N")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, Noun(e), client.Queue.ReorderTask, request, (*deckhandv1.ReorderTaskResponse).GetTask)
		},
	}
	cmd.Flags().BoolVar(&o.first, "first", false, "before all others")
	cmd.Flags().StringVar(&o.before, "before", "", "before that queued task")
	cmd.Flags().Int32Var(&o.priority, "priority", 0, "with that priority, 1 to 10")
	cmd.Flags().Lookup("priority").DefValue = ""
	return cmd
}
