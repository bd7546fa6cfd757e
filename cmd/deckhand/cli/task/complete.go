package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// completeOptions are the flags of task complete.
type completeOptions struct {
	summary string
}

func completeCommand(e *env.Env) *cobra.Command {
	var o completeOptions
	cmd := &cobra.Command{
		Use: "complete TASK", Short: "Complete a task that a person did by hand",
		Example: `deckhand task complete task_3q9 --summary "swapped the disk"`,
		Args:    env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, Noun(e), client.Queue.CompleteTask, &deckhandv1.CompleteTaskRequest{TaskId: args[0], Summary: o.summary}, (*deckhandv1.CompleteTaskResponse).GetTask)
		},
	}
	cmd.Flags().StringVar(&o.summary, "summary", "", "what came of it")
	return cmd
}
