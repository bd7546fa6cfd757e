package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/override"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func retryCommand(e *env.Env) *cobra.Command {
	var o override.Retry
	cmd := &cobra.Command{
		Use: "retry TASK", Short: "Retry a task that is escalated or has ended",
		Long: `Puts an escalated task back into the queue. For one that has ended it makes a
new one of the same goal and inputs. The flags hold for this task only; the
persona stays as it is.`,
		Example: `deckhand task retry task_3q9
deckhand task retry task_3q9 --memory 4GiB
deckhand task retry task_3q9 --provider anthropic --model claude-sonnet-4-5`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := o.Message(cmd)
			if err != nil {
				return err
			}
			return changeEach(e, cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.RetryTask(ctx, &deckhandv1.RetryTaskRequest{TaskId: id, Override: with})
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
	o.Register(cmd)
	return cmd
}
