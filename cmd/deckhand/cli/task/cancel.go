package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// cancelOptions are the flags of task cancel.
type cancelOptions struct {
	reason string
}

func cancelCommand(e *env.Env) *cobra.Command {
	var o cancelOptions
	cmd := &cobra.Command{
		Use: "cancel TASK...", Short: "Cancel tasks and kill their running commands",
		Example: `deckhand task cancel task_3q9 --reason "wrong server"`,
		Args:    env.Args("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			var tasks []*deckhandv1.Task
			for _, id := range args {
				res, err := client.Tasks.CancelTask(cmd.Context(), &deckhandv1.CancelTaskRequest{TaskId: id, Reason: o.reason})
				if err != nil {
					return err
				}
				tasks = append(tasks, res.GetTask())
			}
			if len(tasks) == 1 {
				return output.Brief(e.Printer(), Noun(e), tasks[0])
			}
			return output.List(e.Printer(), Noun(e), tasks)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	return cmd
}
