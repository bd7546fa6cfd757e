package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/inbox"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show [TASK]", Short: "Show a task; the newest one by default", Example: "deckhand task show task_3q9 -o yaml",
		Args: env.Args("[TASK]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if args, err = orNewest(cmd.Context(), e, client, args); err != nil {
				return err
			}
			res, err := client.Tasks.GetTask(cmd.Context(), &deckhandv1.GetTaskRequest{TaskId: args[0]})
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), Noun(e), res.GetTask()); err != nil {
				return err
			}
			inbox.NoteWaiting(e, res.GetTask())
			if task := res.GetTask(); task.GetAgentId() != "" && !output.Final(task.GetState()) {
				NoteEstimate(cmd.Context(), e, client, &deckhandv1.GetEstimateRequest{TaskId: task.GetId()})
			}
			return nil
		},
	}
}
