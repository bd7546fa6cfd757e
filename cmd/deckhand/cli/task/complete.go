package task

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func completeCommand(e *env.Env) *cobra.Command {
	var summary string
	cmd := &cobra.Command{
		Use: "complete TASK", Short: "End a task that a person did by hand",
		Example: `deckhand task complete task_3q9 --summary "swapped the disk"`,
		Args:    env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Queue.CompleteTask(cmd.Context(), connect.NewRequest(&deckhandv1.CompleteTaskRequest{TaskId: args[0], Summary: summary}))
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), Noun(e), res.Msg.GetTask())
		},
	}
	cmd.Flags().StringVar(&summary, "summary", "", "what came of it")
	return cmd
}
