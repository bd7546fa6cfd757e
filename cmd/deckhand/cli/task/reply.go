package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func replyCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: `reply TASK "TEXT"`, Short: "Answer the question that a task has asked",
		Long: `It answers the open question, as deckhand inbox answer does with the question's id. To
send a message without being asked, use: deckhand task message`,
		Example: `deckhand task reply task_3q9 "the one in Frankfurt"`,
		Args:    env.Args("TASK", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeEach(e, cmd, args[:1], func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Inbox.ReplyToTask(ctx, &deckhandv1.ReplyToTaskRequest{TaskId: id, Text: args[1]})
				if err != nil {
					return nil, err
				}
				task, err := client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: res.GetItem().GetTaskId()})
				if err != nil {
					return nil, err
				}
				return task.GetTask(), nil
			})
		},
	}
}
