package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func assignCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "assign TASK WHO", Short: "Assign a task: @agent:NAME, @human:NAME or none",
		Example: `deckhand task assign task_3q9 @agent:log-triage
deckhand task assign task_3q9 @human:bob`,
		Args: env.Args("TASK", "WHO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, Noun(e), client.Queue.AssignTask, &deckhandv1.AssignTaskRequest{TaskId: args[0], AssignTo: args[1]}, (*deckhandv1.AssignTaskResponse).GetTask)
		},
	}
}
