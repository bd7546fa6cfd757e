package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// pauseOptions are the flags of task pause.
type pauseOptions struct {
	reason     string
	onNextTool bool
}

func pauseCommand(e *env.Env) *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use: "pause TASK...", Short: "Pause tasks",
		Long: `Takes a task from its worker at once. What runs of it is frozen where it
stands and goes on when the task is resumed. With --on-next-tool the task goes
on until its agent wants to call a tool, and pauses before that call is made.`,
		Example: `deckhand task pause task_3q9 --reason "backup runs"
# look at its next call before it is made
deckhand task pause task_3q9 --on-next-tool`,
		Args: env.Args("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeEach(e, cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.PauseTask(ctx, &deckhandv1.PauseTaskRequest{
					TaskId: id, Reason: o.reason, OnNextTool: o.onNextTool,
				})
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&o.onNextTool, "on-next-tool", false, "pause before the next tool call is made")
	return cmd
}
